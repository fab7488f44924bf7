package backend

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A device is out of service while there is a reason, whoever has given it: the scheduler is
// told once of the beginning and the end, and a scheduler that comes meanwhile is told, too.
// Orders for it are forgotten.
func TestOutOfService(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t)
	defer c.close()
	registry := prometheus.NewRegistry()
	b := c.backend(func(cfg *Config) { cfg.Metrics = registry })
	defer b.Close()
	c.admit(100)
	c.wait("the data link", func() bool { return b.Ready() && b.data(3) != nil })
	said := func(n int) catalog.Service {
		t.Helper()
		var doc catalog.Service
		c.wait("what the scheduler is told", func() bool {
			var all []document
			for _, d := range c.docs {
				if d.kind == wire.DocService {
					all = append(all, d)
				}
			}
			if len(all) < n {
				return false
			}
			var err error
			if doc, err = catalog.DecodeService(all[len(all)-1].payload); err != nil || len(all) > n {
				t.Fatalf("%d documents, want %d: %v", len(all), n, err)
			}
			return true
		})
		return doc
	}
	b.OutOfService(0, 1, "device", "it is lost")
	b.OutOfService(0, 1, "telemetry", "it is hot")
	if doc := said(1); doc.Works || doc.Device != 1 || !strings.Contains(doc.Why, "it is lost") {
		t.Errorf("told %+v", doc)
	}
	if n := gauge(t, registry, "symphony_backend_out_of_service"); n != 1 {
		t.Errorf("%v devices are out", n)
	}
	c.order(100, 1, 10) // it has crossed: nobody answers it
	c.control().Close(nil)
	c.wait("another link", func() bool { return c.link != nil && !b.Ready() })
	c.admit(101)
	if doc := said(2); doc.Works || !strings.Contains(doc.Why, "device: it is lost") || !strings.Contains(doc.Why, "telemetry: it is hot") {
		t.Errorf("told %+v", doc)
	}
	b.InService(0, 1, "device")
	b.InService(0, 1, "device")
	b.InService(0, 0, "device") // of one that was never out
	b.InService(0, 1, "telemetry")
	if doc := said(3); !doc.Works || doc.Device != 1 {
		t.Errorf("told %+v", doc)
	}
	if n := gauge(t, registry, "symphony_backend_out_of_service"); n != 0 {
		t.Errorf("%v devices are out", n)
	}
	c.wait("the data link", func() bool { return b.Ready() && b.data(3) != nil })
	c.order(101, 2, 10)
	c.wait("a report", func() bool { return len(c.dones) > 0 })
	if c.dones[0].Batch != 2 {
		t.Errorf("reports %+v", c.dones)
	}
}

// gauge is the sum of a metric of the registry.
func gauge(t *testing.T, r *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
