package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Config of a Tracer. Endpoint is required.
type Config struct {
	Endpoint string            // of the collector: "http://127.0.0.1:4318"; /v1/traces is added where it has no path
	Headers  map[string]string // of each request to it, for example its authorisation
	Share    float64           // of the requests without a traceparent, 0 to 1
	Rate     int               // traces a second, at most; 0: any number
	Name     string            // of this frontend (service.instance.id)
	Version  string            // of the program (service.version)
	// Failed is told when the collector does not take what is sent, and with nil when it does again.
	Failed  func(error)
	Metrics prometheus.Registerer // may be nil
}

// Record is what is told of a request.
type Record struct {
	Context
	Protocol string // "http" or "grpc"
	Method   string // "POST"
	Route    string // "infer"
	Model    string
	Version  string
	Status   int    // of the protocol
	Reason   string // why there is no output; "": there is one
	Refused  bool
	Began    mono.Time // of this process's clock
	Ended    mono.Time

	// Of what a backend answered; BatchSize 0: none did.
	Request   wire.RequestID
	Items     int // of the request; the times are those of the one that took longest
	BatchSize int
	GPU       int
	Epoch     wire.Epoch // 0: the backend does not tell of batches
	Batch     wire.BatchID
	Slack     time.Duration
	Times     frontend.Times
}

// Tracer samples requests and tells of them. Safe for concurrent use.
type Tracer struct {
	cfg     Config // Immutable, as is url.
	url     string
	records chan Record
	stop    chan struct{}
	ended   chan struct{}
	closing sync.Once
	life    context.Context // of posts: ends closeMax after stop
	kill    context.CancelCauseFunc

	seen   atomic.Uint64 // requests without a traceparent
	second atomic.Int64  // unix time of the second that traces are counted in
	traces atomic.Int64  // of that second

	exported atomic.Uint64 // requests
	lost     atomic.Uint64
	overRate atomic.Uint64

	// Owned by run.
	http     *http.Client
	instance uint64
	batches  recentBatches
	broken   bool
}

// recordsMax is how many sampled requests wait for the exporter.
const recordsMax = 2048

// Open starts the goroutine that exports. It does not ask for the collector: that may come later.
func Open(cfg Config) (*Tracer, error) {
	t, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register((*tracerMetrics)(t)); err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
	}
	go t.run()
	return t, nil
}

// prepare makes one whose goroutine is not started.
func prepare(cfg Config) (*Tracer, error) {
	u, err := url.Parse(cfg.Endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("traces: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("traces: the endpoint %q must be http://HOST:PORT or https://HOST:PORT of a collector's OTLP over HTTP (4318 by custom)", cfg.Endpoint)
	case cfg.Share < 0 || cfg.Share > 1 || cfg.Rate < 0:
		return nil, errors.New("traces: the share must be 0 to 1, and the rate not negative")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	life, kill := context.WithCancelCause(context.Background())
	return &Tracer{cfg: cfg, life: life, kill: kill, url: u.String(), records: make(chan Record, recordsMax), stop: make(chan struct{}), ended: make(chan struct{}),
		instance: rand.Uint64(), http: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute}}}, nil
}

// Begin decides whether a request is told of. header is its traceparent; empty: it has none, or
// one that is wrong, which is as good as none.
func (t *Tracer) Begin(header []byte) Context {
	if len(header) > 0 {
		if c, sampled, ok := parse(header); ok {
			if !sampled || !t.allowed() {
				return Context{}
			}
			binary.LittleEndian.PutUint64(c.Span[:], rand.Uint64()|1)
			return c
		}
	}
	if t.cfg.Share == 0 {
		return Context{}
	}
	n := t.seen.Add(1)
	if uint64(float64(n)*t.cfg.Share) == uint64(float64(n-1)*t.cfg.Share) || !t.allowed() {
		return Context{}
	}
	var c Context
	binary.LittleEndian.PutUint64(c.Trace[:], rand.Uint64()|1) // never zero
	binary.LittleEndian.PutUint64(c.Trace[8:], rand.Uint64())
	binary.LittleEndian.PutUint64(c.Span[:], rand.Uint64()|1)
	return c
}

// allowed counts a trace against the rate.
func (t *Tracer) allowed() bool {
	if t.cfg.Rate == 0 {
		return true
	}
	now := time.Now().Unix()
	if last := t.second.Load(); last != now && t.second.CompareAndSwap(last, now) {
		t.traces.Store(0)
	}
	if t.traces.Add(1) > int64(t.cfg.Rate) {
		t.overRate.Add(1)
		return false
	}
	return true
}

// End tells of a request that Begin has sampled. It does not wait, and does not keep r.
func (t *Tracer) End(r *Record) {
	select {
	case t.records <- *r:
	default:
		t.lost.Add(1)
	}
}

// Close exports what there is, as far as the collector takes it at once, and returns after closeMax at the
// latest: the rest is lost, and counted. Nothing is told of after.
func (t *Tracer) Close() {
	t.closing.Do(func() {
		enough := time.AfterFunc(closeMax, func() { t.kill(errEnd) })
		close(t.stop)
		<-t.ended
		enough.Stop()
		t.kill(nil)
		t.http.CloseIdleConnections()
		if t.cfg.Metrics != nil {
			t.cfg.Metrics.Unregister((*tracerMetrics)(t))
		}
	})
}

// tracerMetrics collects the counts at each scrape.
type tracerMetrics Tracer

func tracesDesc() *prometheus.Desc {
	return prometheus.NewDesc("symphony_traces_total", "Sampled requests: exported; lost to a full queue or a collector that does not take them; or not sampled after all, beyond the rate.", []string{"what"}, nil)
}

// Describe implements prometheus.Collector.
func (m *tracerMetrics) Describe(to chan<- *prometheus.Desc) { to <- tracesDesc() }

// Collect implements prometheus.Collector.
func (m *tracerMetrics) Collect(to chan<- prometheus.Metric) {
	put := func(n uint64, what string) {
		to <- prometheus.MustNewConstMetric(tracesDesc(), prometheus.CounterValue, float64(n), what)
	}
	put(m.exported.Load(), "exported")
	put(m.lost.Load(), "lost")
	put(m.overRate.Load(), "over_rate")
}
