package grpcin

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// instant answers at once and allocates nothing.
type instant struct {
	*fake
	entry    catalog.Entry
	response frontend.Response
	slab     []byte
}

func (f *instant) Choose(string, string) (catalog.Entry, error) { return f.entry, nil }
func (f *instant) Model(string, string) (catalog.Entry, error)  { return f.entry, nil }
func (f *instant) Release(*frontend.Reservation)                {}

func (f *instant) Reserve(r *frontend.Reservation, _, _ string) error {
	r.Input = f.slab
	return nil
}

func (f *instant) InferReserved(context.Context, *frontend.Reservation, time.Duration) (*frontend.Response, error) {
	return &f.response, nil
}

// allocations of one inference, from its handler's begin to its answer.
func allocations(t *testing.T, cfg ingress.Config, caller string) float64 {
	t.Helper()
	f := &instant{fake: newFake(), slab: make([]byte, 16)}
	f.entry, _ = f.fake.Model("flat", "")
	f.response = frontend.Response{Version: "1", BatchSize: 1, Total: time.Millisecond, Outputs: []frontend.Tensor{{Name: "y", Type: catalog.FP32, Shape: []int64{4}, Data: make([]byte, 16)}}}
	cfg.Client = f
	web, err := ingress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	s, err := New(Config{Web: web, Client: f})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	raw, err := proto.Marshal(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16)))
	if err != nil {
		t.Fatal(err)
	}
	data := mem.BufferSlice{mem.SliceBuffer(raw)}
	decode := func(v any) error { v.(*request).take(data); return nil }
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("user-agent", "test"))
	if caller != "" {
		ctx = metadata.NewIncomingContext(context.Background(), metadata.Pairs("traceparent", caller))
	}
	return testing.AllocsPerRun(200, func() {
		answer, err := modelInfer(s, ctx, decode, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := answer.(*reply)
		mem.NewBuffer(&r.bytes, r.pool).Free()
	})
}

// perInference is what an inference allocates with nobody to tell of it.
const perInference = 12

// TestTellingCostsNothing: an inference that nobody is told of allocates what it does without a tracer, an
// access log and a recording. A caller's traceparent that says no costs its text, twice.
func TestTellingCostsNothing(t *testing.T) {
	if raceEnabled || testing.CoverMode() != "" {
		t.Skip("a sync.Pool forgets at random")
	}
	off := allocations(t, ingress.Config{}, "")
	if off > perInference {
		t.Errorf("%v allocations without anybody to tell, want at most %d", off, perInference)
	}
	l, err := accesslog.Open(accesslog.Config{Path: filepath.Join(t.TempDir(), "access.log")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tr, err := tracing.Open(tracing.Config{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if n := allocations(t, ingress.Config{Tracer: tr, AccessLog: l}, ""); n != off {
		t.Errorf("%v allocations of an inference that is not sampled, %v without a tracer", n, off)
	}
	if n := allocations(t, ingress.Config{Tracer: tr, AccessLog: l}, parent[:53]+"00"); n > off+2 {
		t.Errorf("%v allocations of one that its caller does not sample, %v without a tracer", n, off)
	}
}
