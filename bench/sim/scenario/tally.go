package scenario

import (
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
)

// tally counts what sim.Result has for all models together only: each model's
// queueing times and batch sizes. Memory is that of the models, not of the run.
type tally struct {
	from, to mono.Time // requests count by their arrival, batches by their run
	models   []tallied
}

// tallied is one model's. A request's wait counts up to twice its SLO: what
// waited longer is late by far.
type tallied struct {
	queueTime []int64 // [i]: requests that waited i units of sim.QueueUnit
	batches   int64
	requests  int64 // in them
}

func newTally(p *Plan) *tally {
	s := &p.Scenario
	t := &tally{from: mono.Time(s.Warmup), to: mono.Time(s.Warmup + s.Duration), models: make([]tallied, len(p.models))}
	for i := range t.models {
		units := min(10_000, 2*p.models[i].SLO/sim.QueueUnit+1)
		t.models[i].queueTime = make([]int64, units)
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
			m.queueTime[min(int(e.Start.Sub(at)/sim.QueueUnit), len(m.queueTime)-1)]++
		}
	}
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
