package backend

import "github.com/prometheus/client_golang/prometheus"

// reignMetrics say which scheduler is obeyed, and what became of others' orders.
type reignMetrics struct {
	backend *Backend

	kept, refused  prometheus.Counter // promises
	batches, keeps prometheus.Counter // orders of schedulers that are not obeyed
	given          prometheus.Counter // batches that were given up for another scheduler's sake

	all                   []prometheus.Collector
	reign, linked, obeyed *prometheus.Desc
}

func newReignMetrics(b *Backend) reignMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_" + name, Help: help}, labels)
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("symphony_backend_"+name, help, labels, nil)
	}
	promises := counter("promises_total", "Schedulers that asked to be obeyed, by whether they are (kept, refused).", "answer")
	orders := counter("overtaken_orders_total", "Orders of schedulers that are not obeyed (batch, keep): ignored.", "order")
	given := counter("given_up_total", "Batches that had not begun when another scheduler took over: it has their requests again.")
	return reignMetrics{backend: b,
		kept: promises.WithLabelValues("kept"), refused: promises.WithLabelValues("refused"),
		batches: orders.WithLabelValues("batch"), keeps: orders.WithLabelValues("keep"), given: given.WithLabelValues(),
		all:    []prometheus.Collector{promises, orders, given},
		reign:  desc("reign", "The highest reign that was promised (when it began, about, in ns since 1970); 0: none."),
		linked: desc("scheduler_linked", "1: the scheduler has admitted this backend.", "scheduler"),
		obeyed: desc("scheduler_obeyed", "1: the scheduler's orders are obeyed.", "scheduler"),
	}
}

// Describe implements prometheus.Collector.
func (m reignMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(out)
	}
	out <- m.reign
	out <- m.linked
	out <- m.obeyed
}

// Collect implements prometheus.Collector.
func (m reignMetrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(out)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	yes := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	highest, obeyed := m.backend.reigns.state()
	gauge(m.reign, float64(highest))
	for _, u := range m.backend.uplinks {
		gauge(m.linked, yes(u.link.Load() != nil), u.address)
		gauge(m.obeyed, yes(u == obeyed), u.address)
	}
}
