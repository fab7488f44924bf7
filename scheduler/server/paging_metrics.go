package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/residency"
)

// pagingMetrics are of the loads of paged sub-clusters; others have none.
type pagingMetrics struct {
	loads, failed, evictions, lost, pages, requests, models, copied *prometheus.Desc
}

func newPagingMetrics() pagingMetrics {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("symphony_"+name, help, append([]string{"pool"}, labels...), nil)
	}
	return pagingMetrics{
		loads:     of("loads_total", "Loads of models' weights that were ordered: cold, no device held them; copy, another one; best_effort, for requests without deadlines.", "why"),
		failed:    of("loads_failed_total", "Loads of weights that failed, or began too late."),
		evictions: of("evictions_total", "Weights that devices were ordered to forget: room, for a load; removed, with their model; stray, nobody counted on them.", "why"),
		lost:      of("weights_lost_total", "Weights that went with their device, or that it did not have any more."),
		pages:     of("pages", "Pages of the devices' memory for weights: free, used, or missing: neither free, as their devices say, nor used by weights that are known of.", "state"),
		requests:  of("paged_requests_total", "Requests that were executed: cold, in the first batches with their weights; or warm.", "start"),
		models:    of("paged_model_requests_total", "The same by model, of those that are served now and have run.", "model", "version", "start"),
		copied:    of("loader_busy_seconds_total", "Time that the devices' loaders copied weights, by their reports; of all devices of the pool together."),
	}
}

func (m *pagingMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.loads, m.failed, m.evictions, m.lost, m.pages, m.requests, m.models, m.copied} {
		ch <- d
	}
}

// collect tells of a pool. Caller holds Server.mu.
func (m *pagingMetrics) collect(ch chan<- prometheus.Metric, p *pool) {
	s := p.engine.Stats().Paging
	if s == nil {
		return
	}
	put := func(d *prometheus.Desc, t prometheus.ValueType, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, float64(v), append([]string{p.label()}, labels...)...)
	}
	put(m.loads, prometheus.CounterValue, s.Cold, "cold")
	put(m.loads, prometheus.CounterValue, s.Copies, "copy")
	put(m.loads, prometheus.CounterValue, s.Effort, "best_effort")
	put(m.failed, prometheus.CounterValue, s.Failed)
	for why, name := range [...]string{residency.Stray: "stray", residency.Room: "room", residency.Removed: "removed"} {
		put(m.evictions, prometheus.CounterValue, s.Evicted[why], name)
	}
	ch <- prometheus.MustNewConstMetric(m.copied, prometheus.CounterValue, s.Copied.Seconds(), p.label())
	put(m.lost, prometheus.CounterValue, s.Lost)
	put(m.pages, prometheus.GaugeValue, uint64(s.PagesFree), "free")
	put(m.pages, prometheus.GaugeValue, uint64(max(0, s.Pages-s.PagesFree-s.PagesMissing)), "used")
	put(m.pages, prometheus.GaugeValue, uint64(s.PagesMissing), "missing")
	put(m.requests, prometheus.CounterValue, p.sink.cold.Load(), "cold")
	put(m.requests, prometheus.CounterValue, p.sink.warm.Load(), "warm")
}

// collectModels tells of the models of paged pools: there are as many series as models have run there and are served still. Caller
// holds Server.mu.
func (m *pagingMetrics) collectModels(ch chan<- prometheus.Metric, models []served) {
	for i := range models {
		k := &models[i]
		if k.pool == nil || k.pool.paged == nil || k.count == nil || k.leaving != nil { // one that leaves may be back under another id, and of a series there is one
			continue
		}
		cold, warm := k.count.cold.Load(), k.count.warm.Load()
		if cold+warm == 0 {
			continue
		}
		for start, n := range map[string]uint64{"cold": cold, "warm": warm} {
			ch <- prometheus.MustNewConstMetric(m.models, prometheus.CounterValue, float64(n), k.pool.label(), k.spec.Name, k.spec.Version, start)
		}
	}
}
