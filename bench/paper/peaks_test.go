package paper

import (
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The workloads that must be kept: two of table 2, one of strong batching, six
// bars, thirteen flat tops, four panels of nine SLOs. Names are told apart.
func TestKeptWorkloads(t *testing.T) {
	sets, names := map[string]int{}, map[string]bool{}
	for _, k := range keptWorkloads() {
		sets[k.Set]++
		if names[k.Set+k.Name] {
			t.Errorf("%s: %s twice", k.Set, k.Name)
		}
		names[k.Set+k.Name] = true
		if fluid, err := k.Workload.Fluid(); err != nil || !(fluid > 0) {
			t.Errorf("%s: %s: bound %g, %v", k.Set, k.Name, fluid, err)
		}
	}
	for set, n := range map[string]int{"table 2": 2, "strong batching": 1, "figure 9": 6, "flat top": 13, "figure 11": 36} {
		if sets[set] != n {
			t.Errorf("%s: %d workloads, want %d", set, sets[set], n)
		}
	}
}

// A mean ratio of 0.995 keeps a peak, 0.99 where the intervals overlap.
func TestPeakKeeps(t *testing.T) {
	of := func(pairs ...float64) (p peakResult) {
		for i := 0; i < len(pairs); i += 2 {
			p = append(p, peakFound{Goodput: [2]float64{pairs[i], pairs[i+1]}})
		}
		return p
	}
	for _, c := range []struct {
		result peakResult
		ratio  float64
		want   bool
	}{
		{of(1000, 1000, 1001, 1001, 999, 999), 1, true},
		{of(994, 1000, 994, 1000, 994, 1000), 0.994, false}, // no scatter: no overlap
		{of(984, 1000, 994, 1000, 1004, 1000), 0.994, true},
		{of(970, 1000, 985, 1000, 1000, 1000), 0.985, false},
		{of(0, 0), 1, true}, // nobody serves any rate
		{of(0, 100), 0, false},
	} {
		if r := c.result.ratio(); math.Abs(r.mean-c.ratio) > 1e-9 || c.result.keeps() != c.want {
			t.Errorf("%v: ratio %g, keeps %v; want %g, %v", c.result.goodputs(0), r.mean, c.result.keeps(), c.ratio, c.want)
		}
	}
}

// One workload, with little time: both find a goodput near the other's, and
// serve it beyond.
func TestPeakJob(t *testing.T) {
	j := peakJob{Workload: singles()[0].workload, Seed: seedFirst, Seconds: 1, Warmup: 1, Over: 1, Tolerance: 0.02}
	f, err := j.run(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := f.Goodput[0] / f.Goodput[1]; !(r > 0.9 && r < 1.1) || f.Over[0][0] < 0.9 || f.Over[1][1] < 0.9 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.Chose, "%; changes ") {
		t.Errorf("chose %q", f.Chose)
	}
}

// Shares of the span that counts; what was over before it does not.
func TestChoiceShares(t *testing.T) {
	at := func(s float64) mono.Time { return mono.Time(mono.FromSeconds(s)) }
	full, none := batching.Setting{}, batching.Setting{Haste: batching.HasteAll}
	c := choices{at: []mono.Time{0, at(1), at(12), at(17)}, setting: []batching.Setting{none, full, none, full}}
	if got := c.shares(10, 20); got != "1 50.0 %, 0 50.0 %; changes 2" {
		t.Error(got)
	}
	if got := c.shares(2, 10); got != "1 100.0 %; changes 0" {
		t.Error(got)
	}
}

// Claims go by set, and name who is below the line.
func TestPeaksReport(t *testing.T) {
	s := newSession(t, t.Context(), t.TempDir())
	over := [2][2]float64{{1.1, 0.97}, {1, 1}}
	list := []keptWorkload{{"a", "one", Workload{}}, {"a", "two", Workload{}}, {"b", "three", Workload{}}}
	same := peakResult{{Goodput: [2]float64{10, 10}, Over: [2][2]float64{{1, 1}, {1, 1}}}}
	if err := s.peaksReport("peaks", list, []peakResult{same, {{Goodput: [2]float64{9, 10}, Over: over}}, same}); err != nil {
		t.Fatal(err)
	}
	claims := s.section.Claims
	if len(claims) != 4 || claims[0].Holds || claims[1].Holds || !claims[2].Holds || !claims[3].Holds {
		t.Fatalf("%+v", claims)
	}
	if claims[0].Why != "two (0.9000)" || !strings.HasPrefix(claims[1].Why, "two at 2x (0.970") {
		t.Errorf("%q, %q", claims[0].Why, claims[1].Why)
	}
}
