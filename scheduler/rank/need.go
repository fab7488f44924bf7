package rank

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

// sweep forgets silent models, and what rounding left of their sum.
func (n *needs) sweep(models []*model, span int64) {
	if span <= n.swept {
		return
	}
	n.swept, n.sum = span, 0
	for i := range models {
		if models[i] == nil {
			continue
		}
		m := &models[i].need
		if span-m.span > needSpans {
			m.gpus = 0
		}
		n.sum += m.gpus
	}
}

// Need is the GPUs that deferral alone would keep busy with what arrived lately, summed over
// the models. It does not depend on how early batches start.
func (r *Rank) Need(now mono.Time) float64 {
	r.needs.sweep(r.models, spanOf(now))
	return r.needs.sum
}
