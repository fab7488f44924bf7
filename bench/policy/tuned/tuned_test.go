package tuned

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
)

func headrooms() []rank.Headroom {
	return []rank.Headroom{{}, {Limited: true}, {Limited: true, Share: 0.25}}
}

// The rules of package policy, for all headrooms.
func TestRandom(t *testing.T) {
	for _, h := range headrooms() {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("headroom=%v/seed=%d", h, seed), func(t *testing.T) {
				policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 4, HeldMax: 2,
					New: func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{Headroom: h}) }})
			})
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, h := range headrooms() {
		policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{Headroom: h}) })
	}
}

// run is what a scheduler makes of twenty seconds of three models on two GPUs, and its batches. The
// times of all are multiples of 16 us, so that no share of a wait is rounded.
func run(t *testing.T, rate float64, make func(policy.Config) policy.Scheduler) (policytest.Tally, []string) {
	cfg := policy.Config{RequestsMax: 1 << 14, Seed: 3}
	models := []policy.Model{{Profile: policytest.Linear(t, 0.512, 4.8, 32), SLO: mono.FromMillis(48)},
		{Profile: policytest.Linear(t, 0.32, 1.6, 32), SLO: mono.FromMillis(16)}, {Profile: policytest.Linear(t, 1.6, 8, 32), SLO: mono.FromMillis(80)}}
	c := policytest.NewCluster(t, cfg, make(cfg), models, 2)
	var batches []string
	c.Observe.Dispatch = func(r *policytest.Run) {
		batches = append(batches, fmt.Sprint(r.Model, r.GPU, r.Exec, r.Until, len(r.Requests)))
	}
	c.Poisson(20*mono.Second, rate, rate, rate)
	c.Drain()
	return c.Tally, batches
}

// Without headroom it is the deferred scheduler, batch by batch.
func TestNoHeadroomIsDeferred(t *testing.T) {
	for _, rate := range []float64{5, 150, 600} {
		_, want := run(t, rate, func(cfg policy.Config) policy.Scheduler { return deferred.New(cfg, deferred.Options{}) })
		_, got := run(t, rate, func(cfg policy.Config) policy.Scheduler {
			return New(cfg, Options{Headroom: rank.Headroom{Limited: true}})
		})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v/s: %d batches without headroom, %d under the whole deferral, not the same", rate, len(got), len(want))
		}
	}
}

// What the tuner chooses is in force, and told; idle GPUs make it choose not to wait.
func TestChoiceIsInForce(t *testing.T) {
	changes := 0
	var last tuner.Choice
	s := New(policy.Config{RequestsMax: 1 << 14}, Options{Chose: func(now mono.Time, t *tuner.Tuner) {
		if c := t.Choice(); c.At != now || c.Setting == last.Setting {
			changes = -1000
		}
		last = t.Choice()
		changes++
	}})
	tally, _ := run(t, 5, func(policy.Config) policy.Scheduler { return s })
	if c := s.tuner.Choice(); c.Setting.Haste != batching.HasteAll || c.Changes != changes || changes > 3 {
		t.Errorf("%v after %d changes, %d were told", c, c.Changes, changes)
	}
	if tally.Median() != 1 || tally.BadRate() > 0.001 {
		t.Errorf("on idle GPUs: %v, median batch %d", &tally, tally.Median())
	}
}
