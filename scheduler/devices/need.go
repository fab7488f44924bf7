package devices

import "github.com/symphony-serving/symphony/transport/mono"

// need is what a model said last, and when: the GPUs that deferral alone would keep
// busy with it.
type need struct {
	gpus float64
	span int64
}

// needs sums them up. A model that ran nothing for needSpans counts no more.
type needs struct {
	sum   float64
	swept int64 // the span of the last look for silent models
}

// needSpans is long against the gaps of a model whose need matters.
const needSpans = 10

// set takes what a model says.
func (n *needs) set(m *need, gpus float64, span int64) {
	n.sum += gpus - m.gpus
	m.gpus, m.span = gpus, max(m.span, span)
}

// SetNeed takes the GPUs that deferral alone would keep busy with a model, as of a batch that
// starts at exec.
func (t *Table) SetNeed(u *Usage, gpus float64, exec mono.Time) {
	t.needs.set(&u.need, gpus, SpanOf(exec))
}

// Ran is the number of the span in which the last batch that is known of started; 0: none did.
func (u *Usage) Ran() int64 { return u.need.span }

// Forget takes a model's need off the sum; its Usage is not used any more.
func (t *Table) Forget(u *Usage) { t.needs.sum -= u.need.gpus }

// Sweeping begins to sum up the needs anew, which forgets silent models and what rounding left, if
// that is due, once a second: then call Sweep for each model.
func (t *Table) Sweeping(now mono.Time) bool {
	span := SpanOf(now)
	if span <= t.needs.swept {
		return false
	}
	t.needs.swept, t.needs.sum = span, 0
	return true
}

// Sweep takes a model's need into the new sum.
func (t *Table) Sweep(u *Usage) {
	if t.needs.swept-u.need.span > needSpans {
		u.need.gpus = 0
	}
	t.needs.sum += u.need.gpus
}

// Need is the GPUs that deferral alone would keep busy with what arrived lately, summed over
// the models, as of the last sweep. It does not depend on how early batches start.
func (t *Table) Need() float64 { return t.needs.sum }
