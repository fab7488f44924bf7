package backend

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pageMetrics are read when they are scraped.
type pageMetrics struct {
	backend *Backend
	pages   *prometheus.Desc
}

func newPageMetrics(b *Backend) pageMetrics {
	return pageMetrics{b, prometheus.NewDesc("symphony_backend_pages", "Pages of paged devices for weights: all, and those that are free.", []string{"pool", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (m pageMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.pages }

// Collect implements prometheus.Collector.
func (m pageMetrics) Collect(out chan<- prometheus.Metric) {
	for _, p := range m.backend.pools {
		if p.doc.Paged == nil {
			continue
		}
		free, all := 0, 0
		for _, e := range p.executors {
			f, a := e.Pages()
			free, all = free+f, all+a
		}
		out <- prometheus.MustNewConstMetric(m.pages, prometheus.GaugeValue, float64(free), p.doc.DeviceType, "free")
		out <- prometheus.MustNewConstMetric(m.pages, prometheus.GaugeValue, float64(all), p.doc.DeviceType, "all")
	}
}

// loaded counts a load that was reported.
func (m *metrics) loaded(p *pool, l *wire.Loaded) {
	if l.Reason != wire.ReasonNone {
		m.loads.WithLabelValues(p.doc.DeviceType, l.Reason.String()).Inc()
		return
	}
	if l.Op == wire.OpUnload {
		m.loads.WithLabelValues(p.doc.DeviceType, "unloaded").Inc()
		return
	}
	m.loads.WithLabelValues(p.doc.DeviceType, "done").Inc()
	m.loading.WithLabelValues(p.doc.DeviceType).Observe(l.End.Sub(l.Start).Seconds())
}

// tellLoadFailed says why weights did not come. The scheduler waits longer after each failure of a model.
func (b *Backend) tellLoadFailed(p *pool, device int, o *executor.LoadOrder, err error) {
	line := b.log.Warn().Str("pool", p.doc.DeviceType).Int("device", device).Err(err)
	if spec := p.spec(o.ModelIndex); spec != nil {
		line = line.Str("model", spec.Key())
	}
	line.Msg("a model's weights could not be loaded")
}
