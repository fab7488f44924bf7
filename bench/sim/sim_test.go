package sim

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

func linear(t testing.TB, alpha, beta float64) *profile.Profile {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), 256)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func symphony(c policy.Config) policy.Scheduler { return deferred.New(c, deferred.Options{}) }

// BenchmarkSimulator: 64 GPUs and 37 models, 90 % of what they can carry;
// ns/op is for one simulated request.
func BenchmarkSimulator(b *testing.B) {
	models := make([]Model, 37)
	const rate = 16000.0
	for i := range models {
		alpha := 0.1 + 0.05*float64(i%10)
		models[i] = Model{Profile: linear(b, alpha, 5+0.3*float64(i%7)), SLO: mono.FromMillis(20 + float64(i%4)*5), Stream: workload.Stream{Process: workload.Poisson, Rate: rate / 37}}
	}
	b.ReportAllocs()
	cfg := &Config{Models: models, GPUs: 64, NewPolicy: symphony, Duration: mono.FromSeconds(float64(b.N) / rate), Seed: 1}
	b.ResetTimer()
	r, err := Run(cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(r.Served()/r.Offered(), "served")
	b.ReportMetric(r.Utilisation(64), "busy")
	b.ReportMetric(r.BatchMean(), "batch")
}
