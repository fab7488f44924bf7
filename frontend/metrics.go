package frontend

import (
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport/mono"
)

// metrics are the frontend's, by model and version. A nil registerer still counts: the
// cost is a few atomic additions a request. A version has series from its first request on,
// and until a while after it left the catalogue: see seriesKept.
type metrics struct {
	registerer prometheus.Registerer
	cancels    prometheus.Counter // that a full link did not take
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	stages     *prometheus.HistogramVec
	batches    *prometheus.HistogramVec
	badRate    *prometheus.Desc
	slo        *prometheus.Desc
	inFlight   prometheus.GaugeFunc
	slabs      prometheus.GaugeFunc
	outputs    prometheus.GaugeFunc
	stray      prometheus.Counter
	linked     []prometheus.Collector // of each scheduler, and each group of several

	mu     sync.Mutex // Guards models, and what stands below it in each.
	models map[modelKey]*modelMetrics
}

type modelKey struct{ name, version string }

func (k modelKey) labels(more ...string) []string {
	return append([]string{k.name, k.version}, more...)
}

// seriesKept is how long the series of what is not in the catalogue any more can still be
// scraped: two of the usual intervals.
const seriesKept = 2 * 60 * mono.Second

// modelMetrics are one version's, looked up once per catalogue.
type modelMetrics struct {
	all    *metrics
	key    modelKey
	series atomic.Pointer[series] // nil: nothing was counted
	doubts doubts

	slo   mono.Dur  // as the catalogue said last
	users int       // models of the catalogues: 1, or more while an id follows another, or several schedulers have it
	ended mono.Time // when the last left
	swept bool      // its series are gone: what still comes is not counted
}

// series are what Prometheus sees.
type series struct {
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
	case ErrIsolated:
		return "isolated"
	case ErrCancelled:
		return "cancelled"
	}
	return "other"
}

func outcomes() []string {
	return []string{"ok", "late", "dropped", "expired", "overloaded", "bad_input", "unavailable", "failed", "isolated", "cancelled", "other"}
}

func stageNames() [5]string { return [5]string{"preprocess", "queue", "fetch", "execute", "reply"} }

func newMetrics(c *Client, r prometheus.Registerer) (*metrics, error) {
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .015, .02, .03, .04, .05, .075, .1, .15, .25, .5, 1, 2.5}
	m := &metrics{registerer: r, models: map[modelKey]*modelMetrics{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_requests_total", Help: "Answered requests by model, version and outcome."}, []string{"model", "version", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_request_duration_seconds", Help: "Arrival to answer of served requests.", Buckets: buckets}, []string{"model", "version"}),
		stages:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_stage_duration_seconds", Help: "Time of served requests by stage.", Buckets: buckets}, []string{"model", "version", "stage"}),
		batches:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_batch_size", Help: "Batch size that served requests ran in.", Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512}}, []string{"model", "version"}),
		badRate:  prometheus.NewDesc("symphony_bad_rate", "Dropped or late requests as a share of those answered in the last 10 s.", []string{"model", "version"}, nil),
		slo:      prometheus.NewDesc("symphony_model_slo_seconds", "The model's SLO: the span from arrival that requests without a timeout of their own have.", []string{"model", "version"}, nil),
		inFlight: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_requests_in_flight", Help: "Open requests."}, func() float64 { return float64(c.InFlight()) }),
		outputs: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_outputs_awaited_bytes", Help: "Bytes of large outputs of open requests; at most frontend.outputs_max."},
			func() float64 { return float64(c.outputs.used.Load()) }),
		stray: prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_stray_outputs_total", Help: "Parts of outputs that were discarded: their requests were answered, or their links ended, before they were whole."}),
		slabs: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_arena_slabs", Help: "Slabs of the arena that hold an input."}, func() float64 { return float64(c.arena.Used()) }),
	}
	for _, u := range c.uplinks {
		m.linked = append(m.linked, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_frontend_linked", ConstLabels: prometheus.Labels{"scheduler": u.address},
			Help: "1 while the scheduler has admitted this frontend: its models' requests are answered unavailable otherwise."}, func() float64 {
			if u.up() {
				return 1
			}
			return 0
		}))
	}
	for _, g := range c.groups {
		if g.only == nil {
			m.linked = append(m.linked, g.collectors()...)
		}
	}
	m.cancels = prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_cancels_refused_total", Help: "Cancelled requests whose cancellation a full link to the scheduler did not take: they run, and their answers are discarded."})
	m.linked = append(m.linked, m.cancels)
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
	return append([]prometheus.Collector{m.requests, m.duration, m.stages, m.batches, m.inFlight, m.slabs, m.outputs, m.stray, (*badRates)(m)}, m.linked...)
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, k := range m.collectors() {
		m.registerer.Unregister(k)
	}
}

