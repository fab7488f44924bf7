package paper

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

func resnet(count int) Workload {
	return Workload{Models: []Model{{Name: "ResNet50", Alpha: 1.053, Beta: 5.072, SLO: 25, Count: count}}, GPUs: 8}
}

// TestGoodputs: a goodput is below its bound, each seed's search stands for
// itself, and a workload that nobody can serve has none.
func TestGoodputs(t *testing.T) {
	s := newSession(t, context.Background(), t.TempDir())
	late := resnet(1)
	late.Network.BoundCtrl = 20_000
	jobs := []GoodputJob{
		{System: Symphony, Workload: resnet(1), Seeds: []uint64{1, 2}, Seconds: 2, Tolerance: 0.05},
		{System: Symphony, Workload: late, Seeds: []uint64{1}, Seconds: 2, Tolerance: 0.05},
	}
	got, err := s.Goodputs(jobs)
	if err != nil {
		t.Fatal(err)
	}
	_, bound, err := jobs[0].Workload.Staggered()
	if err != nil || math.Round(bound) != 5839 {
		t.Fatalf("bound %g, %v", bound, err)
	}
	if g := got[0]; !(g.Rate > 0.7*bound && g.Rate < bound) || len(g.Rates) != 2 || g.Measures.Worst > 0.01 {
		t.Errorf("goodput %+v, bound %g", g, bound)
	}
	if g := got[1]; g.Rate != 0 {
		t.Errorf("goodput %g of requests whose SLO is below the network's delay", g.Rate)
	}
}

func TestRuns(t *testing.T) {
	s := newSession(t, context.Background(), t.TempDir())
	for _, name := range []string{Symphony, Algorithm1, Eager, EagerTarget, TimeoutOf(40), Clockwork, ClockworkAny, ClockworkPow2, Nexus1FE, Nexus8FE, Shepherd, ShepherdCalm} {
		got, err := s.Runs([]RunJob{{System: name, Workload: resnet(1), Rate: 1000, Seed: 1, Seconds: 1, Histograms: true}})
		if err != nil {
			t.Fatal(err)
		}
		if m := got[0]; m.Served < 900 || m.Busy <= 0 || m.Busy > 1 || len(m.GPUBusy) != 8 || len(m.Sizes) < 2 || m.Sizes[len(m.Sizes)-1] == 0 {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if _, err := s.Runs([]RunJob{{System: "Orca", Workload: resnet(1), Rate: 1, Seconds: 1}}); err == nil {
		t.Error("a system that is unknown ran")
	}
}

// TestNamesAreNotMixedUp: a system whose name reads as that of a policy of
// package scenario is that policy.
func TestNamesAreNotMixedUp(t *testing.T) {
	policies := scenario.Policies()
	for _, name := range []string{Symphony, Algorithm1, Eager, EagerTarget, Clockwork, ClockworkPow2, Nexus8FE, Shepherd, ShepherdCalm} {
		reads := strings.ReplaceAll(strings.ToLower(name), " ", "/")
		if policy, err := policyOf(name); err != nil || slices.Contains(policies, reads) && policy != reads {
			t.Errorf("the system %q is the policy %s, but reads as %s (%v)", name, policy, reads, err)
		}
	}
}

// TestParts: counts and weights, and who is judged together.
func TestParts(t *testing.T) {
	w := resnet(3)
	w.Models = append(w.Models, Model{Name: "heavy", Alpha: 1, Beta: 1, SLO: 10, Weight: 3})
	parts, err := w.parts()
	if err != nil || len(parts) != 4 {
		t.Fatalf("%v, %v", parts, err)
	}
	if parts[0].share != 1.0/6 || parts[3].share != 0.5 || parts[3].model != 1 {
		t.Errorf("parts %+v", parts)
	}
	groups, err := w.groups()
	if err != nil || groups[2] != 0 || groups[3] != 3 {
		t.Errorf("groups %v, %v", groups, err)
	}
	w.Popularity = "zipf:0.9"
	if groups, err = w.groups(); err != nil || groups[2] != 2 {
		t.Errorf("groups %v, %v: models that are not as popular are not alike", groups, err)
	}
}

func TestRate(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999.6: "1,000", 5264: "5,264", 1234567: "1,234,567", -1500: "-1,500"} {
		if got := Rate(v); got != want {
			t.Errorf("%g is written %q, want %q", v, got, want)
		}
	}
}
