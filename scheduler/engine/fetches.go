package engine

import (
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	fetchWindow = 256 // batches remembered
	fetchRank   = 3   // the bound is the third largest: about p99 of a full window
)

// fetches estimates how long inputs take to reach a backend, over all batches
// of the engine: the least fetch of the window is what every batch pays
// (to d_ctrl), the high percentile of the rest per item is d_data. Written by
// model loops, read by anybody; a torn window is harmless.
type fetches struct {
	base    [fetchWindow]atomic.Int64
	perItem [fetchWindow]atomic.Int64
	n       atomic.Uint64
	least   atomic.Int64
}

func (f *fetches) add(fetch mono.Dur, items int) {
	if items <= 0 || fetch < 0 {
		return
	}
	i := f.n.Add(1) - 1
	least := f.least.Load()
	if i%fetchWindow == 0 || int64(fetch) < least {
		f.least.Store(int64(fetch))
		least = int64(fetch)
	}
	f.base[i%fetchWindow].Store(int64(fetch))
	f.perItem[i%fetchWindow].Store((int64(fetch) - least) / int64(items))
}

// bounds returns the part that every batch pays and the part per item.
func (f *fetches) bounds() (base, perItem mono.Dur) {
	n := int(min(f.n.Load(), fetchWindow))
	if n < fetchRank {
		return 0, 0
	}
	least, per := make([]int64, n), make([]int64, n)
	for i := range n {
		least[i], per[i] = f.base[i].Load(), f.perItem[i].Load()
	}
	slices.Sort(least)
	slices.Sort(per)
	return mono.Dur(least[n/2]), mono.Dur(per[n-fetchRank])
}
