package paper

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
)

// From any start the bracket closes around the edge, downwards and upwards.
func TestBracketGoesBothWays(t *testing.T) {
	for edge := 1; edge <= 60; edge++ {
		for _, start := range []int{1, 7, 20, 60} {
			tries := 0
			fails, passes, err := bracket(start, 100, func(gpus int) (bool, error) {
				tries++
				return gpus >= edge, nil
			})
			if err != nil || fails >= edge || passes < edge || fails == 0 && passes > 1 {
				t.Errorf("edge %d from %d: %d fails, %d passes, %v", edge, start, fails, passes, err)
			}
			if tries > 50 {
				t.Errorf("edge %d from %d: %d tries", edge, start, tries)
			}
		}
	}
	if _, passes, err := bracket(5, 40, func(int) (bool, error) { return false, nil }); passes != 0 || err != nil {
		t.Errorf("%d passes though nothing does, %v", passes, err)
	}
}

// The fluid bound of 100 r/s of 100 ms each, with 10 ms to gather, is six GPUs.
// When fifty requests come together five do, and the search finds them.
func TestLeastBelowTheStart(t *testing.T) {
	if invariants.Enabled {
		t.Skip("long, and nothing in it runs side by side: without the race detector")
	}
	k := leastSearch{LeastJob{System: Symphony, Rate: 100, Seconds: 300, Warmup: 1,
		Workload: Workload{Models: []Model{{Name: "flat", Alpha: 0.001, Beta: 100, SLO: 110}}, Arrivals: "gamma", Shape: 0.02}}, 1}
	bound, err := k.Workload.least(k.Rate)
	if err != nil || bound != 6 {
		t.Fatalf("bound %d, %v, want 6", bound, err)
	}
	got, err := k.run(nil)
	if err != nil || got == 0 || got >= bound {
		t.Errorf("%d GPUs of at most %d, %v", got, bound, err)
	}
}
