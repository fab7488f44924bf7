package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/tuner"
)

// tuningMetrics are what a pool's tuner chose, and what it expects of it.
type tuningMetrics struct{ spent, changes, bad, worst, wait, seconds *prometheus.Desc }

func newTuningMetrics() tuningMetrics {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("symphony_tuner_"+name, help, append([]string{"pool"}, labels...), nil)
	}
	return tuningMetrics{
		spent:   of("deferral", "Share of the deferral that batches wait for: 1 is all of it, 0 is to start as soon as a GPU is free.", "setting"),
		changes: of("changes_total", "Changes of the setting."),
		bad:     of("expected_bad_ratio", "Share of the requests that the tuner's simulation loses, with the setting in force and with the whole deferral.", "rule"),
		worst:   of("expected_worst_bad_ratio", "The same of the model that fares worst.", "rule"),
		wait:    of("expected_wait_ratio", "Mean wait of a request in it, as a share of its budget.", "rule"),
		seconds: of("cpu_seconds_total", "Time of a processor that the tuner took."),
	}
}

func (m *tuningMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.spent, m.changes, m.bad, m.worst, m.wait, m.seconds} {
		ch <- d
	}
}

func (m *tuningMetrics) collect(ch chan<- prometheus.Metric, p *pool) {
	c, spent, ok := p.engine.Tuning()
	if !ok {
		return
	}
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{p.label()}, labels...)...)
	}
	put(m.spent, prometheus.GaugeValue, 1-float64(c.Setting.Haste)/batching.HasteAll, c.Setting.String())
	put(m.changes, prometheus.CounterValue, float64(c.Changes))
	put(m.seconds, prometheus.CounterValue, spent.Seconds())
	for _, r := range []struct {
		name string
		of   *tuner.Outlook
	}{{"chosen", &c.Chosen}, {"deferral", &c.Deferral}} {
		put(m.bad, prometheus.GaugeValue, r.of.Bad, r.name)
		put(m.worst, prometheus.GaugeValue, r.of.Worst, r.name)
		put(m.wait, prometheus.GaugeValue, r.of.Wait, r.name)
	}
}
