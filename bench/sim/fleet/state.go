package fleet

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Change is what requests could notice: a model's route, or a GPU that leaves or joins its
// sub-cluster.
type Change struct {
	At       mono.Time
	Kind     plan.Kind // Route, Drain, Seat, or died
	Model    int       // -1: none
	GPU      int       // -1: none
	From, To int       // sub-clusters; -1: none
	Epoch    int       // the roll-out's, by its place in Day.Epochs
}

// died is a GPU's end, which is no step.
const died = plan.Kind(255)

// state is where all requests go, and all GPUs are.
type state struct {
	routed []int // by model
	in     []int // by GPU
}

func (d *Day) state() state {
	s := state{routed: slices.Clone(d.routed), in: make([]int, len(d.gpus))}
	for i := range d.gpus {
		s.in[i] = -1
		if d.gpus[i].state == plan.Serving {
			s.in[i] = d.gpus[i].in
		}
	}
	return s
}

func (d *Day) log(c Change) {
	c.At, c.Epoch = d.now, len(d.Epochs)-1
	d.Log = append(d.Log, c)
}

// apply takes a change over.
func (s *state) apply(c Change) {
	if c.Kind == plan.Route {
		for len(s.routed) <= c.Model {
			s.routed = append(s.routed, -1)
		}
		s.routed[c.Model] = c.To
		return
	}
	s.in[c.GPU] = c.To
}

// stateAt is the state at an instant, before what happens then.
func (d *Day) stateAt(t mono.Time) (s state, next int) {
	s = state{routed: slices.Clone(d.first.routed), in: slices.Clone(d.first.in)}
	for next < len(d.Log) && d.Log[next].At < t {
		s.apply(d.Log[next])
		next++
	}
	for len(s.routed) < len(d.models) {
		s.routed = append(s.routed, -1)
	}
	return s, next
}
