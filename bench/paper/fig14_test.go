package paper

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"slices"
	"testing"
)

// Three delays and l(1) = 6.125 ms must fit into the SLO.
func TestFig14EndsWhereNothingFits(t *testing.T) {
	us := []float64{0, 1000, 4600, 4700, 40000}
	if got := reachable(20, us); !slices.Equal(got, us[:3]) {
		t.Fatalf("SLO 20 ms: %v, want up to 4,600 us (3 * 4.6 + 6.125 = 19.925)", got)
	}
	if got := reachable(6, us); len(got) != 0 {
		t.Fatalf("SLO 6 ms is below l(1): %v", got)
	}
}

// The simulator agrees on where nothing fits: just before, a slow stream of
// single requests is in time; just behind, none is.
func TestFig14LimitIsTheSimulators(t *testing.T) {
	if invariants.Enabled {
		t.Skip("long, and nothing in it runs side by side: without the race detector")
	}
	for us, want := range map[float64]bool{4600: true, 4650: false} {
		w := delayed(20, us)
		k := search{GoodputJob{System: Symphony, Workload: w, Seconds: 5, Warmup: 0.5, Tolerance: 0.05, Grouped: true, Guess: 10}, 1, nil}
		f, err := k.run(nil)
		if err != nil {
			t.Fatal(err)
		}
		if (f.Rate > 0) != want {
			t.Errorf("%g us each way: goodput %g r/s", us, f.Rate)
		}
	}
}
