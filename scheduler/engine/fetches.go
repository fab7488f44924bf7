package engine

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	fetchWindow = 256 // batches remembered
	fetchLeast  = 3   // fewer tell nothing
)

// fetches estimates how long inputs take to reach a backend, over the last batches of the engine: a
// line through the times by the batches' bytes. Its slope is what a MiB takes (d_data); what every batch
// pays (to d_ctrl) is the median of what lies beyond it. Who is later than that is what margins are for
// (overrun), which know whether it mattered: a GPU that is busy does not wait.
//
// A high percentile of the time for each input, which was reckoned before, was the scatter of single
// requests' times, 50 to 300 us each, and multiplied by the batch's size: 5 ms of a batch of 16 whose inputs took 50 us.
//
// Written by model loops, read by anybody; a torn window is harmless.
type fetches struct {
	took  [fetchWindow]atomic.Int64
	bytes [fetchWindow]atomic.Int64
	n     atomic.Uint64
}

func (f *fetches) add(took mono.Dur, bytes int64) {
	if bytes < 0 || took < 0 {
		return
	}
	i := (f.n.Add(1) - 1) % fetchWindow
	f.took[i].Store(int64(took))
	f.bytes[i].Store(bytes)
}

// bounds returns the part that every batch pays and the part per MiB.
func (f *fetches) bounds() (base, perMiB mono.Dur) {
	n := int(min(f.n.Load(), fetchWindow))
	if n < fetchLeast {
		return 0, 0
	}
	x, y := make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i] = float64(f.bytes[i].Load())/(1<<20), float64(f.took[i].Load())
	}
	slope := slopeOf(x, y)
	for i := range y {
		y[i] -= slope * x[i]
	}
	slices.Sort(y)
	return mono.Dur(max(0, y[n/2])), mono.Dur(slope)
}

// slopeOf is that of the line of least squares, less what may be chance in it; 0: nothing says that more bytes
// take longer.
func slopeOf(x, y []float64) float64 {
	n := float64(len(x))
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	if xx == 0 || n <= 2 {
		return 0
	}
	slope := xy / xx
	rest := max(0, yy-slope*xy)
	return max(0, slope-math.Sqrt(rest/(n-2)/xx))
}