// of finds or makes a version's metrics.
func (m *metrics) of(name, version string, slo mono.Dur) *modelMetrics {
	key := modelKey{name, version}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.models[key]
	if k == nil {
		k = &modelMetrics{all: m, key: key}
		m.models[key] = k
	}
	k.users++
	k.slo = slo
	return k
}

// end is of a model that leaves the catalogue.
func (k *modelMetrics) end() {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.users--; k.users == 0 {
		k.ended = mono.Now()
	}
}

// sweep removes the series of what left the catalogue a while ago. Called with each change of
// the catalogue that takes models from it, and at each scrape.
func (m *metrics) sweep(now mono.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, k := range m.models {
		if k.users > 0 || now.Sub(k.ended) < seriesKept {
			continue
		}
		k.swept = true
		delete(m.models, key)
		for _, o := range outcomes() {
			m.requests.DeleteLabelValues(key.labels(o)...)
		}
		for _, s := range stageNames() {
			m.stages.DeleteLabelValues(key.labels(s)...)
		}
		m.duration.DeleteLabelValues(key.labels()...)
		m.batches.DeleteLabelValues(key.labels()...)
	}
}

// begun are the version's series, made when there is something to count; nil: swept.
func (k *modelMetrics) begun() *series {
	if s := k.series.Load(); s != nil {
		return s
	}
	m := k.all
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := k.series.Load(); s != nil || k.swept {
		return s
	}
	s := &series{outcomes: map[string]prometheus.Counter{}, duration: m.duration.WithLabelValues(k.key.labels()...), batch: m.batches.WithLabelValues(k.key.labels()...)}
	for _, o := range outcomes() {
		s.outcomes[o] = m.requests.WithLabelValues(k.key.labels(o)...)
	}
	for i, stage := range stageNames() {
		s.stages[i] = m.stages.WithLabelValues(k.key.labels(stage)...)
	}
	s.ok, s.late = s.outcomes["ok"], s.outcomes["late"]
	k.series.Store(s)
	return s
}

// CountBadInput counts a request that a protocol refused before it asked the client. Names that are not
// in the catalogue are not counted: clients may make them up.
func (c *Client) CountBadInput(model, version string) {
	if m, err := c.find(model, version); err == nil {
		m.metrics.count(&Error{Kind: ErrBadInput})
	}
}

func (k *modelMetrics) count(err *Error) {
	s := k.begun()
	if s == nil {
		return
	}
	o := outcome(err)
	s.outcomes[o].Inc()
	if o != "bad_input" && o != "cancelled" { // the caller's own doing
		s.recent.add(true, mono.Now())
	}
}

// served counts an answer. trace is its exemplar; zero: it is none.
func (k *modelMetrics) served(r *Response, now mono.Time, trace TraceID) {
	s := k.begun()
	if s == nil {
		return
	}
	if r.Slack < 0 {
		s.late.Inc()
	} else {
		s.ok.Inc()
	}
	s.recent.add(r.Slack < 0, now)
	if trace != (TraceID{}) {
		s.exemplify(r, trace)
		return
	}
	s.duration.Observe(r.Total.Seconds())
	s.batch.Observe(float64(r.BatchSize))
	for i, d := range [5]time.Duration{r.Preprocess, r.Queue, r.Fetch, r.Execute, r.Reply} {
		s.stages[i].Observe(d.Seconds())
	}
}

// exemplify observes the answer's times with its trace. (One in a hundred or a thousand does.)
func (s *series) exemplify(r *Response, trace TraceID) {
	labels := prometheus.Labels{"trace_id": hex.EncodeToString(trace[:])}
	observe := func(o prometheus.Observer, v float64) { o.(prometheus.ExemplarObserver).ObserveWithExemplar(v, labels) }
	observe(s.duration, r.Total.Seconds())
	s.batch.Observe(float64(r.BatchSize))
	for i, d := range [5]time.Duration{r.Preprocess, r.Queue, r.Fetch, r.Execute, r.Reply} {
		observe(s.stages[i], d.Seconds())
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

// badRates collects the gauges of versions at each scrape.
type badRates metrics

// Describe implements prometheus.Collector.
func (m *badRates) Describe(ch chan<- *prometheus.Desc) { ch <- m.badRate; ch <- m.slo }

// Collect implements prometheus.Collector.
func (m *badRates) Collect(ch chan<- prometheus.Metric) {
	(*metrics)(m).sweep(mono.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, k := range m.models {
		if s := k.series.Load(); s != nil {
			ch <- prometheus.MustNewConstMetric(m.badRate, prometheus.GaugeValue, s.recent.rate(), key.name, key.version)
			ch <- prometheus.MustNewConstMetric(m.slo, prometheus.GaugeValue, k.slo.Seconds(), key.name, key.version)
		}
	}
}
