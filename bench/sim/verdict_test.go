package sim

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// smallMix is three models, the first two alike, on three GPUs.
func smallMix(t *testing.T, process workload.Process, rate float64, seed uint64) *Config {
	t.Helper()
	cfg := &Config{GPUs: 3, NewPolicy: symphony, Seed: seed, Warmup: mono.Second / 2, Duration: mono.Second}
	for i, slo := range []mono.Dur{25, 25, 40} {
		cfg.Models = append(cfg.Models, Model{Profile: linear(t, 1+float64(i/2), 5), SLO: slo * mono.Millisecond,
			Stream: workload.Stream{Process: process, Shape: 0.2, Rate: rate / 3}})
	}
	return cfg
}

// TestWithin: a run that is given up would have failed, at any rate, and one
// that passes has the result of the whole run.
func TestWithin(t *testing.T) {
	passed, given := 0, 0
	for _, process := range []workload.Process{workload.Poisson, workload.Gamma} {
		for _, groups := range [][]int{nil, {0, 0, 2}} {
			for rate := 600.0; rate < 3000; rate *= 1.05 {
				for seed := range uint64(3) {
					cfg := smallMix(t, process, rate, seed)
					whole, err := Run(cfg, nil)
					if err != nil {
						t.Fatal(err)
					}
					part, pass, err := Within(cfg, groups, nil)
					if err != nil {
						t.Fatal(err)
					}
					if want := WorstBadRate(whole, groups) <= BadRateMax; pass != want {
						t.Fatalf("%v at %.0f r/s, seed %d: pass is %v; the whole run has a worst bad rate of %g", process, rate, seed, pass, WorstBadRate(whole, groups))
					}
					if pass && part.All != whole.All {
						t.Fatalf("a pass at %.0f r/s has %+v, the whole run %+v", rate, part.All, whole.All)
					}
					if pass {
						passed++
					} else if part.All.Arrived < whole.All.Arrived {
						given++
					}
				}
			}
		}
	}
	if passed < 20 || given < 20 {
		t.Fatalf("%d runs passed and %d were given up: too few to tell", passed, given)
	}
}
