package paper

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/invariants"
)

// Once, a model that shed in the first moments could count on fewer GPUs for
// that reason, and went on shedding for ever: two of these twenty lost a quarter of
// their requests, with GPUs idle beside them.
func TestNoModelIsLockedOut(t *testing.T) {
	w := resnets(20, 128)
	fluid, err := w.Fluid()
	if err != nil {
		t.Fatal(err)
	}
	sys, err := SystemOf(Symphony)
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(3)
	if invariants.Enabled {
		seeds = 1
	}
	for seed := range seeds {
		c, err := w.config(sys, 0.965*fluid, seed+11, 3, 2)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sim.Run(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if worst := sim.WorstBadRate(r, nil); worst > 0.001 {
			t.Errorf("seed %d: a model lost %.1f %% of its requests at 0.965 of the fluid bound", seed+11, 100*worst)
		}
	}
}
