package controller

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// metrics are what a controller counts.
type metrics struct {
	registry prometheus.Registerer
	all      []prometheus.Collector
	orders   *prometheus.CounterVec // by scheduler's address
	linked   *prometheus.GaugeVec   // likewise
	scales   *prometheus.CounterVec // likewise, and by device type
}

func newMetrics(c *Controller, r prometheus.Registerer) (*metrics, error) {
	m := &metrics{registry: r,
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_control_orders_total", Help: "Orders sent to the scheduler."}, []string{"scheduler"}),
		linked: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "symphony_control_scheduler_linked", Help: "1 while the leading controller has a link to the scheduler."}, []string{"scheduler"}),
		scales: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_control_scaler_orders_total", Help: "Orders to the scaler, those that were repeated too."}, []string{"scheduler", "device_type"}),
	}
	for _, address := range c.cfg.Schedulers {
		m.orders.WithLabelValues(address)
		m.linked.WithLabelValues(address)
	}
	leads := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_control_leads", Help: "1 while this controller leads."}, func() float64 {
		if c.leads.Load() != nil {
			return 1
		}
		return 0
	})
	epoch := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_control_plan_epoch", Help: "Epoch of the last plan."}, func() float64 {
		if all := c.view.history(); len(all) > 0 {
			return float64(all[0].Epoch)
		}
		return 0
	})
	m.all = []prometheus.Collector{m.orders, m.linked, m.scales, leads, epoch, newAdviceMetrics(c)}
	for _, state := range []schema.State{schema.Waiting, schema.Fetching, schema.Loading, schema.Measuring, schema.Serving, schema.Unloading, schema.Idle, schema.Failed} {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_control_versions", Help: "Versions of models by state.",
			ConstLabels: prometheus.Labels{"state": string(state)}}, func() float64 { return float64(c.view.states()[state]) }))
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, one := range m.all {
		errs = append(errs, r.Register(one))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) unregister() {
	if m.registry == nil {
		return
	}
	for _, one := range m.all {
		m.registry.Unregister(one)
	}
}
