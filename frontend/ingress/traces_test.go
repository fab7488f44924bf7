package ingress

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"
	"google.golang.org/protobuf/proto"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/wire"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// collect is a double of a collector; roots has the spans without those below them, once tr is closed.
func collect(t *testing.T, share float64) (tr *tracing.Tracer, roots func() []*trace.Span) {
	t.Helper()
	var mu sync.Mutex
	var all []*trace.Span
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data trace.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil {
			t.Errorf("%v, %d bytes", err, len(body))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range data.ResourceSpans {
			for _, s := range rs.ScopeSpans[0].Spans {
				if s.Kind == trace.Span_SPAN_KIND_SERVER {
					all = append(all, s)
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	tr, err := tracing.Open(tracing.Config{Endpoint: server.URL, Share: share})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr, func() []*trace.Span {
		tr.Close()
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// TestTraces: inferences are sampled, other requests are not; the reply names the trace, and the metrics have
// it as an exemplar for who asks for OpenMetrics.
func TestTraces(t *testing.T) {
	tr, roots := collect(t, 0)
	s := start(t, Config{Tracer: tr})
	const body = `{"inputs":[{"name":"x","datatype":"INT32","shape":[2,2,3],"data":[1,2,3,4,5,6,1,2,3,4,5,6]}]}`
	do := func(path, body, header string, status int) string {
		a := s.do("POST", path, body, "traceparent", header)
		s.want(a, status, "")
		return a.header.Get("traceparent")
	}
	if got := do("/v2/models/echo-INT32/infer", body, parent, 200); !strings.HasPrefix(got, parent[:36]) || got == parent || len(got) != len(parent) {
		t.Errorf("a reply of the trace %q", got)
	}
	if got := do("/v2/models/echo-INT32/infer", body, parent[:53]+"00", 200) + do("/v2/models/echo-INT32/infer", body, "nonsense", 200) + do("/v2/repository/index", "", parent, 200); got != "" {
		t.Errorf("replies of the trace %q", got)
	}
	s.fake.failWith(reason(frontend.ErrDropped, wire.ReasonShed))
	do("/v2/models/echo-INT32/infer", body, parent, 429)
	s.fake.failWith(nil)
	do("/v2/models/nope/infer", body, parent, 404)
	do("/v1/classify/digits", "\x89PNG", parent, 200)
	a := s.do("GET", "/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	if text := string(a.body); !strings.Contains(text, `# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"}`) || !strings.HasSuffix(text, "# EOF\n") || !strings.HasPrefix(a.header.Get("Content-Type"), "application/openmetrics-text") {
		t.Errorf("%v\n%s", a.header, text)
	}
	a = s.do("GET", "/metrics", "")
	if text := string(a.body); strings.Contains(text, "trace_id") || strings.Contains(text, "# EOF") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%v\n%s", a.header, text)
	}
	var got []string
	for _, r := range roots() {
		got = append(got, r.Name+" "+r.Status.GetMessage())
	}
	if strings.Join(got, ", ") != "POST infer , POST infer shed, POST infer unknown_model, POST classify " {
		t.Errorf("%q", got)
	}
}

// still is a connection on which nothing comes.
type still struct{ net.Conn }

func (still) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (still) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// allocations of one inference, from the handler's begin to its end.
func allocations(t *testing.T, cfg Config, header string) float64 {
	t.Helper()
	cfg.Client = newInstant()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := bodies()
	head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	_, length, _ := strings.Cut(head, headerLength+": ")
	stream := strings.NewReader(body)
	var ctx fasthttp.RequestCtx
	ctx.Init2(still{}, nil, false)
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI("/v2/models/digits/infer")
	if header != "" {
		ctx.Request.Header.Set("traceparent", header)
	}
	ctx.Request.Header.Set(headerLength, length)
	return testing.AllocsPerRun(200, func() {
		stream.Reset(body)
		ctx.Request.SetBodyStream(stream, len(body))
		ctx.Response.Reset()
		s.handle(&ctx, mainDoor)
		if ctx.Response.StatusCode() != 200 {
			t.Fatalf("%d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	})
}

// TestTracesCostNothing: a request that is not sampled allocates what it does without a tracer: nothing at
// all where its client does not make it.
func TestTracesCostNothing(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("a sync.Pool forgets at random")
	}
	off := allocations(t, Config{}, "")
	tr, _ := collect(t, 0)
	if n := allocations(t, Config{Tracer: tr}, ""); n != off {
		t.Errorf("%v allocations, without a tracer %v", n, off)
	}
	if n := allocations(t, Config{Tracer: tr}, parent[:53]+"00"); n != off {
		t.Errorf("%v allocations of one that its caller does not sample, without a tracer %v", n, off)
	}
	if off != 0 {
		t.Errorf("%v allocations without a tracer", off)
	}
}

// BenchmarkTraces compares an ingress without a tracer with ones that sample none and a hundredth.
func BenchmarkTraces(b *testing.B) {
	bin, _ := bodies()
	for _, c := range []struct {
		name  string
		share float64
	}{{"off", -1}, {"none", 0}, {"hundredth", 0.01}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := Config{Client: newInstant()}
			if c.share >= 0 {
				tr, err := tracing.Open(tracing.Config{Endpoint: "http://127.0.0.1:1", Share: c.share, Rate: 100})
				if err != nil {
					b.Fatal(err)
				}
				defer tr.Close()
				cfg.Tracer = tr
			}
			s, err := New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(l) }()
			defer func() {
				if err := errors.Join(s.Close(), <-ended); err != nil {
					b.Error(err)
				}
			}()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { drive(b, pb, l.Addr().String(), bin) })
		})
	}
}
