package sim

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// triedRates is the rates that a search tries where what is up to goal passes.
func triedRates(t *testing.T, s Search, goal float64) []float64 {
	t.Helper()
	var tried []float64
	p := linear(t, 1, 5)
	s.At = func(rate float64) (*Config, error) {
		tried = append(tried, rate)
		offered := 50.0
		if rate > goal {
			offered = 5000
		}
		return &Config{GPUs: 1, NewPolicy: symphony, Duration: mono.Second / 5, Seed: 1,
			Models: []Model{{Profile: p, SLO: 40 * mono.Millisecond, Stream: workload.Stream{Process: workload.Constant, Rate: offered}}}}, nil
	}
	g, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	if g.Runs != len(tried) || g.Rate > goal || g.TooHigh <= goal || g.TooHigh > g.Rate*(1+s.Tolerance) {
		t.Fatalf("the goal is %g; found %+v in %d tries", goal, g, len(tried))
	}
	return tried
}

// TestSearchSteps: the first step is Search.Step of the guess, each next factor
// 1.25 times the last, up and down; then the bracket is halved.
func TestSearchSteps(t *testing.T) {
	for _, c := range []struct {
		step, first float64
	}{{0, 1.25}, {0.02, 1.02}, {0.25, 1.25}, {1, 2}} {
		for _, goal := range []float64{900, 12} {
			s := Search{Guess: 100, Step: c.step, Tolerance: 0.3}
			tried := triedRates(t, s, goal)
			rate, factor, i := s.Guess, c.first, 0
			for ; ; i++ {
				if math.Abs(tried[i]/rate-1) > 1e-9 {
					t.Fatalf("step %g, goal %g: tried %v, want %g at place %d", c.step, goal, tried, rate, i)
				}
				if (rate <= goal) != (s.Guess <= goal) {
					break // bracketed
				}
				if goal > s.Guess {
					rate *= factor
				} else {
					rate /= factor
				}
				factor *= 1.25
			}
			if i < 2 {
				t.Fatalf("step %g, goal %g: bracketed after %d steps: too few to tell", c.step, goal, i)
			}
			if i+1 < len(tried) {
				if half := math.Sqrt(tried[i] * tried[i-1]); math.Abs(tried[i+1]/half-1) > 1e-9 {
					t.Errorf("step %g, goal %g: tried %v, want the middle %g after the bracket", c.step, goal, tried, half)
				}
			}
		}
	}
}

// TestSearchFloor: a search that has failed down to its floor ends.
func TestSearchFloor(t *testing.T) {
	runs := 0
	s := Search{Guess: 100, Step: 0.05, Tolerance: 0.01, Floor: 70, At: func(float64) (*Config, error) {
		runs++
		return &Config{GPUs: 1, NewPolicy: symphony, Duration: mono.Second / 5, Seed: 1,
			Models: []Model{{Profile: linear(t, 1, 5), SLO: 40 * mono.Millisecond, Stream: workload.Stream{Process: workload.Constant, Rate: 5000}}}}, nil
	}}
	g, err := s.Run()
	if err != nil || g.Rate != 0 || g.TooHigh != 70 || g.Runs != runs {
		t.Errorf("%+v, %v, want no rate and a failure at 70", g, err)
	}
}

// TestSearchCoarse: what is far below the guess is found roughly, what is close
// to it in full.
func TestSearchCoarse(t *testing.T) {
	for goal, want := range map[float64]float64{980: 0.005, 500: 0.1} {
		s := Search{Guess: 1000, Step: 0.04, Tolerance: 0.005, Close: 970, Coarse: 0.1}
		g := Goodput{TooHigh: goal}
		if got := s.tolerance(&g); got != want {
			t.Errorf("tolerance %g with a failure at %g, want %g", got, goal, want)
		}
	}
}
