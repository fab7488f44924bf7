package sim

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
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

// BenchmarkSimulator: the 37 models of the A100 zoo on 64 GPUs, offered 85 %
// and 97 % of what they carry; an op is one simulated request.
func BenchmarkSimulator(b *testing.B) {
	for _, rate := range []float64{16000, 18000} {
		b.Run(fmt.Sprintf("%.0f", rate), func(b *testing.B) {
			cfg := zooConfig(b, rate)
			cfg.Duration = mono.FromSeconds(float64(b.N) / rate)
			b.ReportAllocs()
			b.ResetTimer()
			r, err := Run(cfg, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(1e3/float64(b.Elapsed().Nanoseconds())*float64(b.N), "Mreq/s")
			b.ReportMetric(r.Utilisation(64), "busy")
			b.ReportMetric(r.BatchMean(), "batch")
		})
	}
}

func zooConfig(t testing.TB, rate float64) *Config {
	t.Helper()
	models := zoo.A100()
	cfg := &Config{GPUs: 64, NewPolicy: symphony, Seed: 1}
	for _, m := range models {
		cfg.Models = append(cfg.Models, Model{Name: m.Name, Profile: linear(t, m.Alpha.Millis(), m.Beta.Millis()), SLO: m.SLO,
			Stream: workload.Stream{Process: workload.Poisson, Rate: rate / float64(len(models))}})
	}
	return cfg
}
