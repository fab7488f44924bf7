package frontend

import "github.com/prometheus/client_golang/prometheus"

// collectors are the metrics of a group of several.
func (g *group) collectors() []prometheus.Collector {
	labels := prometheus.Labels{"group": g.name}
	g.changes = prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_frontend_takeovers_total", ConstLabels: labels,
		Help: "How often another scheduler of the group, or another reign of the same, began to lead."})
	g.again = prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_frontend_sent_again_total", ConstLabels: labels,
		Help: "Open requests that were sent again, to the scheduler that took over."})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_frontend_waiting", ConstLabels: labels,
		Help: "Open requests of the group that no scheduler has which leads: they wait for one, up to their deadlines."}, func() float64 { return float64(g.waiting()) })
	return []prometheus.Collector{g.changes, g.again, waiting}
}
