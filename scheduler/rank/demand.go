package rank

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// demand is GPU time wanted lately, in the present span and the one before: what
// batches took, and what the requests that were lost meanwhile would have taken.
// It follows a change of load within two spans, without a division or a decay of
// all models at each batch.
//
// Rejected: the time taken alone. A model that has to shed takes less, can count
// on less for that reason, and so goes on shedding, with GPUs idle beside it.
type demand struct {
	span        int64 // number of the present one
	now, before mono.Dur
}

// demandSpan is long against a batch and short against what an operator sees.
const demandSpan = mono.Second

// roll begins the span that has number n. Planned starts may lie a little
// apart in either direction: an earlier one counts as of the present span.
func (d *demand) roll(n int64) {
	switch {
	case n == d.span+1:
		d.span, d.now, d.before = n, 0, d.now
	case n > d.span:
		d.span, d.now, d.before = n, 0, 0
	}
}

// add takes the GPU time that was wanted for a batch that starts at exec.
func (d *demand) add(exec mono.Time, wanted mono.Dur) {
	d.roll(int64(exec) / int64(demandSpan))
	d.now += wanted
}

// recent is the time wanted in the two spans that end with number n.
func (d *demand) recent(n int64) mono.Dur {
	d.roll(n)
	return d.now + d.before
}

// share is the model's part of the GPUs, in proportion to the GPU time that it
// wanted of all that was wanted: what it can count on when GPUs are scarce. 0 when
// it wanted none lately: not known.
func (r *Rank) share(m *model, now mono.Time) batching.Share {
	n := int64(now) / int64(demandSpan)
	all, own := r.demand.recent(n), m.demand.recent(n)
	if own <= 0 || all <= 0 {
		return 0
	}
	// In microseconds, so that 8,192 GPUs for two spans stay below 2^63.
	own, all = own/mono.Microsecond+1, all/mono.Microsecond+1
	return batching.Share(max(1, mono.Dur(batching.OneGPU)*mono.Dur(r.count)*own/all))
}
