package backend

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// modelCounters are a model's, looked up once.
type modelCounters struct {
	batches, items, busy, stale, unreached, corrected prometheus.Counter

	ran ran // what learn reads
}

// countersOf are those of a slot; without one, some that nobody reads.
func (p *pool) countersOf(slot int) *modelCounters {
	if all := p.counters.Load(); all != nil && slot >= 0 && slot < len(*all) {
		return (*all)[slot]
	}
	lost := prometheus.NewCounter(prometheus.CounterOpts{})
	return &modelCounters{batches: lost, items: lost, busy: lost, stale: lost, unreached: lost, corrected: lost}
}

// count gives a slot the counters of a model. Caller holds the stock's mu, or is alone. (A slot
// that is empty keeps those that it had: an order may just end.)
func (m *metrics) count(p *pool, slot int, name string) {
	label := p.doc.DeviceType
	of := func(v *prometheus.CounterVec) prometheus.Counter { return v.WithLabelValues(label, name) }
	c := &modelCounters{batches: of(m.batches), items: of(m.items), busy: of(m.busy), stale: of(m.stale), unreached: of(m.unreached), corrected: of(m.corrected)}
	var all []*modelCounters
	if old := p.counters.Load(); old != nil {
		all = append(all, *old...)
	}
	for len(all) <= slot {
		all = append(all, c)
	}
	all[slot] = c
	p.counters.Store(&all)
}

// forget takes a model's counters out, when no version of it is left. Caller holds the stock's mu.
func (m *metrics) forget(s *stock, e *entry) {
	for _, o := range s.entries {
		if o.source.Name == e.source.Name {
			return
		}
	}
	pool, name := s.p.doc.DeviceType, e.source.Name
	for _, v := range []*prometheus.CounterVec{m.batches, m.items, m.busy, m.stale, m.unreached, m.corrected} {
		v.DeleteLabelValues(pool, name)
	}
	for _, v := range []*prometheus.CounterVec{m.failed, m.lost} {
		v.DeletePartialMatch(prometheus.Labels{"pool": pool, "model": name})
	}
	for _, v := range m.parted.all() {
		v.DeleteLabelValues(pool, name)
	}
}

// has is how many models some device serves.
func (s *stock) has() (n int) {
	for state, k := range s.states() {
		if state == catalog.StateReady {
			n += k
		}
	}
	return n
}

// stateOutdated is of models that are served while their files, as they are now, cannot be: they are counted as ready, too.
const stateOutdated = "outdated"

// states counts the models by state.
func (s *stock) states() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[string]int{}
	for _, e := range s.entries {
		if state, _ := e.state(); state != "" {
			n[state]++
		}
		if e.outdated() != nil {
			n[stateOutdated]++
		}
	}
	return n
}

// stockMetrics are read when they are scraped.
type stockMetrics struct {
	backend *Backend
	models  *prometheus.Desc
}

func newStockMetrics(b *Backend) stockMetrics {
	return stockMetrics{b, prometheus.NewDesc("symphony_backend_models", "Models by state (fetching, loading, measuring, ready, failed; and outdated, of those that are ready: their files have changed, and cannot be served as they are now); the log says why.", []string{"pool", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (m stockMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.models }

// Collect implements prometheus.Collector.
func (m stockMetrics) Collect(out chan<- prometheus.Metric) {
	for _, p := range m.backend.pools {
		n := p.stock.states()
		for _, state := range []string{catalog.StateFetching, catalog.StateLoading, catalog.StateMeasuring, catalog.StateReady, catalog.StateFailed, stateOutdated} {
			out <- prometheus.MustNewConstMetric(m.models, prometheus.GaugeValue, float64(n[state]), p.doc.DeviceType, state)
		}
	}
}
