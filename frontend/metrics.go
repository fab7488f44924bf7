package frontend

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/mono"
)

// metrics are the frontend's, by model. A nil registerer still counts: the
// cost is a few atomic additions a request.
type metrics struct {
	registerer prometheus.Registerer
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	stages     *prometheus.HistogramVec
	batches    *prometheus.HistogramVec
	badRate    *prometheus.Desc
	inFlight   prometheus.GaugeFunc
	slabs      prometheus.GaugeFunc

	mu     sync.Mutex // Guards models.
	models map[string]*modelMetrics
}

// modelMetrics are one model's, looked up once per catalogue.
type modelMetrics struct {
	outcomes map[string]prometheus.Counter // by kind; read only
	ok, late prometheus.Counter            // two of them
	duration prometheus.Observer
	stages   [5]prometheus.Observer
	batch    prometheus.Observer
	recent   recent
}

// outcome names, by the kinds of errors; "ok" is served in time, "late" after
// the deadline.
func outcome(err *Error) string {
	switch err.Kind {
	case ErrDropped:
		return "dropped"
	case ErrDeadlineExceeded:
		return "expired"
	case ErrOverloaded:
		return "overloaded"
	case ErrBadInput:
		return "bad_input"
	case ErrUnavailable:
		return "unavailable"
	case ErrFailed:
		return "failed"
	case ErrCancelled:
		return "cancelled"
	}
	return "other"
}

func outcomes() []string {
	return []string{"ok", "late", "dropped", "expired", "overloaded", "bad_input", "unavailable", "failed", "cancelled", "other"}
}

func stageNames() [5]string { return [5]string{"preprocess", "queue", "fetch", "execute", "reply"} }

func newMetrics(c *Client, r prometheus.Registerer) (*metrics, error) {
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .02, .03, .04, .05, .075, .1, .15, .25, .5, 1, 2.5}
	m := &metrics{registerer: r, models: map[string]*modelMetrics{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_requests_total", Help: "Answered requests by model and outcome."}, []string{"model", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_request_duration_seconds", Help: "Arrival to answer of served requests.", Buckets: buckets}, []string{"model"}),
		stages:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_stage_duration_seconds", Help: "Time of served requests by stage.", Buckets: buckets}, []string{"model", "stage"}),
		batches:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_batch_size", Help: "Batch size that served requests ran in.", Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512}}, []string{"model"}),
		badRate:  prometheus.NewDesc("symphony_bad_rate", "Dropped or late requests as a share of those answered in the last 10 s.", []string{"model"}, nil),
		inFlight: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_requests_in_flight", Help: "Open requests."}, func() float64 { return float64(c.InFlight()) }),
		slabs:    prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_arena_slabs", Help: "Slabs of the arena that hold an input."}, func() float64 { return float64(c.arena.Used()) }),
	}
	if r == nil {
		return m, nil
	}
	for _, k := range m.collectors() {
		if err := r.Register(k); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.duration, m.stages, m.batches, m.inFlight, m.slabs, (*badRates)(m)}
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, k := range m.collectors() {
		m.registerer.Unregister(k)
	}
}

// of finds or makes a model's metrics.
func (m *metrics) of(model string) *modelMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.models[model]; ok {
		return k
	}
	k := &modelMetrics{outcomes: map[string]prometheus.Counter{}, duration: m.duration.WithLabelValues(model), batch: m.batches.WithLabelValues(model)}
	for _, o := range outcomes() {
		k.outcomes[o] = m.requests.WithLabelValues(model, o)
	}
	for i, s := range stageNames() {
		k.stages[i] = m.stages.WithLabelValues(model, s)
	}
	k.ok, k.late = k.outcomes["ok"], k.outcomes["late"]
	m.models[model] = k
	return k
}

func (k *modelMetrics) count(err *Error) {
	o := outcome(err)
	k.outcomes[o].Inc()
	if o != "bad_input" && o != "cancelled" { // the caller's own doing
		k.recent.add(true, mono.Now())
	}
}

func (k *modelMetrics) served(r *Response, now mono.Time) {
	if r.Slack < 0 {
		k.late.Inc()
	} else {
		k.ok.Inc()
	}
	k.recent.add(r.Slack < 0, now)
	k.duration.Observe(r.Total.Seconds())
	k.batch.Observe(float64(r.BatchSize))
	for i, d := range [5]time.Duration{r.Preprocess, r.Queue, r.Fetch, r.Execute, r.Reply} {
		k.stages[i].Observe(d.Seconds())
	}
}

// recent counts answers of the last ten seconds, a bucket a second.
type recent struct {
	mu      sync.Mutex
	buckets [10]struct{ second, bad, all int64 }
}

func (r *recent) add(bad bool, at mono.Time) {
	now := int64(at) / int64(mono.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &r.buckets[now%10]
	if b.second != now {
		b.second, b.bad, b.all = now, 0, 0
	}
	b.all++
	if bad {
		b.bad++
	}
}

func (r *recent) rate() float64 {
	now := int64(mono.Now()) / int64(mono.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	var bad, all int64
	for _, b := range r.buckets {
		if now-b.second < 10 {
			bad, all = bad+b.bad, all+b.all
		}
	}
	if all == 0 {
		return 0
	}
	return float64(bad) / float64(all)
}

// badRates collects the gauge at each scrape.
type badRates metrics

// Describe implements prometheus.Collector.
func (m *badRates) Describe(ch chan<- *prometheus.Desc) { ch <- m.badRate }

// Collect implements prometheus.Collector.
func (m *badRates) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, k := range m.models {
		ch <- prometheus.MustNewConstMetric(m.badRate, prometheus.GaugeValue, k.recent.rate(), name)
	}
}
