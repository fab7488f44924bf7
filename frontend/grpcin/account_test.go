package grpcin

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/frontend/recording"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// books are what a server tells: read ends them and has what they were told.
type books struct {
	web  ingress.Config
	path string

	mu    sync.Mutex // Guards spans.
	spans []*trace.Span
}

// ServeHTTP makes books the double of a collector.
func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var data trace.TracesData
	if err != nil || proto.Unmarshal(body, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rs := range data.ResourceSpans {
		b.spans = append(b.spans, rs.ScopeSpans[0].Spans...)
	}
}

func newBooks(t *testing.T) *books {
	t.Helper()
	b := &books{path: t.TempDir()}
	collector := httptest.NewServer(b)
	t.Cleanup(collector.Close)
	var errs [3]error
	b.web.AccessLog, errs[0] = accesslog.Open(accesslog.Config{Path: filepath.Join(b.path, "access.log"), Share: 1})
	b.web.Recorder, errs[1] = recording.Open(recording.Config{Path: filepath.Join(b.path, "recording.csv")})
	b.web.Tracer, errs[2] = tracing.Open(tracing.Config{Endpoint: collector.URL})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// read ends the server, and then the books.
func (b *books) read(k *server) (spans []*trace.Span, lines []map[string]any, recorded []string) {
	t := k.t
	t.Helper()
	if err := k.Drain(within(t)); err != nil {
		t.Error(err)
	}
	b.web.Tracer.Close()
	var texts [2]string
	for i, c := range []struct {
		io.Closer
		name string
	}{{b.web.AccessLog, "access.log"}, {b.web.Recorder, "recording.csv"}} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(filepath.Join(b.path, c.name))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	for line := range strings.Lines(texts[0]) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, m)
	}
	for line := range strings.Lines(strings.TrimPrefix(texts[1], recording.Header)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ",") // when it was
		recorded = append(recorded, line)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spans, lines, recorded
}

// check compares what lines have of what they are wanted to have.
func check(t *testing.T, got, want []map[string]any) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if client, _ := got[i]["client"].(string); !strings.HasPrefix(client, "127.0.0.1:") || got[i]["total_us"].(float64) < 0 || got[i]["protocol"] != "grpc" {
			t.Errorf("line %d: %v", i, got[i])
		}
		for key, value := range want[i] {
			if got[i][key] != value {
				t.Errorf("line %d, %s: %v, want %v", i, key, got[i][key], value)
			}
		}
	}
}

// A traced inference is one tree, one line and one row; its client is told of the trace.
func TestOneInferenceIsToldOnce(t *testing.T) {
	b := newBooks(t)
	registry := prometheus.NewRegistry()
	k := startWith(t, Config{Metrics: registry}, b.web)
	q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
	q.Id, q.Parameters = "mine", map[string]*inference.InferParameter{"timeout": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 70_000}}}
	var header metadata.MD
	if _, err := k.client.ModelInfer(metadata.AppendToOutgoingContext(within(t), "traceparent", parent), q, grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	told := header.Get("traceparent")
	if len(told) != 1 || len(told[0]) != len(parent) || told[0][:36] != parent[:36] || told[0] == parent {
		t.Errorf("the answer's traceparent is %q", told)
	}
	if got := k.fake.traced(); hex.EncodeToString(got[:]) != parent[3:35] {
		t.Errorf("the frontend was told of the trace %x", got)
	}
	exemplar := false
	families, err := registry.Gather()
	for _, f := range families {
		for _, h := range f.Metric {
			for _, bucket := range h.GetHistogram().GetBucket() {
				exemplar = exemplar || bucket.Exemplar != nil && bucket.Exemplar.Label[0].GetValue() == parent[3:35]
			}
		}
	}
	if err != nil || !exemplar {
		t.Errorf("%v, or no exemplar", err)
	}
	spans, lines, recorded := b.read(k)
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		up := told[0][36:52] // the root's
		if s.Kind == trace.Span_SPAN_KIND_SERVER {
			up = parent[36:52]
		}
		if hex.EncodeToString(s.TraceId) != parent[3:35] || hex.EncodeToString(s.ParentSpanId) != up {
			t.Errorf("%v", s)
		}
	}
	if want := []string{"ModelInfer infer", "preprocess", "queue", "fetch", "execute", "reply"}; !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(want))) {
		t.Errorf("spans %q, want %q", names, want)
	}
	check(t, lines, []map[string]any{{"method": "ModelInfer", "route": "infer", "model": "flat", "version": "1", "id": "mine", "status": 0.0, "batch_size": 4.0, "gpu": 2.0,
		"queue_us": 3000.0, "slack_us": -2000.0, "received": float64(proto.Size(q)), "reason": nil, "trace_id": parent[3:35]}})
	if !slices.Equal(recorded, []string{"flat,,70000,1"}) {
		t.Errorf("recorded %q", recorded)
	}
}

