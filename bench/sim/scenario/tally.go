package scenario

import (
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
)

// tally counts what sim.Result has not, or has for all models together only: latencies, and each
// model's queueing times and batch sizes. Memory is that of the models, not of the run.
type tally struct {
	from, to mono.Time // requests count by their arrival, batches by their run
	models   []tallied
}

// tallied is one model's. A request's wait and latency count up to twice its SLO, and up to
// unitsMax: what waited longer is late by far.
type tallied struct {
	queueTime []int64 // [i]: requests that waited i units of sim.QueueUnit
	latency   []int64 // [i]: requests answered i units after they arrived
	batches   int64
	requests  int64 // in them
}

// unitsMax of sim.QueueUnit are a second, as far as sim.Result.QueueTime goes, too.
const unitsMax = 10_000

func newTally(p *Plan) *tally {
	s := &p.Scenario
	t := &tally{from: mono.Time(s.Warmup), to: mono.Time(s.Warmup + s.Duration), models: make([]tallied, len(p.models))}
	for i := range t.models {
		units := min(unitsMax, 2*p.models[i].SLO/sim.QueueUnit+1)
		t.models[i].queueTime, t.models[i].latency = make([]int64, units), make([]int64, units)
	}
	return t
}

// executed is an Observer's.
func (t *tally) executed(e *sim.Execution) {
	if !e.Kept {
		return
	}
	m := &t.models[e.Model]
	if e.Start < t.to && e.End > t.from {
		m.batches++
		m.requests += int64(len(e.Requests))
	}
	for i := range e.Requests {
		at := e.Requests[i].Arrival
		if at >= t.from && at < t.to {
			m.queueTime[unit(e.Start.Sub(at), m.queueTime)]++
			m.latency[unit(e.Answered.Sub(at), m.latency)]++
		}
	}
}

func unit(d mono.Dur, histogram []int64) int { return min(int(d/sim.QueueUnit), len(histogram)-1) }

// latency is that of all models together.
func (t *tally) latency() []int64 {
	var all []int64
	for i := range t.models {
		own := t.models[i].latency
		all = append(all, make([]int64, max(0, len(own)-len(all)))...)
		for k, n := range own {
			all[k] += n
		}
	}
	return all
}

// watching is the observer w, and the tally beside it.
func (t *tally) watching(w sim.Observer) sim.Observer {
	other := w.Executed
	w.Executed = func(e *sim.Execution) {
		t.executed(e)
		if other != nil {
			other(e)
		}
	}
	return w
}
