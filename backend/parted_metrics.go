package backend

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/backend/executor"
)

// partedMetrics count batches that ran in several parts.
type partedMetrics struct{ batches, runs, failed, saved, alone *prometheus.CounterVec }

func newPartedMetrics() partedMetrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_parted_" + name, Help: help}, []string{"pool", "model"})
	}
	return partedMetrics{
		batches: counter("batches_total", "Batches that ran in parts: a run of them failed, or they had suspects beside others."),
		runs:    counter("runs_total", "Runs of such batches, the first ones included."),
		failed:  counter("failed_runs_total", "Runs of such batches that failed."),
		saved:   counter("served_total", "Requests of such batches that ran well."),
		alone:   counter("culprits_total", "Requests of such batches on which the model failed when they ran alone."),
	}
}

func (m partedMetrics) all() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{m.batches, m.runs, m.failed, m.saved, m.alone}
}

// Describe implements prometheus.Collector.
func (m partedMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m partedMetrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}

func (m partedMetrics) add(b *Backend, p *pool, device int, d *executor.Parted) {
	name := ""
	if spec := p.spec(d.Order.ModelIndex); spec != nil {
		name = spec.Name
	}
	for i, n := range []int{1, d.Runs, d.Failed, d.Ran, d.Alone} {
		m.all()[i].WithLabelValues(p.doc.DeviceType, name).Add(float64(n))
	}
}