// Refused inferences are told, too, with the reason that HTTP would have; but only those that were asked
// for are recorded.
func TestRefusalsAreTold(t *testing.T) {
	b := newBooks(t)
	k := startWith(t, Config{}, b.web)
	ctx := metadata.AppendToOutgoingContext(within(t), "traceparent", parent)
	good := ask("echo-INT32", "x", catalog.Int32, []int64{2, 2, 3}, make([]byte, 48))
	long := strings.Repeat("long", 1000)
	for _, c := range []struct {
		q    *inference.ModelInferRequest
		fail error
		code codes.Code
	}{
		{ask("nope", "x", catalog.FP32, []int64{4}, nil), nil, codes.NotFound},
		{ask("flat", "x", catalog.FP32, []int64{5}, make([]byte, 20)), nil, codes.InvalidArgument},
		{good, &frontend.Error{Kind: frontend.ErrDropped, Reason: wire.ReasonShed, Model: "echo-INT32"}, codes.ResourceExhausted},
		{ask(long, "x", catalog.FP32, []int64{4}, nil), nil, codes.NotFound},
	} {
		k.fake.set(c.fail, nil)
		var header metadata.MD
		_, err := k.client.ModelInfer(ctx, c.q, grpc.Header(&header))
		if told := header.Get("traceparent"); status.Code(err) != c.code || len(told) != 1 || told[0][:36] != parent[:36] {
			t.Errorf("%v, traceparent %q", err, told)
		}
	}
	k.fake.set(nil, nil)
	if _, err := k.client.ModelInfer(metadata.AppendToOutgoingContext(within(t), "traceparent", parent[:53]+"00"), good); err != nil { // not sampled
		t.Error(err)
	}
	spans, lines, recorded := b.read(k)
	var got []string
	for _, s := range spans {
		got = append(got, fmt.Sprint(s.Name, " ", s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR, " ", s.Status.GetMessage()))
	}
	if want := []string{"ModelInfer infer true unknown_model", "ModelInfer infer true bad_request", "ModelInfer infer true shed", "ModelInfer infer true unknown_model"}; !slices.Equal(got, want) {
		t.Errorf("spans %q, want %q", got, want)
	}
	check(t, lines, []map[string]any{
		{"model": "nope", "version": nil, "status": 5.0, "reason": "unknown_model", "batch_size": nil, "sent": nil, "trace_id": parent[3:35]},
		{"model": "flat", "status": 3.0, "reason": "bad_request"},
		{"model": "echo-INT32", "status": 8.0, "reason": "shed", "batch_size": nil},
		{"model": long[:textMax], "status": 5.0, "reason": "unknown_model"},
		{"model": "echo-INT32", "status": 0.0, "reason": nil, "batch_size": 4.0, "trace_id": nil},
	})
	if !slices.Equal(recorded, []string{"echo-INT32,,0,2", "echo-INT32,,0,2"}) {
		t.Errorf("recorded %q", recorded)
	}
}

