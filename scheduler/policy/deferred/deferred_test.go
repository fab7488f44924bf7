package deferred

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The rules of package policy, for all windows and both drop policies.
func TestRandom(t *testing.T) {
	for _, window := range []batching.Window{batching.WindowDeferred, batching.WindowFrontrun, batching.WindowEager, batching.WindowTimeout} {
		for _, drops := range []batching.Policy{batching.PolicyTarget, batching.PolicyHead} {
			for seed := range uint64(12) {
				t.Run(fmt.Sprintf("window=%d/drops=%d/seed=%d", window, drops, seed), func(t *testing.T) {
					var s *Scheduler
					policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: 2,
						New: func(cfg policy.Config) policy.Scheduler {
							s = New(cfg, Options{Window: window, Policy: drops, TimeoutShare: float64(seed) / 12})
							return s
						}})
					if n := s.shard.Used(); n != 0 {
						t.Errorf("%d requests are counted at the end", n)
					}
				})
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{}) })
}

// What a request counts as for loads is the time that it takes, scaled by the time that it has.
func TestPagedDemandIsScaled(t *testing.T) {
	const ms = mono.Millisecond
	for _, c := range []struct{ slo, want mono.Dur }{{100 * ms, 6 * ms}, {25 * ms, 24 * ms}, {8 * ms, 75 * ms}} {
		s, out := NewPaged(policy.Config{RequestsMax: 10, Pages: 10}, PagedOptions{}), &policy.Out{}
		s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16), SLO: c.slo, Pages: 5, LoadTime: 8 * ms})
		s.AddGPU(0, 0, out)
		s.Submit(0, 0, batching.Request{Deadline: mono.Time(c.slo)}, out)
		if d, n := s.Residency().Demand(0); d != c.want || n != 1 {
			t.Errorf("SLO %v: a demand of %v by %d requests, want %v by one", c.slo, d, n, c.want)
		}
	}
}
