package plan

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func at(seconds float64) mono.Time { return mono.Time(mono.FromSeconds(seconds)) }

// decide asks once a second from one instant to another, and returns when the first plan was
// called for and why.
func decide(e *Epochs, from, to float64, s func(t float64) Signals) (float64, Why) {
	for t := from; t < to; t++ {
		if why := e.Decide(at(t), s(t)); why != No {
			return t, why
		}
	}
	return to, No
}

func TestEpochs(t *testing.T) {
	const gpus = 10
	steady := func(catalogue, gpusSeen uint64, need float64) func(float64) Signals {
		return func(float64) Signals {
			return Signals{Catalogue: catalogue, GPUs: gpusSeen, Needs: []NeedOf{{"a", gpus, need, 6}, {"b", 1, 0.5, 0.5}}}
		}
	}
	for _, c := range []struct {
		name  string
		s     func(float64) Signals
		after float64
		why   Why
	}{
		{"nothing happens", steady(1, 1, 6), 300, Regular},
		{"needs wobble", func(t float64) Signals { return steady(1, 1, 6+2*float64(int(t)%2))(t) }, 300, Regular},
		{"needs drift up", steady(1, 1, 8.6), 30, Drift},
		{"needs drift down", steady(1, 1, 3.4), 30, Drift},
		{"a peak of ten seconds", func(t float64) Signals {
			if t > 50 && t < 60 {
				return steady(1, 1, 30)(t)
			}
			return steady(1, 1, 6)(t)
		}, 300, Regular},
		{"a sub-cluster is short", steady(1, 1, 10.1), 30, Short},
		{"a model comes", steady(2, 1, 6), 2, Catalogue},
		{"a GPU comes", steady(1, 2, 6), 30, GPUs},
		{"models come all the time", func(t float64) Signals { return steady(uint64(t)+2, 1, 6)(t) }, 20, Catalogue},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := NewEpochs(EpochConfig{})
			if when, why := decide(e, 0, 100, steady(1, 1, 6)); why != First || when != 2 {
				t.Fatalf("the first plan comes after %vs, %v", when, why)
			}
			e.Planned(at(2))
			if when, why := decide(e, 2, 1000, c.s); why != c.why || when-2 != c.after {
				t.Errorf("a plan after %vs because of %v, want %vs, %v", when-2, why, c.after, c.why)
			}
		})
	}
}

func TestWorth(t *testing.T) {
	e := NewEpochs(EpochConfig{})
	for _, c := range []struct {
		why       Why
		now, then float64
		moves     int
		want      bool
	}{
		{Regular, 300, 298, 3, false}, {Regular, 300, 297, 3, true}, {Regular, 100, 100, 0, true}, {Drift, 10, 9.4, 1, false}, {Drift, 10, 9, 1, true},
		{Short, 100, 110, 50, true}, {Catalogue, 100, 100, 1, true}, {GPUs, 100, 100, 9, true}, {First, 0, 50, 9, true},
	} {
		if got := e.Worth(c.why, c.now, c.then, c.moves); got != c.want {
			t.Errorf("%v: from %v GPUs to %v with %d moves: %v", c.why, c.now, c.then, c.moves, got)
		}
	}
}