// Each inference of a stream is told of by itself, and a message that ends the stream by its own line.
func TestStreamsAreTold(t *testing.T) {
	b := newBooks(t)
	k := startWith(t, Config{MessageMax: 10_000}, b.web)
	stream, err := k.client.ModelStreamInfer(metadata.AppendToOutgoingContext(within(t), "traceparent", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"flat", "nope"} {
		if err := stream.Send(ask(model, "x", catalog.FP32, []int64{4}, make([]byte, 16))); err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Recv(); err != nil || (r.ErrorMessage != "") != (model == "nope") {
			t.Fatalf("%v, %v", r, err)
		}
	}
	if err := stream.Send(ask("big", "x", catalog.FP32, []int64{100_000}, make([]byte, 400_000))); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("%v", err)
	}
	until(t, "the stream's line", func() bool {
		text, _ := os.ReadFile(filepath.Join(b.path, "access.log"))
		return strings.Contains(string(text), "too_large")
	})
	spans, lines, recorded := b.read(k)
	roots := 0
	for _, s := range spans {
		if s.Kind == trace.Span_SPAN_KIND_SERVER {
			roots++
			if s.Name != "ModelStreamInfer infer" || hex.EncodeToString(s.ParentSpanId) != parent[36:52] {
				t.Errorf("%v", s)
			}
		}
	}
	if roots != 2 || len(spans) != 7 {
		t.Errorf("%d trees of %d spans", roots, len(spans))
	}
	check(t, lines, []map[string]any{
		{"method": "ModelStreamInfer", "route": "infer", "model": "flat", "status": 0.0, "trace_id": parent[3:35]},
		{"method": "ModelStreamInfer", "model": "nope", "status": 5.0, "reason": "unknown_model"},
		{"method": "ModelStreamInfer", "model": nil, "status": 8.0, "reason": "too_large"},
	})
	if !slices.Equal(recorded, []string{"flat,,0,1"}) {
		t.Errorf("recorded %q", recorded)
	}
}

// Other calls have their lines under HTTP's words, but for probes.
func TestOtherCallsAreLogged(t *testing.T) {
	b := newBooks(t)
	k := startWith(t, Config{AdminApart: true}, b.web)
	ctx := metadata.AppendToOutgoingContext(within(t), "traceparent", parent)
	_, live := k.client.ServerLive(ctx, &inference.ServerLiveRequest{})
	_, ready := k.client.ServerReady(ctx, &inference.ServerReadyRequest{})
	_, probe := grpc_health_v1.NewHealthClient(k.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	_, known := k.client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "two", Version: "1"})
	for _, err := range []error{live, ready, probe, known} {
		if err != nil {
			t.Error(err)
		}
	}
	_, unknown := k.client.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "nope"})
	_, apart := k.client.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: "two"})
	if status.Code(unknown) != codes.NotFound || status.Code(apart) != codes.Unimplemented {
		t.Errorf("%v, %v", unknown, apart)
	}
	spans, lines, recorded := b.read(k)
	if len(spans)+len(recorded) != 0 {
		t.Errorf("%v, %v", spans, recorded)
	}
	check(t, lines, []map[string]any{
		{"method": "ModelMetadata", "route": "model_metadata", "model": "two", "version": "1", "status": 0.0, "reason": nil},
		{"method": "ModelConfig", "route": "model_config", "model": "nope", "status": 5.0, "reason": "unknown_model"},
		{"method": "RepositoryModelLoad", "route": "repository", "model": "two", "status": 12.0, "reason": "not_found"},
	})
}

// Each call has a word of HTTP's.
func TestEachCallHasARoute(t *testing.T) {
	d := inference.GRPCInferenceService_ServiceDesc
	for _, m := range d.Methods {
		if routeOf(m.MethodName) == "none" {
			t.Errorf("%s has no route", m.MethodName)
		}
	}
	if routeOf(methodStream) != "infer" || routeOf("Else") != "none" {
		t.Error("another route")
	}
}
