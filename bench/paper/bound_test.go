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

// What the scheduler plans for the network is no time for batches, as in
// package scenario: d_ctrl twice and d_data once.
func TestFluidKnowsTheNetwork(t *testing.T) {
	w := Workload{Models: []Model{{Name: "m", Alpha: 1, Beta: 5, SLO: 20}}, GPUs: 4}
	shorter := w
	shorter.Models = []Model{{Name: "m", Alpha: 1, Beta: 5, SLO: 17}}
	w.Network = Network{BoundCtrl: 1000, BoundData: 1000}
	got, err := w.Fluid()
	want, bad := shorter.Fluid()
	if err != nil || bad != nil || math.Abs(got-want) > 1e-6 {
		t.Errorf("%g r/s, %v, want those of an SLO that is 3 ms shorter: %g, %v", got, err, want, bad)
	}
}

// No bound stands beside goodputs of bursts and of rates that change.
func TestNoBoundForBursts(t *testing.T) {
	w := Workload{Models: ModelsOf(zoo.A100()), GPUs: 64}
	for _, c := range []struct {
		arrivals, profile string
		shape             float64
		bursty            bool
	}{{"", "", 0, false}, {"constant", "", 0, false}, {"gamma", "", 2, false}, {"gamma", "", 0.05, true}, {"poisson", "step:1s=2", 0, true}} {
		w.Arrivals, w.Profile, w.Shape = c.arrivals, c.profile, c.shape
		if cell, err := w.fluidCell(); err != nil || (cell == "-") != c.bursty {
			t.Errorf("%+v: %q, %v", c, cell, err)
		}
	}
}
