package tuner

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

// real is a scheduler with a setting that serves what the shadow of the same setting replays.
type real struct {
	*policytest.Cluster
	served []float64 // by model
	waited float64   // parts of the budgets
}

func newReal(t *testing.T, set batching.Setting, gpus int, flows []flow) *real {
	cfg := policy.Config{RequestsMax: 1 << 15}
	var models []policy.Model
	for _, f := range flows {
		models = append(models, f.model)
	}
	r := &real{served: make([]float64, len(flows))}
	r.Cluster = policytest.NewCluster(t, cfg, deferred.New(cfg, deferred.Options{Setting: set}), models, gpus)
	r.Observe.Dispatch = func(run *policytest.Run) {
		for _, q := range run.Requests {
			r.served[run.Model]++
			r.waited += float64(run.Exec.Sub(q.Arrival)) / float64(q.Deadline.Sub(q.Arrival))
		}
	}
	return r
}

// With time for everything, a shadow serves, drops and lets wait exactly what the scheduler with its
// setting does.
func TestShadowIsTheScheduler(t *testing.T) {
	long(t)
	flows := four(t, 300)
	flows[0].shape, flows[1].shape = 0.2, 3
	d := newDrive(Config{Share: 1000}, 1, 1, flows...)
	for _, s := range d.tried() {
		if s.setting.Cheap {
			s.rest = rest{} // it replays from the first request on
		}
	}
	var reals []*real
	for _, set := range Settings() {
		reals = append(reals, newReal(t, set, 1, flows))
	}
	for range 10_000 {
		id, deadline := d.arrival()
		if d.now >= d.turn {
			d.tune()
		}
		d.Arrive(d.now, id, deadline)
		d.dreams.forget() // only what came
		for _, r := range reals {
			r.Advance(d.now)
			r.Submit(id, 1, flows[id].model.SLO)
		}
	}
	d.turn = 0
	d.tune()
	for i, r := range reals {
		s := d.shadows[i]
		if s.rest.now { // there is one GPU: no room
			s = s.rest.twin
		}
		s.advance(s.now.Add(10 * mono.Second))
		r.Drain()
		for id := range flows {
			if got := s.tally.models[id].served; got != r.served[id] {
				t.Errorf("%v, model %d: the shadow serves %v, the scheduler %v", s.setting, id, got, r.served[id])
			}
		}
		dropped := 0
		for _, n := range r.Dropped {
			dropped += n
		}
		if s.tally.all.bad != float64(dropped) || math.Abs(s.tally.all.waited-r.waited) > 1e-6*r.waited {
			t.Errorf("%v: the shadow drops %v and waits %v, the scheduler %v and %v", s.setting, s.tally.all.bad, s.tally.all.waited, dropped, r.waited)
		}
	}
}

// Invariant 1: when a pass is over all shadows have had as many requests, up to the same instant.
func TestShadowsHaveTheSameArrivals(t *testing.T) {
	for _, rate := range []float64{50, 1000, 30_000} {
		d := newDrive(Config{}, 2, 4, four(t, rate)...)
		passes := 0
		for range 200 {
			d.run(0.1)
			if d.shadow > 0 || d.at > 0 {
				continue // in the middle of a pass
			}
			passes++
			for _, s := range d.shadows {
				if s.now != d.shadows[0].now {
					t.Fatalf("%v/s: %v is at %v, %v at %v", rate, s.setting, s.now, d.shadows[0].setting, d.shadows[0].now)
				}
			}
		}
		if passes < 5 {
			t.Errorf("%v/s: %d passes", rate, passes)
		}
		first := 0.0
		for _, s := range d.shadows {
			s.advance(s.now.Add(mono.Second)) // what waits is counted, too
			all := s.tally.all.served + s.tally.all.bad
			if first = max(first, all); math.Abs(all-first) > 1e-2*first { // what waited when tallies were halved
				t.Errorf("%v/s: %v has had %v requests, others %v", rate, s.setting, all, first)
			}
		}
	}
}
