package parts

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/transport/mono"
)

// otlp is a double of an OpenTelemetry collector: it decodes what comes, by name of the span.
type otlp struct {
	*httptest.Server
	mu    sync.Mutex // Guards spans.
	spans map[string][]*trace.Span
	owner map[string]string // the service of each name
}

func newOTLP(t *testing.T) *otlp {
	o := &otlp{spans: map[string][]*trace.Span{}, owner: map[string]string{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data trace.TracesData
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &data) != nil {
			t.Errorf("%s: %v, %d bytes", r.URL, err, len(body))
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, rs := range data.ResourceSpans {
			for _, s := range rs.ScopeSpans[0].Spans {
				o.spans[s.Name] = append(o.spans[s.Name], s)
				o.owner[s.Name] = rs.Resource.Attributes[0].Value.GetStringValue()
			}
		}
	}))
	t.Cleanup(o.Close)
	return o
}

// traced is a system whose parts are linked over TCP, with an emulated model, that tells o of what callers sample.
func traced(t *testing.T, o *otlp) (p *Process, infer func(traceparent string) http.Header, end func()) {
	t.Helper()
	const model = "ResNet50V2"
	p = process(t, config.Set{Key: "scheduler.listen", Value: "tcp:127.0.0.1:0"}, config.Set{Key: "frontend.listen", Value: "tcp:127.0.0.1:0"},
		config.Set{Key: "traces.endpoint", Value: o.URL}, config.Set{Key: "traces.share", Value: "0"})
	scheduler, err := p.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scheduler.Close() })
	at := scheduler.Addresses()[0]
	p.cfg.Frontend.Scheduler, p.cfg.Backend.Scheduler = config.Addresses{at}, at
	p.cfg.Backend.Pools = []config.Pool{{DeviceType: "emulated", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv", Models: []string{model}, SLO: 10 * mono.Second}}}}
	b, err := p.Backend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Ingress(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WaitReady(t.Context(), model); err != nil {
		t.Fatal(err)
	}
	e, err := client.Model(model, "")
	if err != nil {
		t.Fatal(err)
	}
	infer = func(traceparent string) http.Header {
		t.Helper()
		return post(t, "http://"+w.Address+"/v2/models/"+model+"/infer", make([]byte, e.Spec.Inputs[0].ByteSize()), traceparent)
	}
	return p, infer, func() {
		limit, cancel := p.DrainContext()
		defer cancel()
		if err := w.Drain(limit); err != nil {
			t.Error(err)
		}
		_, _ = client.Drain(limit), b.Drain(limit)
	}
}

// post asks for an inference on the body as its only input.
func post(t *testing.T, url string, body []byte, traceparent string) http.Header {
	t.Helper()
	req, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Inference-Header-Content-Length", "0")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %s, %v", resp.StatusCode, text, err)
	}
	return resp.Header
}

// TestOneRequestIsOneTree: a request through HTTP, frontend, scheduler and backend, each linked over TCP, is
// one tree in a collector, below its caller's span, and its batch is linked. Times are in their order.
// Histograms have it as an exemplar.
func TestOneRequestIsOneTree(t *testing.T) {
	const traceID, parentID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	o := newOTLP(t)
	p, infer, end := traced(t, o)
	back := infer("00-" + traceID + "-" + parentID + "-01").Get("traceparent")
	if other := infer("").Get("traceparent"); other != "" {
		t.Errorf("a request that nobody samples has the trace %s", other)
	}
	exemplars(t, p, traceID)
	end()
	o.mu.Lock()
	defer o.mu.Unlock()
	root := o.spans["POST infer"]
	if len(root) != 1 || hex.EncodeToString(root[0].TraceId) != traceID || hex.EncodeToString(root[0].ParentSpanId) != parentID ||
		back != "00-"+traceID+"-"+hex.EncodeToString(root[0].SpanId)+"-01" {
		t.Fatalf("%v, and the reply says %q", root, back)
	}
	last := root[0].StartTimeUnixNano
	for _, want := range []struct{ name, owner string }{{"preprocess", "symphony-frontend"}, {"queue", "symphony-scheduler"}, {"fetch", "symphony-backend"}, {"execute", "symphony-backend"}, {"reply", "symphony-frontend"}} {
		s := o.spans[want.name]
		if len(s) != 1 || !bytes.Equal(s[0].TraceId, root[0].TraceId) || !bytes.Equal(s[0].ParentSpanId, root[0].SpanId) || o.owner[want.name] != want.owner {
			t.Fatalf("%s of %s: %v", want.name, o.owner[want.name], s)
		}
		if s[0].StartTimeUnixNano < last || s[0].EndTimeUnixNano > root[0].EndTimeUnixNano {
			t.Errorf("%s is from %d to %d, after %d and within %d", want.name, s[0].StartTimeUnixNano, s[0].EndTimeUnixNano, last, root[0].EndTimeUnixNano)
		}
		last = s[0].EndTimeUnixNano
	}
	run, batch := o.spans["execute"][0], o.spans["batch"]
	if len(batch) != 1 || len(run.Links) != 1 || !bytes.Equal(run.Links[0].SpanId, batch[0].SpanId) || !bytes.Equal(run.Links[0].TraceId, batch[0].TraceId) ||
		len(batch[0].Links) != 1 || !bytes.Equal(batch[0].Links[0].SpanId, run.SpanId) {
		t.Errorf("%v\n%v", run, batch)
	}
}

// exemplars wants the trace at the histograms of the model.
func exemplars(t *testing.T, p *Process, traceID string) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, b := range m.GetHistogram().GetBucket() {
				if x := b.GetExemplar(); x != nil && x.Label[0].GetValue() == traceID && strings.HasPrefix(f.GetName(), "symphony_") {
					found[f.GetName()] = true
				}
			}
		}
	}
	for _, name := range []string{"symphony_request_duration_seconds", "symphony_stage_duration_seconds", "symphony_http_request_duration_seconds"} {
		if !found[name] {
			t.Errorf("%s has no exemplar; %v have", name, found)
		}
	}
}
