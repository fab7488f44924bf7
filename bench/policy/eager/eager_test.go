package eager

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

const header = `Eager batching on 2 GPUs, l(b) = b + 5 ms, SLO 20 ms, drop policy head.

R1 and R2 run alone at once, each on a GPU of its own. What arrives meanwhile runs when the first GPU is
free: R3 to R7 at 6.00, R8 to R12 at 8.00 on the GPU that has been idle for 1 ms. Of the 20 that arrive
at 15.00, 14 fit on GPU 0 at 16.00 and the rest on GPU 1 at 18.00.`

func TestStory(t *testing.T) {
	const slo = 20 * mono.Millisecond
	s := New(policy.Config{RequestsMax: 100}, Options{Policy: batching.PolicyHead})
	y := policytest.New(t, s, []policy.Model{{Profile: policytest.Linear(t, 1, 5, 32), SLO: slo}}, 2)
	y.Submit(0, 0, 1, slo)
	y.Submit(1, 0, 1, slo)
	y.Submit(2, 0, 3, slo)
	y.Submit(4, 0, 2, slo)
	y.Submit(8, 0, 5, slo)
	y.Submit(15, 0, 20, slo)
	y.Advance(60)
	y.Golden("eager", header)
}

func TestRefusals(t *testing.T) {
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{}) })
}

// The rules of package policy, for both drop policies.
func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		for _, drops := range []batching.Policy{batching.PolicyTarget, batching.PolicyHead} {
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: 2,
				New: func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{Policy: drops}) }})
		}
	}
}
