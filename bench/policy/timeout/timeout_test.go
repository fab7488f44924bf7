package timeout

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

const header = `Time-out batching on 2 GPUs, l(b) = b + 5 ms, largest batch 4, SLO 20 ms, k = 30 % (6 ms), drop policy head.

R1 waits for its timeout at 6.00 although both GPUs are free, and R2 and R3 come along. Four at 10.00 are
a full batch and run at once. R8 runs at 26.00, alone.`

func TestStory(t *testing.T) {
	const slo = 20 * mono.Millisecond
	s := New(policy.Config{RequestsMax: 100}, Options{Policy: batching.PolicyHead, Share: 0.3})
	y := policytest.New(t, s, []policy.Model{{Profile: policytest.Linear(t, 1, 5, 4), SLO: slo}}, 2)
	y.Submit(0, 0, 1, slo)
	y.Submit(2, 0, 2, slo)
	y.Submit(10, 0, 4, slo)
	y.Submit(20, 0, 1, slo)
	y.Advance(60)
	y.Golden("timeout", header)
}

// The rules of package policy, for both drop policies.
func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		for _, drops := range []batching.Policy{batching.PolicyTarget, batching.PolicyHead} {
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: 2,
				New: func(cfg policy.Config) policy.Scheduler {
					return New(cfg, Options{Policy: drops, Share: float64(seed) / 12})
				}})
		}
	}
}
