package devices

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// wants is what batches took, how many they were, and what the requests that were
// lost meanwhile would have taken.
type wants struct {
	batches     int
	taken, lost mono.Dur // GPU time
}

func (w wants) plus(v wants) wants {
	return wants{w.batches + v.batches, w.taken + v.taken, w.lost + v.lost}
}

func (w wants) all() mono.Dur { return w.taken + w.lost }

// lossRate is the part of the GPU time that was lost; 0 when none was wanted.
func (w wants) lossRate() float64 { return float64(w.lost) / float64(max(1, w.all())) }

// demand is what was wanted lately, in the present span and the one before. It
// follows a change of load within two spans, without a division or a decay of
// all models at each batch.
type demand struct {
	span        int64 // number of the present one
	now, before wants
}

// Span is long against a batch and short against what an operator sees.
const Span = mono.Second

// SpanOf is the number of the span that an instant lies in.
func SpanOf(t mono.Time) int64 { return int64(t) / int64(Span) }

// roll begins the span that has number n. Planned starts may lie a little
// apart in either direction: an earlier one counts as of the present span.
func (d *demand) roll(n int64) {
	switch {
	case n == d.span+1:
		d.span, d.now, d.before = n, wants{}, d.now
	case n > d.span:
		d.span, d.now, d.before = n, wants{}, wants{}
	}
}

// add takes what was wanted for a batch that starts at exec.
func (d *demand) add(exec mono.Time, w wants) {
	d.roll(SpanOf(exec))
	d.now = d.now.plus(w)
}

// recent is what was wanted in the two spans that end with number n.
func (d *demand) recent(n int64) wants {
	d.roll(n)
	return d.now.plus(d.before)
}

// Usage is what one model wanted of the GPUs lately. The zero Usage: nothing.
type Usage struct {
	demand demand
	need   need
}

// Lately is how many batches a model ran in the two spans that end with number n, the GPU time that they took, and
// what was wanted in all: that, and what was lost.
func (u *Usage) Lately(n int64) (batches int, taken, wanted mono.Dur) {
	w := u.demand.recent(n)
	return w.batches, w.taken, w.all()
}

// share is the model's part of the GPUs, in proportion to the GPU time that it
// wanted of all that was wanted: what it can count on when GPUs are scarce. 0 when
// it wanted none lately: not known.
//
// Rejected: the time taken alone. A model that has to shed takes less, can count
// on less for that reason, and so goes on shedding, with GPUs idle beside it. And
// time lost weighed more than time taken, so that losses even out: 0.5 % more from
// a mix, but the shares of the others shrink, they shed in turn, and many models
// on many GPUs go on shedding by turns for ever. Who is served first evens losses
// out better (headstart.go).
func (t *Table) share(u *Usage, now mono.Time) batching.Share {
	n := SpanOf(now)
	all, own := t.demand.recent(n).all(), u.demand.recent(n).all()
	if own <= 0 || all <= 0 {
		return 0
	}
	// In microseconds, so that 8,192 GPUs for two spans, and sixty times that in an
	// overload, stay below 2^63.
	own, all = own/mono.Microsecond+1, all/mono.Microsecond+1
	return batching.Share(max(1, mono.Dur(batching.OneGPU)*mono.Dur(t.count)*own/all))
}

// Last is the end of the last span in which the model ran a batch that is known of.
func (u *Usage) Last() mono.Time { return mono.Time(u.demand.span+1) * mono.Time(Span) }
