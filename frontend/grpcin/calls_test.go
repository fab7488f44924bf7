package grpcin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What server and models say of themselves.
func TestDescriptions(t *testing.T) {
	k, ctx := start(t, Config{}), within(t)
	c := k.client
	if r, err := c.ServerLive(ctx, &inference.ServerLiveRequest{}); err != nil || !r.Live {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := c.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil || !r.Ready {
		t.Errorf("%v, %v", r, err)
	}
	for name, want := range map[string]bool{"two": true, "down": false, "nobody": false} {
		if r, err := c.ModelReady(ctx, &inference.ModelReadyRequest{Name: name}); err != nil || r.Ready != want {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if r, err := c.ServerMetadata(ctx, &inference.ServerMetadataRequest{}); err != nil || r.Name != "symphony" || r.Version != "7" || !slices.Contains(r.Extensions, "statistics") {
		t.Errorf("%v, %v", r, err)
	}
	m, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "two"})
	if err != nil || m.Name != "two" || !slices.Equal(m.Versions, []string{"1", "2"}) || len(m.Inputs) != 2 || m.Inputs[0].Datatype != "INT32" || !slices.Equal(m.Inputs[0].Shape, []int64{-1, 2}) || m.Outputs[1].Name != "q" {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "two", Version: "9"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "'two' version 9 is not found") {
		t.Errorf("%v", err)
	}
	g, err := c.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "two"})
	if err != nil || g.Config.MaxBatchSize != 8 || g.Config.Input[0].DataType != inference.DataType_TYPE_INT32 || !slices.Equal(g.Config.Input[0].Dims, []int64{2}) ||
		g.Config.Parameters["slo_ms"].StringValue != "100" || !slices.Equal(g.Config.VersionPolicy.GetSpecific().GetVersions(), []int64{1, 2}) || g.Config.InstanceGroup[0].Kind != inference.ModelInstanceGroup_KIND_MODEL {
		t.Errorf("%v, %v", g, err)
	}
	k.fake.down.Store(true)
	if r, err := c.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil || r.Ready {
		t.Errorf("%v, %v", r, err)
	}
}

// gRPC's health service: of the server, of models, and as they change.
func TestHealth(t *testing.T) {
	k, ctx := start(t, Config{}), within(t)
	h := grpc_health_v1.NewHealthClient(k.conn)
	for service, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{"": grpc_health_v1.HealthCheckResponse_SERVING,
		serviceName: grpc_health_v1.HealthCheckResponse_SERVING, "two": grpc_health_v1.HealthCheckResponse_SERVING, "down": grpc_health_v1.HealthCheckResponse_NOT_SERVING} {
		if r, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service}); err != nil || r.Status != want {
			t.Errorf("%q: %v, %v", service, r, err)
		}
	}
	if _, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	watch, err := h.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, down := range []bool{false, true, false} {
		k.fake.down.Store(down)
		if r, err := watch.Recv(); err != nil || (r.Status == grpc_health_v1.HealthCheckResponse_SERVING) == down {
			t.Errorf("down %v: %v, %v", down, r, err)
		}
	}
	if l, err := h.List(ctx, &grpc_health_v1.HealthListRequest{}); err != nil || len(l.Statuses) != 2 {
		t.Errorf("%v, %v", l, err)
	}
}

// Reflection lists the services, and has the protocol's file: grpcurl needs no .proto.
func TestReflection(t *testing.T) {
	k := start(t, Config{})
	r, err := grpc_reflection_v1.NewServerReflectionClient(k.conn).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		t.Helper()
		if err := r.Send(q); err != nil {
			t.Fatal(err)
		}
		a, err := r.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var services []string
	for _, s := range ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		services = append(services, s.Name)
	}
	if !slices.Contains(services, serviceName) || !slices.Contains(services, "grpc.health.v1.Health") {
		t.Errorf("%v", services)
	}
	file := ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: serviceName}})
	if len(file.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("%v", file)
	}
	r.CloseSend()
}

