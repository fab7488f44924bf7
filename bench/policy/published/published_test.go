package published

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// The rules of package policy, and nothing left behind.
func TestRandom(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *Scheduler
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8,
				New: func(cfg policy.Config) policy.Scheduler {
					s = New(cfg)
					return s
				}})
			if s.waiting+s.running+s.expires.Len()+s.timers.Len()+s.ready.Len()+s.reach.Len() != 0 {
				t.Errorf("at the end %d wait, %d run, in the heaps are %d, %d, %d and %d models",
					s.waiting, s.running, s.expires.Len(), s.timers.Len(), s.ready.Len(), s.reach.Len())
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	var s *Scheduler
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler {
		s = New(cfg)
		return s
	})
	if s.waiting+s.running+s.present != 0 {
		t.Errorf("%d wait, %d run, %d GPUs", s.waiting, s.running, s.present)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := New(policy.Config{RequestsMax: 100})
	s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16), SLO: 30 * ms})
	var out policy.Out
	s.AddGPU(0, 0, &out)
	now := mono.Time(0)
	turn := func() {
		for range 3 {
			s.Submit(now, 0, batching.Request{Deadline: now.Add(30 * ms)}, &out)
		}
		now = s.NextWake()
		s.Step(now, &out)
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
	policytest.Overload(b, New(policy.Config{RequestsMax: 1 << 20}))
}
