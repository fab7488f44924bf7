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

// tightBad is the bad share of a model that may wait for 0.27 ms, beside two whose batches run for up to 5 ms, on four
// GPUs that are busy for some six tenths of their time.
func tightBad(t *testing.T, set batching.Setting) float64 {
	cfg := policy.Config{RequestsMax: 1 << 14}
	models := []policy.Model{{Profile: policytest.Linear(t, 0.64, 0.29, 64), SLO: mono.FromMillis(6.1)}, {Profile: policytest.Linear(t, 0.31, 0.15, 64), SLO: mono.FromMillis(8.1)},
		{Profile: policytest.Linear(t, 0.13, 0.1, 64), SLO: mono.FromMillis(0.5)}}
	c := policytest.NewCluster(t, cfg, New(cfg, Options{Setting: set}), models, 4)
	requests, bad := 0, 0
	c.Observe.Dispatch = func(r *policytest.Run) {
		if r.Model == 2 {
			requests += len(r.Requests)
		}
	}
	c.Observe.Drop = func(d *batching.Drop) {
		if d.Request.Deadline.Sub(d.Request.Arrival) == models[2].SLO {
			requests, bad = requests+1, bad+1
		}
	}
	c.Poisson(8*mono.Second, 2600, 1400, 1000)
	c.Drain()
	return float64(bad) / float64(requests)
}

// Where a GPU is left to it, a model with a tight SLO loses less than a third of what it loses without, under
// the whole deferral and without any.
func TestRoomIsForTheTight(t *testing.T) {
	for _, set := range []batching.Setting{{}, {Haste: batching.HasteAll, Cap: 92}} {
		without := tightBad(t, set)
		set.Room = true
		if with := tightBad(t, set); without < 0.01 || with > without/3 {
			t.Errorf("%v: it loses %.2f %%, %.2f %% without", set, 100*with, 100*without)
		}
	}
}

// The rules of package policy, where GPUs are left.
func TestRandomWithRoom(t *testing.T) {
	for seed := range uint64(10) {
		for _, set := range []batching.Setting{{Room: true}, {Haste: batching.HasteAll, Cap: 92, Room: true}} {
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: 2,
				New: func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{Setting: set}) }})
		}
	}
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
