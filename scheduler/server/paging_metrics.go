package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// pagingMetrics are of the loads of paged sub-clusters; others have none.
type pagingMetrics struct {
	loads, failed, evictions, lost, pages, requests *prometheus.Desc
}

func newPagingMetrics() pagingMetrics {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("symphony_"+name, help, append([]string{"pool"}, labels...), nil)
	}
	return pagingMetrics{
		loads:     of("loads_total", "Loads of models' weights that were ordered: cold, no device held them; copy, another one.", "why"),
		failed:    of("loads_failed_total", "Loads of weights that failed, or began too late."),
		evictions: of("evictions_total", "Weights that devices were ordered to forget: to make room, or with their model."),
		lost:      of("weights_lost_total", "Weights that went with their device, or that it did not have any more."),
		pages:     of("pages", "Pages of the devices' memory for weights: free, or used.", "state"),
		requests:  of("paged_requests_total", "Requests that left in batches: cold, in the first ones with their weights; or warm.", "start"),
	}
}

func (m *pagingMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.loads, m.failed, m.evictions, m.lost, m.pages, m.requests} {
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
	put(m.failed, prometheus.CounterValue, s.Failed)
	put(m.evictions, prometheus.CounterValue, s.Unloads)
	put(m.lost, prometheus.CounterValue, s.Lost)
	put(m.pages, prometheus.GaugeValue, uint64(s.PagesFree), "free")
	put(m.pages, prometheus.GaugeValue, uint64(s.Pages-s.PagesFree), "used")
	put(m.requests, prometheus.CounterValue, p.sink.cold.Load(), "cold")
	put(m.requests, prometheus.CounterValue, p.sink.warm.Load(), "warm")
}
