package controller

import "github.com/prometheus/client_golang/prometheus"

// adviceMetrics tell the advice as it is when they are read; nothing, where another controller leads.
type adviceMetrics struct {
	c    *Controller
	want *prometheus.Desc
	now  *prometheus.Desc
	size *prometheus.Desc
	what *prometheus.Desc
}

func newAdviceMetrics(c *Controller) *adviceMetrics {
	of := []string{"scheduler", "device_type"}
	return &adviceMetrics{c: c,
		want: prometheus.NewDesc("symphony_control_advice_gpus", "GPUs that there should be.", of, nil),
		now:  prometheus.NewDesc("symphony_control_scaling_gpus", "GPUs that serve, are on order, or are needed: see state.", append(of, "state"), nil),
		size: prometheus.NewDesc("symphony_control_scaling_replicas", "Replicas that the scaler is to have (size), that serve, are late, dead, or leaving: see state.", append(of, "state"), nil),
		what: prometheus.NewDesc("symphony_control_advice_action", "1 for what is advised now (keep, add, await, drain, wait, spare); symphony advice has the reason in words.", append(of, "action"), nil),
	}
}

// Describe implements prometheus.Collector.
func (m *adviceMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.want, m.now, m.size, m.what} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *adviceMetrics) Collect(to chan<- prometheus.Metric) {
	a := m.c.advice.Load()
	if a == nil {
		return
	}
	for i := range a.Groups {
		g := &a.Groups[i]
		tell := func(d *prometheus.Desc, v float64, state ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{g.Scheduler, g.DeviceType}, state...)...)
		}
		tell(m.want, float64(g.Want))
		tell(m.now, float64(g.GPUs), "serving")
		tell(m.now, float64(g.OnOrder), "on_order")
		tell(m.now, g.Need, "needed")
		tell(m.size, float64(g.Size), "size")
		tell(m.size, float64(g.Serving), "serving")
		tell(m.size, float64(g.Late), "late")
		tell(m.size, float64(len(g.Dead)), "dead")
		tell(m.size, float64(len(g.Leaving)), "leaving")
		tell(m.what, 1, g.Action)
	}
}
