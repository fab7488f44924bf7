package cork

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// Of the three short ones, which must run at once, one is served.
func TestLostGPU(t *testing.T) {
	policytest.LostGPU(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{}) }, 5)
}

// The rules of package policy, one batch a GPU, and no more of a model than it
// may run.
func TestRandom(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *Scheduler
			opts := Options{Batches: int(seed % 3)}
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: 1,
				New: func(cfg policy.Config) policy.Scheduler {
					s = New(cfg, opts)
					return s
				},
				Check: func(c *policytest.Cluster, r *policytest.Run) {
					if n := s.models[r.Model].batches; opts.Batches > 0 && n > opts.Batches {
						t.Fatalf("at %v: model %d runs %d batches", c.Now, r.Model, n)
					}
				}})
			if s.waiting+s.running+s.rejects.Len()+s.corked.Len()+s.released.Len() != 0 || s.idle.Len() != s.present {
				t.Errorf("at the end %d wait, %d run, in the heaps are %d, %d and %d models, %d of %d GPUs are idle",
					s.waiting, s.running, s.rejects.Len(), s.corked.Len(), s.released.Len(), s.idle.Len(), s.present)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	var s *Scheduler
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler {
		s = New(cfg, Options{})
		return s
	})
	if s.waiting+s.running+s.present+s.idle.Len() != 0 {
		t.Errorf("%d wait, %d run, %d GPUs, %d idle", s.waiting, s.running, s.present, s.idle.Len())
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := New(policy.Config{RequestsMax: 100}, Options{})
	s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16)})
	var out policy.Out
	s.AddGPU(0, 0, &out)
	now := mono.Time(0)
	turn := func() {
		for range 3 {
			s.Submit(now, 0, batching.Request{Arrival: now, Deadline: now.Add(30 * ms)}, &out)
		}
		for len(out.Dispatches) == 0 {
			now = max(now, s.NextWake())
			s.Step(now, &out)
		}
		now = out.Dispatches[0].Until
		s.Done(now, out.Dispatches[0].Batch, now, &out)
		out.Reset()
	}
	turn()
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a batch, want 0", n)
	}
}

func BenchmarkOverload(b *testing.B) {
	policytest.Overload(b, New(policy.Config{RequestsMax: 1 << 20}, Options{}))
}
