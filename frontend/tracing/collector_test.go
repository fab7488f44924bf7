package tracing

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a double of OpenTelemetry's: it decodes what comes.
type collector struct {
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex // Guards what follows.
	posts  int
	spans  []told
	answer func(post int) (status int, body []byte) // nil: all is taken
	header http.Header                              // of the last post
}

// told is a span with the service that it is of.
type told struct {
	service string
	*trace.Span
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts++
	c.header = r.Header
	if c.answer != nil {
		if status, answer := c.answer(c.posts); status != 200 || answer != nil {
			w.WriteHeader(status)
			_, _ = w.Write(answer)
			return
		}
	}
	var data trace.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		c.t.Error(err)
		w.WriteHeader(400)
		return
	}
	for _, rs := range data.ResourceSpans {
		service := value(rs.Resource.Attributes, "service.name").GetStringValue()
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, told{service, s})
			}
		}
	}
}

func (c *collector) all() []told {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]told{}, c.spans...)
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.posts
}

// named are the spans of a name.
func named(all []told, name string) (out []told) {
	for _, s := range all {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

func value(attributes []*common.KeyValue, key string) *common.AnyValue {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// tracer makes one for the collector, with these changes.
func tracer(t *testing.T, c *collector, change func(*Config)) *Tracer {
	t.Helper()
	cfg := Config{Endpoint: c.server.URL, Share: 1, Name: "f1", Version: "v9"}
	if change != nil {
		change(&cfg)
	}
	tr, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func wait(t *testing.T, is func() bool) {
	t.Helper()
	for range 20_000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not come")
}
