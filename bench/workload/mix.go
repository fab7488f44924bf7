package workload

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Mix merges independent streams, one for each model.
//
// Poisson streams with the same profile are drawn as one, of the sum of their
// rates, each arrival's model by its part of the sum: the same distribution,
// without a heap. So one model's arrivals change when another Poisson model is
// added; those of other processes do not.
type Mix struct {
	flows []flow
	next  pq.Heap // flow -> instant of its next arrival
}

// group is what becomes one flow.
type group struct {
	Stream
	models []int32
	rates  []float64
}

// NewMix checks the streams, which are one for each model. Each has its full
// rate from instant 0 on; Constant ones begin in order, evenly within a gap.
func NewMix(streams []Stream, seed uint64) (*Mix, error) { return mixOf(streams, seed, nil) }

func mixOf(streams []Stream, seed uint64, tape *Tape) (*Mix, error) {
	groups, err := groupStreams(streams)
	if err != nil {
		return nil, err
	}
	m := &Mix{flows: make([]flow, len(groups))}
	for k, g := range groups {
		model := g.models[0]
		f, err := newFlow(g.Stream, g.models, g.rates, newRandom(seed, uint64(model)))
		if err != nil {
			return nil, fmt.Errorf("model %d: %w", model, err)
		}
		f.tape = tape.of(&g, seed)
		m.flows[k] = f
		first := m.flows[k].gap()
		if g.Process == Constant {
			first = float64(model) / float64(len(streams))
		}
		m.set(uint32(k), m.flows[k].after(first))
	}
	return m, nil
}

func groupStreams(streams []Stream) ([]group, error) {
	if len(streams) == 0 {
		return nil, fmt.Errorf("%w: no models", ErrInvalid)
	}
	var groups []group
	poisson := map[*Profile]int{} // -> group
	for i, s := range streams {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("model %d: %w", i, err)
		}
		if s.Rate < rateMin {
			continue
		}
		k, ok := poisson[s.Profile]
		if !ok || s.Process != Poisson {
			k = len(groups)
			groups = append(groups, group{Stream: Stream{s.Process, s.Shape, 0, s.Profile}})
		}
		if s.Process == Poisson {
			poisson[s.Profile] = k
		}
		g := &groups[k]
		g.Rate += s.Rate
		g.models, g.rates = append(g.models, int32(i)), append(g.rates, s.Rate)
	}
	return groups, nil
}

func (m *Mix) set(k uint32, at mono.Time) {
	if at == mono.Never {
		m.next.Remove(k)
		return
	}
	m.next.Set(k, int64(at))
}

// Next implements Source; it ends only when every profile has come to 0, or
// after 292 years.
func (m *Mix) Next() (mono.Time, int, bool) {
	if m.next.Len() == 0 {
		return mono.Never, 0, false
	}
	k, at := m.next.Min()
	f := &m.flows[k]
	m.set(k, f.after(f.gap()))
	return mono.Time(at), f.model(), true
}
