package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestPagedPlans: models whose weights come and go change sub-clusters, and GPUs with them, while weights are loaded. Each request has
// one answer, most are served, and no page is missing at the end.
func TestPagedPlans(t *testing.T) {
	beside(t)
	models := many(12, "500ms") // of seven pages, 50 ms to load
	p := newPlanned(t, []string{"--data", t.TempDir()}, 4, models...)
	p.memory = "paged: {pages: 21}"
	p.startController()
	p.backends = append(p.backends, nil)
	p.startBackend(0)
	p.startFrontend()
	p.addAll(models)
	p.dial(names(models)...)
	first, second := halves(models, 4, 2, 2), halves(models, 8, 2, 2)
	second.SubClusters[0].GPUs, second.SubClusters[1].GPUs = 3, 1
	p.apply(first)
	eventually(t, epochTime, "the first plan is in force", func() error { return p.settled(first) })
	before := metric(t, p.metrics, "symphony_loads_total")
	f := p.trafficOf(60, names(models)...)
	from := time.Now()
	for i := range 4 {
		time.Sleep(time.Second)
		spec := first
		if i%2 == 0 {
			spec = second
		}
		p.apply(spec)
		eventually(t, epochTime, fmt.Sprint("plan ", i+2), func() error { return p.settled(spec) })
	}
	bad, all, reasons := f.share(from, time.Now().Add(-time.Second))
	f.stop(t)
	loads := metric(t, p.metrics, "symphony_loads_total") - before
	t.Logf("%d asked, bad %.3f: %v; %g loads", all, bad, reasons, loads)
	if all < 200 || loads < 20 {
		t.Errorf("%d requests and %g loads show little", all, loads)
	}
	if bad > 1.0/3 {
		t.Errorf("%.2f of %d requests were not served: %v", bad, all, reasons)
	}
	if n := metric(t, p.metrics, "symphony_pages", `state="missing"`); n != 0 {
		t.Errorf("%g pages are missing", n)
	}
}
