package paper

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/bench/zoo"
)

// TestFluidOfTheZoo: 37 models on 64 A100 carry about 19,150 r/s at most.
func TestFluidOfTheZoo(t *testing.T) {
	w := Workload{Models: ModelsOf(zoo.A100()), GPUs: 64}
	if len(w.Models) != 37 {
		t.Fatalf("%d models", len(w.Models))
	}
	got, err := w.Fluid()
	if err != nil || math.Abs(got-19150) > 100 {
		t.Errorf("%g r/s, %v", got, err)
	}
	if batch, _, _ := w.Staggered(); batch != 0 {
		t.Error("the staggered bound is for one model")
	}
}