// Statistics count both answers and refusals, with the equal counts that perf_analyzer insists on.
func TestStatistics(t *testing.T) {
	k, ctx := start(t, Config{}), within(t)
	q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
	for range 3 {
		if _, err := k.client.ModelInfer(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	k.fake.set(&frontend.Error{Kind: frontend.ErrOverloaded, Reason: wire.ReasonFull}, nil)
	if _, err := k.client.ModelInfer(ctx, q); err == nil {
		t.Fatal("no error")
	}
	r, err := k.client.ModelStatistics(ctx, &inference.ModelStatisticsRequest{Name: "flat"})
	if err != nil || len(r.ModelStats) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	m := r.ModelStats[0]
	of := m.InferenceStats
	if m.InferenceCount != 3 || m.ExecutionCount != 1 || of.Success.Count != 3 || of.Success.Ns != 30e6 || of.Fail.Count != 1 || of.Queue.Ns != 9e6 || of.ComputeInput.Count != 3 || of.ComputeInfer.Count != 3 || of.ComputeOutput.Count != 3 ||
		len(m.BatchStats) != 1 || m.BatchStats[0].BatchSize != 4 {
		t.Errorf("%v", m)
	}
	if all, err := k.client.ModelStatistics(ctx, &inference.ModelStatisticsRequest{}); err != nil || len(all.ModelStats) != len(k.fake.entries) {
		t.Errorf("%v", err)
	}
	if _, err := k.client.ModelStatistics(ctx, &inference.ModelStatisticsRequest{Name: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
}

// Without a control plane models cannot be loaded, and it says so; settings are told and are fixed.
func TestRepositoryAndSettings(t *testing.T) {
	k, ctx := start(t, Config{}), within(t)
	c := k.client
	for ready, want := range map[bool]int{false: len(k.fake.entries), true: len(k.fake.entries) - 1} {
		if r, err := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{Ready: ready}); err != nil || len(r.Models) != want {
			t.Errorf("%v, %v", r, err)
		}
	}
	if r, err := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{}); err == nil { // the reason says why it is not ready
		for _, m := range r.Models {
			if (m.State == "READY") != (m.Reason == "") {
				t.Errorf("%v", m)
			}
		}
	}
	text := func(s string) map[string]*inference.ModelRepositoryParameter {
		return map[string]*inference.ModelRepositoryParameter{s: {ParameterChoice: &inference.ModelRepositoryParameter_StringParam{StringParam: "{}"}}}
	}
	for _, q := range []struct {
		q    *inference.RepositoryModelLoadRequest
		code codes.Code
		text string
	}{
		{&inference.RepositoryModelLoadRequest{ModelName: "two"}, codes.OK, ""},
		{&inference.RepositoryModelLoadRequest{RepositoryName: "two"}, codes.OK, ""}, // KServe's form
		{&inference.RepositoryModelLoadRequest{ModelName: "down"}, codes.InvalidArgument, "no control plane"},
		{&inference.RepositoryModelLoadRequest{ModelName: "two", Parameters: text("file:1/model.onnx")}, codes.InvalidArgument, "not taken in requests"},
		{&inference.RepositoryModelLoadRequest{ModelName: "two", Parameters: text("confg")}, codes.InvalidArgument, "no such parameter"},
		{&inference.RepositoryModelLoadRequest{ModelName: "two", Parameters: map[string]*inference.ModelRepositoryParameter{"config": {}}}, codes.InvalidArgument, "must be a string_param"},
		{&inference.RepositoryModelLoadRequest{ModelName: "two", Parameters: text("config")}, codes.OK, ""},
	} {
		if _, err := c.RepositoryModelLoad(ctx, q.q); status.Code(err) != q.code || err != nil && !strings.Contains(err.Error(), q.text) {
			t.Errorf("%v: %v", q.q, err)
		}
	}
	if _, err := c.RepositoryModelUnload(ctx, &inference.RepositoryModelUnloadRequest{ModelName: "two"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
	if _, err := c.RepositoryModelUnload(ctx, &inference.RepositoryModelUnloadRequest{ModelName: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	if r, err := c.TraceSetting(ctx, &inference.TraceSettingRequest{}); err != nil || !slices.Equal(r.Settings["trace_level"].GetValue(), []string{"OFF"}) {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := c.TraceSetting(ctx, &inference.TraceSettingRequest{ModelName: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := c.TraceSetting(ctx, &inference.TraceSettingRequest{ModelName: "two"}); err != nil {
		t.Errorf("%v", err)
	}
	if r, err := c.LogSettings(ctx, &inference.LogSettingsRequest{}); err != nil || !r.Settings["log_info"].GetBoolParam() || r.Settings["log_format"].GetStringParam() != "default" {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := c.LogSettings(ctx, &inference.LogSettingsRequest{Settings: map[string]*inference.LogSettingsRequest_SettingValue{"log_info": {}}}); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}

// Calls that HTTP has at another address are refused here.
func TestApart(t *testing.T) {
	k, ctx := start(t, Config{AdminApart: true, MetricsApart: true}), within(t)
	c := k.client
	_, index := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
	_, load := c.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{})
	_, unload := c.RepositoryModelUnload(ctx, &inference.RepositoryModelUnloadRequest{})
	_, trace := c.TraceSetting(ctx, &inference.TraceSettingRequest{})
	_, logs := c.LogSettings(ctx, &inference.LogSettingsRequest{})
	_, stats := c.ModelStatistics(ctx, &inference.ModelStatisticsRequest{})
	for i, err := range []error{index, load, unload, trace, logs, stats} {
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "address of its own") {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A stream's answers come in the order of its requests, errors among them, and the stream goes on.
func TestStream(t *testing.T) {
	k := start(t, Config{StreamCalls: 4})
	stream, err := k.client.ModelStreamInfer(within(t))
	if err != nil {
		t.Fatal(err)
	}
	const n = 50
	go func() {
		for i := range n {
			q := ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))
			q.RawInputContents[0][0], q.Id = byte(i), fmt.Sprint(i)
			if i%5 == 4 {
				q.ModelName = "nobody"
			}
			if err := stream.Send(q); err != nil {
				t.Error(err)
			}
		}
		stream.CloseSend()
	}()
	for i := range n {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		a := r.InferResponse
		switch {
		case a.GetId() != fmt.Sprint(i):
			t.Fatalf("answer %d: %v", i, r)
		case i%5 == 4:
			if !strings.Contains(r.ErrorMessage, "unknown model: 'nobody'") {
				t.Errorf("answer %d: %v", i, r)
			}
		case r.ErrorMessage != "" || a.RawOutputContents[0][0] != byte(i) || !a.Parameters["triton_final_response"].GetBoolParam():
			t.Errorf("answer %d: %v", i, r)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}

// A stream that is cancelled takes what waits with it; one that is open does not keep a drain waiting.
func TestStreamEnds(t *testing.T) {
	k := start(t, Config{})
	k.fake.set(nil, make(chan struct{}))
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := k.client.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := stream.Send(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "ten wait", func() bool { return k.fake.waiting.Load() == 10 })
	cancel()
	until(t, "none waits", func() bool { return k.fake.waiting.Load() == 0 })
	open, err := k.client.ModelStreamInfer(within(t))
	if err != nil {
		t.Fatal(err)
	}
	k.fake.set(nil, nil)
	if err := open.Send(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Recv(); err != nil {
		t.Fatal(err)
	}
	limit, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	drained := make(chan error, 1)
	go func() { drained <- k.Drain(limit) }()
	if _, err := open.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	if err := <-drained; err != nil {
		t.Errorf("%v", err)
	}
}
