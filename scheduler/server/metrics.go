package server

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/wire"
)

// metrics are the scheduler's, collected from the counters at each scrape.
type metrics struct {
	server     *Server
	registerer prometheus.Registerer
	dropped    *prometheus.CounterVec
	drops      dropCounters // of dropped

	busy, batches, gpus, need, delay, loops, waiting, models, infeasible, controllers, orders *prometheus.Desc

	loop   loopMetrics
	tuning tuningMetrics
	group  groupMetrics
	paging pagingMetrics
}

func newMetrics(s *Server, r prometheus.Registerer) (*metrics, error) {
	m := &metrics{server: s, registerer: r,
		busy:        prometheus.NewDesc("symphony_gpu_busy_seconds_total", "Time that the device executed batches.", []string{"pool", "gpu"}, nil),
		batches:     prometheus.NewDesc("symphony_gpu_batches_total", "Batches that the device reported.", []string{"pool", "gpu"}, nil),
		gpus:        prometheus.NewDesc("symphony_gpus", "Devices present.", []string{"pool"}, nil),
		need:        prometheus.NewDesc("symphony_need_gpus", "Devices that deferral alone would keep busy with what arrived lately, however many there are and however early batches start.", []string{"pool"}, nil),
		delay:       prometheus.NewDesc("symphony_network_delay_bound_seconds", "Network delay that the scheduler reckons with.", []string{"pool", "part"}, nil),
		loops:       prometheus.NewDesc("symphony_loop_busy_seconds_total", "Time that a loop of the scheduler worked.", []string{"pool", "loop"}, nil),
		models:      prometheus.NewDesc("symphony_scheduler_models", "Models that are served.", []string{"pool"}, nil),
		infeasible:  prometheus.NewDesc("symphony_scheduler_models_infeasible", "Models of which no request can make its SLO, whatever else runs: one item takes too long. The log says which.", []string{"pool"}, nil),
		controllers: prometheus.NewDesc("symphony_scheduler_controllers", "Controllers that are connected: without one, the scheduler goes on with what it was told last.", nil, nil),
		orders:      prometheus.NewDesc("symphony_scheduler_orders_total", "The control plane's orders, by what came of them.", []string{"outcome"}, nil),
		waiting:     prometheus.NewDesc("symphony_queue_requests", "Requests queued or running.", []string{"pool"}, nil),
	}
	m.loop, m.tuning, m.group, m.paging = newLoopMetrics(), newTuningMetrics(), newGroupMetrics(), newPagingMetrics()
	m.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_drops_total", Help: "Requests given up before execution, by reason."}, []string{"reason"})
	for r := wire.ReasonDeadline; int(r) < wire.ReasonCount; r++ {
		m.drops[r] = m.dropped.WithLabelValues(r.String())
	}
	if r == nil {
		return m, nil
	}
	if err := r.Register(m); err != nil {
		return nil, err
	}
	return m, errors.Join(r.Register(m.dropped), r.Register(s.overfull.ended), r.Register(s.overfull.labels))
}

func (m *metrics) drop(r wire.Reason) { m.drops.drop(r) }

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
		m.registerer.Unregister(m.dropped)
		m.registerer.Unregister(m.server.overfull.ended)
		m.registerer.Unregister(m.server.overfull.labels)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.busy, m.batches, m.gpus, m.need, m.delay, m.loops, m.waiting, m.models, m.infeasible, m.controllers, m.orders} {
		ch <- d
	}
	m.loop.describe(ch)
	m.tuning.describe(ch)
	m.group.describe(ch)
	m.paging.describe(ch)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	for p := range m.server.livePools {
		m.collectPool(p, ch)
	}
	m.paging.collectModels(ch, m.server.models)
	m.group.collect(ch, m.server)
	ch <- prometheus.MustNewConstMetric(m.controllers, prometheus.GaugeValue, float64(len(m.server.controllers.all)))
	ch <- prometheus.MustNewConstMetric(m.orders, prometheus.CounterValue, float64(m.server.controllers.carried), "done")
	ch <- prometheus.MustNewConstMetric(m.orders, prometheus.CounterValue, float64(m.server.controllers.refused), "refused")
}

func (m *metrics) collectPool(p *pool, ch chan<- prometheus.Metric) {
	pool := p.label()
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, g := range *p.gpus.Load() {
		id := strconv.Itoa(int(g.id))
		counter(m.busy, float64(g.busy.Load())/1e9, pool, id)
		counter(m.batches, float64(g.batches.Load()), pool, id)
	}
	gauge(m.gpus, float64(p.alive.Load()), pool)
	gauge(m.delay, p.delay.Ctrl.Seconds(), pool, "ctrl")
	gauge(m.delay, p.delay.MiB.Seconds(), pool, "mib")
	gauge(m.models, float64(p.models), pool)
	gauge(m.infeasible, float64(p.infeasible), pool)
	stats, used := p.engine.Stats(), 0
	gauge(m.need, stats.Need, pool)
	for i := range stats.Models {
		l := &stats.Models[i]
		counter(m.loops, l.Busy.Seconds(), pool, "model-"+strconv.Itoa(i))
		m.loop.collect(ch, l, pool, "model-"+strconv.Itoa(i))
		used += l.Used
	}
	counter(m.loops, stats.Rank.Busy.Seconds(), pool, "rank")
	m.loop.collect(ch, &stats.Rank, pool, "rank")
	gauge(m.waiting, float64(used), pool)
	m.tuning.collect(ch, p)
	m.paging.collect(ch, p)
}
