package sim_test

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestNeed: at a steady rate it is the formula's; the spans cover the counted time; and
// what a policy does with the GPUs does not matter.
func TestNeed(t *testing.T) {
	type told struct {
		needs      []float64
		mean, peak float64
	}
	var first told
	busy := map[string]float64{}
	for _, policy := range []string{"symphony/headroom:0", "symphony", "eager", "clockwork"} {
		cfg := config(t, policy, 4, 1000, 0)
		cfg.Warmup, cfg.Duration, cfg.NeedSpan = mono.Second, 5500*ms, mono.Second
		want, got, end := 0.0, told{}, mono.Time(cfg.Warmup)
		for i := range cfg.Models {
			m := &cfg.Models[i]
			want += batching.Need(m.Profile, m.SLO, m.Stream.Rate/1e9)
		}
		cfg.Observer.Need = func(from, to mono.Time, gpus float64) {
			if from != end || to <= from || to.Sub(from) > cfg.NeedSpan {
				t.Errorf("%s: a span from %v to %v after %v", policy, from, to, end)
			}
			got.needs, end = append(got.needs, gpus), to
		}
		r, err := sim.Run(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		got.mean, got.peak, busy[policy] = r.NeedMean, r.NeedPeak, r.Utilisation(4)
		if len(got.needs) != 6 || end != mono.Time(cfg.Warmup+cfg.Duration) || math.Abs(got.mean-want) > 0.05*want || got.peak < got.mean {
			t.Errorf("%s: %+v to %v, want about %.2f", policy, got, end, want)
		}
		if first.needs == nil {
			first = got
		}
		for i := range got.needs {
			if got.needs[i] != first.needs[i] || got.mean != first.mean || got.peak != first.peak {
				t.Fatalf("%s: %+v, want %+v as with the first policy", policy, got, first)
			}
		}
	}
	if busy["symphony"] < 1.2*busy["symphony/headroom:0"] || busy["eager"] < 1.2*busy["symphony/headroom:0"] {
		t.Errorf("busy shares %v differ too little to show anything", busy)
	}
}
