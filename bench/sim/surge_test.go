package sim

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestSurge: after a quiet time far more arrives than the GPUs carry. In the
// very first second most of what they carry is served: the scheduler follows
// the surge, and does not fall to batches of one until it has learnt of it.
func TestSurge(t *testing.T) {
	for _, c := range []struct {
		profile string
		quiet   mono.Dur
		least   float64 // served in the first second, of the peak
	}{
		{"step:0s=0.001,60s=1.5", 60 * mono.Second, 0.75},
		{"step:0s=0.5,20s=1.5", 20 * mono.Second, 0.95},
	} {
		p, err := workload.ParseProfile(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		cfg := &Config{GPUs: 8, NewPolicy: symphony, Warmup: c.quiet, Duration: mono.Second, Seed: 1,
			Models: []Model{{Profile: linear(t, 1.053, 5.072), SLO: 25 * mono.Millisecond, Stream: workload.Stream{Process: workload.Poisson, Rate: 5000, Profile: p}}}}
		r, err := Run(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		const peak = 5500
		t.Logf("%s: offered %.0f, served %.0f requests/s", c.profile, r.Offered(), r.Served())
		if r.Served() < c.least*peak {
			t.Errorf("%s: served %.0f requests/s in the first second, want %.2f of %d", c.profile, r.Served(), c.least, peak)
		}
	}
}
