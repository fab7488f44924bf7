package server

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A pool's need is a metric, from the first scrape on, and follows what arrives.
func TestNeedIsAMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, n := newServer(t, func(c *Config) { c.Metrics = registry })
	backendPeer(t, n, "b", 2, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	if got, ok := needOf(t, registry, "emulated"); !ok || got != 0 {
		t.Errorf("need %v before the first request, %v", got, ok)
	}
	id := wire.RequestID(0)
	f.wait("a need", func() bool {
		id++
		f.submit(id, 0, 100*mono.Millisecond)
		time.Sleep(10 * time.Millisecond)
		got, _ := needOf(t, registry, "emulated")
		return got > 0 && got < 2
	})
}

func needOf(t *testing.T, registry *prometheus.Registry, pool string) (float64, bool) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "symphony_need_gpus" {
			continue
		}
		for _, m := range family.Metric {
			if l := m.Label; len(l) == 1 && l[0].GetName() == "pool" && l[0].GetValue() == pool {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}
