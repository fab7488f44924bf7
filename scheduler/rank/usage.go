package rank

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// usage is GPU time taken lately: in the present span and the one before. It
// follows a change of load within two spans, without a division or a decay of
// all models at each batch.
type usage struct {
	span        int64 // number of the present one
	now, before mono.Dur
}

// usageSpan is long against a batch and short against what an operator sees.
const usageSpan = mono.Second

// roll begins the span that has number n. Planned starts may lie a little
// apart in either direction: an earlier one counts as of the present span.
func (u *usage) roll(n int64) {
	switch {
	case n == u.span+1:
		u.span, u.now, u.before = n, 0, u.now
	case n > u.span:
		u.span, u.now, u.before = n, 0, 0
	}
}

// add takes a batch that starts at exec.
func (u *usage) add(exec mono.Time, length mono.Dur) {
	u.roll(int64(exec) / int64(usageSpan))
	u.now += length
}

// recent is the time taken in the two spans that end with number n.
func (u *usage) recent(n int64) mono.Dur {
	u.roll(n)
	return u.now + u.before
}

// share is the model's part of the GPUs, in proportion to the GPU time that
// its batches took of all that was taken: what it can count on when GPUs are
// scarce. 0 when it took none lately: not known.
func (r *Rank) share(m *model, now mono.Time) batching.Share {
	n := int64(now) / int64(usageSpan)
	all, own := r.usage.recent(n), m.usage.recent(n)
	if own <= 0 || all <= 0 {
		return 0
	}
	// In microseconds, so that 8,192 GPUs for two spans stay below 2^63.
	own, all = own/mono.Microsecond+1, all/mono.Microsecond+1
	return batching.Share(max(1, mono.Dur(batching.OneGPU)*mono.Dur(r.count)*own/all))
}
