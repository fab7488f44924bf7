package soak

import (
	"reflect"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func planConfig(seed uint64) PlanConfig {
	return PlanConfig{Seed: seed, Duration: 1800 * mono.Second, Every: 15 * mono.Second, Kinds: Kinds(), Backends: 4, Frontends: 2, Links: 12}
}

// One seed has one plan, another seed another one.
func TestPlanIsItsSeeds(t *testing.T) {
	if a, b := Plan(planConfig(7)), Plan(planConfig(7)); !reflect.DeepEqual(a, b) {
		t.Error("one seed, two plans")
	}
	if reflect.DeepEqual(Plan(planConfig(7)), Plan(planConfig(8))) {
		t.Error("two seeds, one plan")
	}
}

// Whatever the seed: times rise and leave time to recover, targets exist, and no kind
// is drawn twice as long as another was not drawn at all.
func TestPlanIsSound(t *testing.T) {
	for seed := range uint64(50) {
		c := planConfig(seed)
		faults := Plan(c)
		if n := len(faults); n < 90 || n > 160 {
			t.Fatalf("seed %d: %d faults in %v, one each %v", seed, n, c.Duration, c.Every)
		}
		seen, last := map[Kind]int{}, mono.Dur(0)
		for i, f := range faults {
			most := map[Kind]int{BackendKill: c.Backends, BackendStop: c.Backends, FrontendKill: c.Frontends, SlowLoris: c.Frontends,
				LinkDelay: c.Links, LinkStall: c.Links, LinkCut: c.Links}[f.Kind]
			if f.At <= last || f.At+c.Every/2 > c.Duration || f.Hold < 0 || f.Hold > 3*mono.Second || f.Target < 0 || f.Target >= max(1, most) {
				t.Fatalf("seed %d: fault %d: %+v", seed, i, f)
			}
			last = f.At
			if seen[f.Kind]++; seen[f.Kind] > i/len(c.Kinds)+1 {
				t.Fatalf("seed %d: %s comes too often among the first %d", seed, f.Kind, i+1)
			}
		}
	}
}
