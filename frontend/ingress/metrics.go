package ingress

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/mono"
)

// metrics are the ingress's own; those of the requests are the frontend's.
type metrics struct {
	registry Metrics
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge

	numbers  map[string]int // route name -> number; read only
	names    []string       // 0 is "none"
	observer []prometheus.Observer
	counters [][codes]atomic.Pointer[prometheus.Counter] // by route and status, made on first use
}

// codes is one more than the highest status minus 200.
const codes = 400

func newMetrics(registry Metrics, routes []route) (*metrics, error) {
	m := &metrics{registry: registry, numbers: map[string]int{}, names: []string{"none"},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_http_requests_total",
			Help: "HTTP requests by route and status."}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_http_request_duration_seconds",
			Help:    "Time from the headers of an HTTP request to its answer, by route.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5}}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "symphony_http_requests_in_flight",
			Help: "HTTP requests that are being answered."})}
	for _, r := range routes {
		if _, ok := m.numbers[r.name]; !ok {
			m.numbers[r.name] = len(m.names)
			m.names = append(m.names, r.name)
		}
	}
	for _, name := range m.names {
		m.observer = append(m.observer, m.duration.WithLabelValues(name))
	}
	m.counters = make([][codes]atomic.Pointer[prometheus.Counter], len(m.names))
	for i, c := range m.collectors() {
		if err := registry.Register(c); err != nil {
			for _, done := range m.collectors()[:i] {
				registry.Unregister(done)
			}
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.duration, m.inFlight}
}

func (m *metrics) unregister() {
	for _, c := range m.collectors() {
		m.registry.Unregister(c)
	}
}

func (m *metrics) number(r *route) int { return m.numbers[r.name] }

// observe counts a request; where it is traced, that is its exemplar.
func (m *metrics) observe(route, status int, d mono.Dur, trace *tracing.Context) {
	m.count(route, status)
	if trace.Sampled() {
		m.observer[route].(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": hex.EncodeToString(trace.Trace[:])})
		return
	}
	m.observer[route].Observe(d.Seconds())
}

func (m *metrics) count(route, status int) {
	if status < 200 || status >= 200+codes {
		status = 500
	}
	p := &m.counters[route][status-200]
	c := p.Load()
	if c == nil {
		made := m.requests.WithLabelValues(m.names[route], strconv.Itoa(status))
		c = &made
		p.Store(c)
	}
	(*c).Inc()
}

// exposition serves /metrics.
func (s *Server) exposition(x *exchange) error {
	families, err := s.cfg.Metrics.Gather()
	if err != nil {
		s.log.Warn().Err(err).Msg("http: /metrics is not complete")
	}
	if err != nil && len(families) == 0 {
		return err
	}
	format := formatFor(x)
	x.ctx.SetContentType(string(format))
	encoder := expfmt.NewEncoder(x.ctx.Response.BodyWriter(), format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	if end, ok := encoder.(expfmt.Closer); ok { // OpenMetrics has a last line
		return end.Close()
	}
	return nil
}

// formatFor is what the scraper wants: OpenMetrics has exemplars, the plain text has not.
func formatFor(x *exchange) expfmt.Format {
	accept := http.Header{"Accept": {string(x.ctx.Request.Header.Peek("Accept"))}}
	if f := expfmt.NegotiateIncludingOpenMetrics(accept); f.FormatType() == expfmt.TypeOpenMetrics {
		return f
	}
	return expfmt.NewFormat(expfmt.TypeTextPlain)
}
