package grpcin

import (
	"encoding/hex"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/mono"
)

// metrics are this protocol's own; those of the requests are the frontend's.
type metrics struct {
	registerer  prometheus.Registerer
	calls       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	connections prometheus.GaugeFunc
	refused     prometheus.Counter
	cut         prometheus.Counter
	waiting     prometheus.GaugeFunc
	unsent      *prometheus.CounterVec

	methods map[string]bool // that are ours; read only
	found   sync.Map        // callKey -> prometheus.Counter
}

type callKey struct {
	method string
	code   codes.Code
}

func newMetrics(s *Server, r prometheus.Registerer) (*metrics, error) {
	m := &metrics{registerer: r, methods: map[string]bool{},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_grpc_calls_total", Help: "gRPC calls by method and code."}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "symphony_grpc_call_duration_seconds", Help: "Time from the beginning of a gRPC call to its answer, by method.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5}}, []string{"method"}),
		connections: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_grpc_connections", Help: "Open gRPC connections."}, func() float64 { return float64(s.open.Load()) }),
		refused:     prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_grpc_connections_refused_total", Help: "gRPC connections that were closed at once: there were too many (frontend.connections)."}),
		cut:         prometheus.NewCounter(prometheus.CounterOpts{Name: "symphony_grpc_connections_cut_total", Help: "gRPC connections that were cut for the bytes of messages that were coming over them."}),
		waiting:     prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "symphony_grpc_unsent_bytes", Help: "Bytes of replies of gRPC streams that wait for their clients to read (frontend.unsent_max)."}, func() float64 { return float64(s.unsent.Load()) }),
		unsent:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_grpc_unsent_total", Help: "What too many bytes of unread replies of gRPC streams cost: replies that were errors instead, streams that were ended."}, []string{"what"})}
	m.unsent.WithLabelValues("reply")
	m.unsent.WithLabelValues("stream")
	for _, d := range inference.GRPCInferenceService_ServiceDesc.Methods {
		m.methods[d.MethodName] = true
	}
	for _, d := range inference.GRPCInferenceService_ServiceDesc.Streams {
		m.methods[d.StreamName] = true
	}
	if r == nil {
		return m, nil
	}
	for i, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			for _, done := range m.collectors()[:i] {
				r.Unregister(done)
			}
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.duration, m.connections, m.refused, m.cut, m.waiting, m.unsent}
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors() {
		m.registerer.Unregister(c)
	}
}

// methodOf is the name behind the service's.
func methodOf(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

// observe counts a call; where it is traced, that is its exemplar. Those of health and reflection are one.
func (m *metrics) observe(method string, err error, took mono.Dur, trace *tracing.Context) {
	if !m.methods[method] {
		method = "other"
	}
	key := callKey{method, status.Code(err)}
	c, ok := m.found.Load(key)
	if !ok {
		c, _ = m.found.LoadOrStore(key, m.calls.WithLabelValues(method, key.code.String()))
	}
	c.(prometheus.Counter).Inc()
	observer := m.duration.WithLabelValues(method)
	if trace.Sampled() {
		observer.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": hex.EncodeToString(trace.Trace[:])})
		return
	}
	observer.Observe(took.Seconds())
}
