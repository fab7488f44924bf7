package engine

import (
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	overrunWindow = 256 // batches remembered
	overrunEvery  = 32  // batches between two looks
	overrunRank   = 3   // the bound is the third largest: about p99 of a full window

	// overrunAge is how long a sample counts. A slow model takes long to fill
	// the window, and a pause must not cost it more than this.
	overrunAge = 5 * mono.Second
)

// overrun estimates how much later than planned a model's batches end. The
// bound is a high percentile, not the maximum: one pause of the machine must
// not make the scheduler shed for the next 256 batches.
type overrun struct {
	samples [overrunWindow]mono.Dur
	at      [overrunWindow]mono.Time
	n       int
	most    mono.Dur // clamp
	current mono.Dur
}

func newOverrun(most mono.Dur) *overrun { return &overrun{most: most} }

// add takes one batch; true when the bound changed by enough to matter.
func (o *overrun) add(now mono.Time, late mono.Dur) bool {
	o.samples[o.n%overrunWindow], o.at[o.n%overrunWindow] = late, now
	o.n++
	if o.n%overrunEvery != 0 {
		return false
	}
	var window [overrunWindow]mono.Dur
	n := 0
	for i := range min(o.n, overrunWindow) {
		if now.Sub(o.at[i]) <= overrunAge {
			window[n] = o.samples[i]
			n++
		}
	}
	slices.Sort(window[:n])
	before := o.current
	o.current = min(max(0, window[max(0, n-overrunRank)]), o.most)
	change := o.current - before
	return change > 50*mono.Microsecond || change < -50*mono.Microsecond
}

// bound is the margin that the overruns call for.
func (o *overrun) bound() mono.Dur { return o.current }

// fetches estimates how long inputs take to reach a backend, over all batches
// of the engine: the least fetch of the window is what every batch pays
// (to d_ctrl), the high percentile of the rest per item is d_data. Written by
// model loops, read by anybody; a torn window is harmless.
type fetches struct {
	base    [overrunWindow]atomic.Int64
	perItem [overrunWindow]atomic.Int64
	n       atomic.Uint64
	least   atomic.Int64
}

func (f *fetches) add(fetch mono.Dur, items int) {
	if items <= 0 || fetch < 0 {
		return
	}
	i := f.n.Add(1) - 1
	least := f.least.Load()
	if i%overrunWindow == 0 || int64(fetch) < least {
		f.least.Store(int64(fetch))
		least = int64(fetch)
	}
	f.base[i%overrunWindow].Store(int64(fetch))
	f.perItem[i%overrunWindow].Store((int64(fetch) - least) / int64(items))
}

// bounds returns the part that every batch pays and the part per item.
func (f *fetches) bounds() (base, perItem mono.Dur) {
	n := int(min(f.n.Load(), overrunWindow))
	if n < overrunRank {
		return 0, 0
	}
	least, per := make([]int64, n), make([]int64, n)
	for i := range n {
		least[i], per[i] = f.base[i].Load(), f.perItem[i].Load()
	}
	slices.Sort(least)
	slices.Sort(per)
	return mono.Dur(least[n/2]), mono.Dur(per[n-overrunRank])
}
