package deferred

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Best effort on paged GPUs allocates nothing in steady state, also where models make room for each other by turns.
func TestPagedEffortAllocatesNothing(t *testing.T) {
	s, out := NewPaged(policy.Config{RequestsMax: 1000, Pages: 2}, PagedOptions{}), &policy.Out{}
	for id := range wire.ModelID(5) {
		s.AddModel(id, policy.Model{Profile: policytest.Linear(t, 1, 4, 16), SLO: 100 * ms, Pages: 1, LoadTime: 3 * ms})
	}
	for id := range wire.GPUID(2) {
		s.AddGPU(0, id, out)
	}
	now, next, loaded, served := mono.Time(0), wire.RequestID(0), 0, 0
	var runs []policy.Dispatch
	var loads []policy.Load
	carry := func() {
		loads = append(loads, out.Loads...)
		for _, d := range out.Dispatches {
			served += len(d.Requests)
			d.Requests = nil
			runs = append(runs, d)
		}
		out.Reset()
	}
	turn := func() {
		for id := range wire.ModelID(5) {
			next++
			r := batching.Request{ID: next, Arrival: now, Deadline: now.Add(3600 * mono.Second), Class: wire.ClassBestEffort}
			if id == 0 {
				r.Deadline, r.Class = now.Add(100*ms), wire.ClassLatency
			}
			s.Submit(now, id, r, out)
		}
		for range 20 {
			if s.NextWake() <= now {
				s.Step(now, out)
			}
			carry()
			now = now.Add(ms)
			for i := 0; i < len(runs); i++ {
				if r := runs[i]; r.Until <= now {
					runs[i] = runs[len(runs)-1]
					runs, i = runs[:len(runs)-1], i-1
					s.Done(now, r.Batch, r.Until, out)
				}
			}
			for i := 0; i < len(loads); i++ {
				if l := loads[i]; l.Until <= now {
					loads[i] = loads[len(loads)-1]
					loads, i = loads[:len(loads)-1], i-1
					loaded++
					s.Loaded(now, policy.LoadReport{ID: l.ID, Start: l.Until.Add(-3 * ms), End: l.Until, OK: true}, out)
				}
			}
			carry()
		}
	}
	for range 2000 {
		turn()
	}
	loaded, served = 0, 0
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
	if loaded < 10 || served < 4*1000 {
		t.Errorf("%d loads and %d requests in 1,000 turns: the measured state is not the steady one", loaded, served)
	}
}
