package sim

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestSteppedProfile: GPUs run batches in tiles, so that a measured table has
// steps: what the scheduler learns from a profile's slope must not be a step's.
// Goodput of 8 models on 16 GPUs against Algorithm 1's window and against
// eager, all with the same drop policy.
func TestSteppedProfile(t *testing.T) {
	const tile = 4
	var table []mono.Dur
	for b := 1; b <= 64; b++ {
		table = append(table, mono.FromMillis(1.061*float64((b+tile-1)/tile*tile)+5))
	}
	p, err := profile.Table(table)
	if err != nil {
		t.Fatal(err)
	}
	goodput := func(o deferred.Options) float64 {
		s := Search{Guess: 9000, Tolerance: 0.01, Groups: make([]int, 8), At: func(rate float64) (*Config, error) {
			cfg := &Config{GPUs: 16, Warmup: mono.Second, Duration: 4 * mono.Second, Seed: 1,
				NewPolicy: func(c policy.Config) policy.Scheduler { return deferred.New(c, o) }}
			for range 8 {
				cfg.Models = append(cfg.Models, Model{Profile: p, SLO: 30 * mono.Millisecond, Stream: workload.Stream{Process: workload.Poisson, Rate: rate / 8}})
			}
			return cfg, nil
		}}
		g, err := s.Run()
		if err != nil {
			t.Fatal(err)
		}
		return g.Rate
	}
	ours, frontrun, eager := goodput(deferred.Options{}), goodput(deferred.Options{Window: batching.WindowFrontrun}), goodput(deferred.Options{Window: batching.WindowEager})
	t.Logf("ours %.0f, at frontrun %.0f, eager %.0f requests/s", ours, frontrun, eager)
	if ours < 0.96*max(frontrun, eager) {
		t.Errorf("%.0f requests/s, want 0.96 of the better of %.0f and %.0f", ours, frontrun, eager)
	}
}
