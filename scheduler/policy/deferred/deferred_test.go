package deferred

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
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
