package engine

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	fetchClasses = 32      // of bytes, each twice as large as the one before; the last has all that is larger
	fetchKept    = 32      // batches remembered of each
	fetchLeast   = 8       // fewer of a class tell nothing
	fetchAge     = 1 << 14 // batches ago is too long
)

// fetches estimates how long inputs take to reach a backend, over batches of the engine: a line through
// the median times of batches of a size (a power of two of bytes). Its slope is what a MiB takes (d_data); what
// every batch pays (to d_ctrl) is the median of what lies beyond it. Who is later than that is what margins are for
// (overrun), which know whether it mattered: a GPU that is busy does not wait.
//
// Each size keeps batches of its own, so that pictures are remembered among a thousand sentences; medians, so
// that one late picture is no slope.
//
// A high percentile of the time for each input, which was reckoned before, was the scatter of single
// requests' times, 50 to 300 us each, and multiplied by the batch's size: 5 ms of a batch of 16 whose inputs took 50 us.
//
// Written by model loops, read by anybody; a torn entry is harmless.
type fetches struct {
	n       atomic.Uint64
	classes [fetchClasses]fetchClass
}

type fetchClass struct {
	n    atomic.Uint64
	kept [fetchKept]struct{ took, bytes, at atomic.Int64 } // at: of fetches.n
}

func (f *fetches) add(took mono.Dur, bytes int64) {
	if bytes < 0 || took < 0 {
		return
	}
	c := &f.classes[min(bits.Len64(uint64(bytes)), fetchClasses-1)]
	k := &c.kept[(c.n.Add(1)-1)%fetchKept]
	k.took.Store(int64(took))
	k.bytes.Store(bytes)
	k.at.Store(int64(f.n.Add(1)))
}

// size is what is known of the batches of a class.
type size struct {
	took  []float64 // ns, ascending
	bytes float64   // mean
}

func (s *size) median() float64 { return s.took[len(s.took)/2] }

// sizes are the classes that tell something, and all that is remembered.
func (f *fetches) sizes() (known []size, all []float64) {
	now := int64(f.n.Load())
	for i := range f.classes {
		c := &f.classes[i]
		var s size
		for j := range min(c.n.Load(), fetchKept) {
			k := &c.kept[j]
			if now-k.at.Load() < fetchAge {
				s.took = append(s.took, float64(k.took.Load()))
				s.bytes += float64(k.bytes.Load())
			}
		}
		all = append(all, s.took...)
		if len(s.took) >= fetchLeast {
			s.bytes /= float64(len(s.took))
			slices.Sort(s.took)
			known = append(known, s)
		}
	}
	return known, all
}

// bounds returns the part that every batch pays and the part per MiB.
func (f *fetches) bounds() (base, perMiB mono.Dur) {
	known, all := f.sizes()
	if len(all) < fetchLeast {
		return 0, 0
	}
	slope := slopeOf(known)
	if len(known) > 0 {
		all = all[:0]
		for _, s := range known {
			for _, took := range s.took {
				all = append(all, took-slope*s.bytes)
			}
		}
	}
	slices.Sort(all)
	return mono.Dur(max(0, all[len(all)/2])), mono.Dur(slope * (1 << 20))
}

// slopeOf is that of the line of least squares through the medians, in ns for each byte, less twice what
// chance makes of it: sizes that lie close together, as those of sentences do, tell nothing of larger ones. 0: nothing
// says that more bytes take longer.
func slopeOf(sizes []size) float64 {
	var n, mx, my float64
	for _, s := range sizes {
		w := float64(len(s.took))
		n, mx, my = n+w, mx+w*s.bytes, my+w*s.median()
	}
	mx, my = mx/n, my/n
	var xx, xy float64
	var off []float64 // of each batch from its size's median
	for _, s := range sizes {
		w, dx := float64(len(s.took)), s.bytes-mx
		xx, xy = xx+w*dx*dx, xy+w*dx*(s.median()-my)
		for _, took := range s.took {
			off = append(off, math.Abs(took-s.median()))
		}
	}
	if xx == 0 || n == 0 {
		return 0
	}
	slices.Sort(off)
	const deviation, ofMedian = 1.4826, 1.2533 // of the normal distribution: by the median of distances; of a median to that of a mean
	chance := deviation * ofMedian * off[len(off)/2] / math.Sqrt(xx)
	return max(0, xy/xx-2*chance)
}
