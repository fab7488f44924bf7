package backend

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// metrics are the backend's, by pool.
type metrics struct {
	backend    *Backend
	registerer prometheus.Registerer
	batches    *prometheus.CounterVec
	items      *prometheus.CounterVec
	busy       *prometheus.CounterVec
	stale      *prometheus.CounterVec
	unreached  *prometheus.CounterVec
	corrected  *prometheus.CounterVec
	failed     *prometheus.CounterVec
	lost       *prometheus.CounterVec
	waiting    prometheus.GaugeFunc
	parted     partedMetrics
	out        *prometheus.GaugeVec
	fetch      *prometheus.HistogramVec
	loads      *prometheus.CounterVec
	loading    *prometheus.HistogramVec
	returned   *prometheus.CounterVec
	pages      pageMetrics
	gpus       gpuMetrics
	stocks     stockMetrics
	reigns     reignMetrics
}

func newMetrics(b *Backend, r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_" + name, Help: help}, []string{"pool", "model"})
	}
	m := &metrics{backend: b, registerer: r,
		batches:   counter("batches_total", "Batches executed."),
		items:     counter("items_total", "Requests executed."),
		busy:      counter("busy_seconds_total", "Time that devices executed."),
		stale:     counter("stale_reads_total", "Inputs that could not be read: the slab was freed."),
		unreached: counter("unreached_total", "Answers for which there was no data link to the frontend."),
		corrected: counter("profile_corrections_total", "Steps by which a latency profile was corrected: batches took other times than it said; the log has both."),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_failed_total",
			Help: "Requests that a device could not execute, or whose order was refused; the log has the errors."}, []string{"pool", "model", "cause"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_lost_outputs_total",
			Help: "Outputs that were given up while they waited for the link to their frontend: their deadline passed, the link ended, or too many waited."}, []string{"pool", "model", "cause"}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_backend_outputs_waiting_bytes",
			Help: "Bytes of batches whose outputs wait for links to frontends; at most backend.outputs_max."}, func() float64 { return float64(b.outputs.Held()) }),
		out: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "symphony_backend_out_of_service", Help: "Devices that are out of service now; the log says why."}, []string{"pool"}),
		fetch: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_backend_fetch_seconds", Help: "From an order's arrival until all inputs were there.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2, 14)}, []string{"pool"}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_loads_total",
			Help: "Loads of models' weights on paged devices that were reported, by result: done, or the reason why not."}, []string{"pool", "result"}),
		loading: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_backend_load_seconds", Help: "Time that a load of weights took.",
			Buckets: prometheus.ExponentialBuckets(250e-6, 2, 16)}, []string{"pool"}),
		returned: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_backend_returned_total",
			Help: "Batches that were given back to the scheduler unanswered: it was too late to start them, or their weights were not there."}, []string{"pool", "reason"}),
		parted: newPartedMetrics(), pages: newPageMetrics(b), gpus: newGPUMetrics(b), stocks: newStockMetrics(b), reigns: newReignMetrics(b),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.batches, m.items, m.busy, m.stale, m.unreached, m.corrected, m.failed, m.parted, m.lost, m.waiting, m.out, m.fetch, m.loads, m.loading, m.returned, m.pages, m.gpus, m.stocks, m.reigns}
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		for _, c := range m.collectors() {
			m.registerer.Unregister(c)
		}
	}
}

// observer looks the pool's counters up once; device is the index of who is observed.
func (m *metrics) observer(pool, device int) executor.Observer {
	p := m.backend.pools[pool]
	if device == 0 { // for all of the pool
		for i := range p.specs {
			m.count(p, i, p.specs[i].Name)
		}
	}
	fetch := m.fetch.WithLabelValues(p.doc.DeviceType)
	return executor.Observer{
		Ran: func(_ wire.GPUID, model, size int, fetched, executed mono.Dur) {
			c := p.countersOf(model)
			c.batches.Inc()
			c.items.Add(float64(size))
			c.busy.Add(executed.Seconds())
			c.ran.add(size, executed)
			fetch.Observe(fetched.Seconds())
		},
		Returned: func(_ *executor.Order, why wire.Reason) {
			m.returned.WithLabelValues(p.doc.DeviceType, why.String()).Inc()
		},
		Loaded:     func(l *wire.Loaded) { m.loaded(p, l) },
		LoadFailed: func(o *executor.LoadOrder, err error) { m.backend.tellLoadFailed(p, device, o, err) },
		Stale:      func(model int) { p.countersOf(model).stale.Inc() },
		Unreached:  func(model int) { p.countersOf(model).unreached.Inc() },
		Lost: func(o *outbound.Output, c outbound.Cause) {
			name := ""
			if spec := p.spec(o.Model); spec != nil {
				name = spec.Name
			}
			m.lost.WithLabelValues(p.doc.DeviceType, name, c.String()).Inc()
			m.backend.losses.say(p, o, c)
		},
		Parted: func(d *executor.Parted) { m.parted.add(m.backend, p, device, d) },
		Failed: func(f *executor.Failure) {
			name := ""
			if spec := p.spec(f.Order.ModelIndex); spec != nil {
				name = spec.Name
			}
			m.failed.WithLabelValues(p.doc.DeviceType, name, f.Cause.String()).Add(float64(f.Requests))
			m.backend.faults.say(p, device, f)
		},
	}
}

// Devices says how many devices of which types there are, for a start-up line.
func (b *Backend) Devices() map[string]string {
	out := map[string]string{}
	for _, p := range b.pools {
		out[p.doc.DeviceType] = strconv.Itoa(len(p.devices)) + " devices, " + strconv.Itoa(p.stock.has()) + " models"
	}
	return out
}
