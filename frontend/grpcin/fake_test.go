package grpcin

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an Inferrer whose models return their inputs, each as the output of its place.
type fake struct {
	entries  []catalog.Entry
	down     atomic.Bool
	cold     atomic.Bool
	reserved atomic.Int64 // and not released
	waiting  atomic.Int64 // in InferReserved or InferAsync

	mu   sync.Mutex // Guards what follows.
	fail error
	hold chan struct{} // not nil: answers wait for it, or for their context
	last time.Duration // the timeout of the last request
	seen frontend.TraceID
	rank atomic.Uint32 // the priority of the last request, and its class from bit 8 on
	left time.Duration // until its context's deadline; 0: it had none
}

func tensor(name string, t catalog.DataType, shape ...int64) catalog.TensorSpec {
	return catalog.TensorSpec{Name: name, Type: t, Shape: shape}
}

func entryOf(name, version string, in, out []catalog.TensorSpec) catalog.Entry {
	return catalog.Entry{DeviceType: "cpu", Ready: true, GPUs: 1, Spec: catalog.ModelSpec{Name: name, Version: version, Platform: "emulated",
		SLO: 100 * mono.Millisecond, MaxBatch: 8, Inputs: in, Outputs: out, LabelsID: "zero-one-two"}}
}

func types() []catalog.DataType {
	return []catalog.DataType{catalog.Bool, catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64, catalog.Int8,
		catalog.Int16, catalog.Int32, catalog.Int64, catalog.FP16, catalog.FP32, catalog.FP64}
}

func newFake() *fake {
	f := &fake{}
	for _, t := range types() {
		f.entries = append(f.entries, entryOf("echo-"+string(t), "1", []catalog.TensorSpec{tensor("x", t, 2, 3)}, []catalog.TensorSpec{tensor("y", t, 2, 3)}))
	}
	two := entryOf("two", "1", []catalog.TensorSpec{tensor("a", catalog.Int32, 2), tensor("b", catalog.Uint8, 1)},
		[]catalog.TensorSpec{tensor("p", catalog.Int32, 2), tensor("q", catalog.Uint8, 1)})
	newer := two
	newer.Spec.Version = "2"
	flat := entryOf("flat", "1", []catalog.TensorSpec{tensor("x", catalog.FP32, 4)}, []catalog.TensorSpec{tensor("y", catalog.FP32, 4)})
	flat.Spec.MaxBatch = 0
	big := entryOf("big", "1", []catalog.TensorSpec{tensor("x", catalog.FP32, 100_000)}, []catalog.TensorSpec{tensor("y", catalog.FP32, 100_000)})
	down := flat
	down.Spec.Name, down.Ready = "down", false
	f.entries = append(f.entries, newer, two, flat, big, down)
	return f
}

func (f *fake) Models() catalog.Catalogue { return catalog.Catalogue{Entries: f.entries} }
func (f *fake) Ready() bool               { return !f.down.Load() }
func (f *fake) Serving() bool             { return !f.down.Load() }

func (f *fake) Model(name, version string) (catalog.Entry, error) {
	for _, e := range f.entries {
		if e.Spec.Name == name && (version == "" || e.Spec.Version == version) {
			return e, nil
		}
	}
	return catalog.Entry{}, &frontend.Error{Kind: frontend.ErrUnknownModel, Reason: wire.ReasonUnknownModel, Model: name}
}

func (f *fake) Choose(name, version string) (catalog.Entry, error) { return f.Model(name, version) }

func (f *fake) Versions(name string) (versions []string) {
	for _, e := range f.entries {
		if e.Spec.Name == name {
			versions = append(versions, e.Spec.Version)
		}
	}
	slices.Sort(versions)
	return versions
}

func (f *fake) Labels(context.Context, string, string) ([]string, error) {
	return []string{"zero", "one", "two"}, nil
}

// answer waits where it shall, and returns the inputs.
func (f *fake) answer(ctx context.Context, e catalog.Entry, slab []byte, timeout time.Duration, trace frontend.TraceID) (*frontend.Response, error) {
	f.mu.Lock()
	fail, hold := f.fail, f.hold
	f.last, f.left, f.seen = timeout, 0, trace
	if d, ok := ctx.Deadline(); ok {
		f.left = time.Until(d)
	}
	f.mu.Unlock()
	if hold != nil {
		f.waiting.Add(1)
		defer f.waiting.Add(-1)
		select {
		case <-hold:
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return nil, &frontend.Error{Kind: frontend.ErrDeadlineExceeded, Reason: wire.ReasonExpired, Model: e.Spec.Name}
			}
			return nil, &frontend.Error{Kind: frontend.ErrCancelled, Reason: wire.ReasonCancelled, Model: e.Spec.Name}
		}
	}
	if fail != nil {
		return nil, fail
	}
	r := &frontend.Response{Version: e.Spec.Version, BatchSize: 4, GPU: 2, Queue: 3 * time.Millisecond, Execute: 5 * time.Millisecond, Total: 10 * time.Millisecond, Frontend: 3, Request: 255, Slack: -2 * time.Millisecond, Cold: f.cold.Load()}
	for i, o := range e.Spec.Outputs {
		n := e.Spec.Inputs[i].ByteSize()
		r.Outputs = append(r.Outputs, frontend.Tensor{Name: o.Name, Type: o.Type, Shape: o.Shape, Data: bytes.Clone(slab[:n])})
		slab = slab[n:]
	}
	return r, nil
}

func (f *fake) Infer(ctx context.Context, r frontend.Request) (*frontend.Response, error) {
	e, err := f.Model(r.Model, r.Version)
	if err != nil {
		return nil, err
	}
	var slab []byte
	for _, in := range e.Spec.Inputs {
		for _, t := range r.Inputs {
			if t.Name == in.Name {
				slab = append(slab, t.Data...)
			}
		}
	}
	f.rank.Store(uint32(r.Priority) | uint32(r.Class)<<8)
	return f.answer(ctx, e, slab, r.Timeout, r.Trace)
}

func (f *fake) InferAsync(ctx context.Context, r frontend.Request, done func(*frontend.Response, error)) {
	done(f.Infer(ctx, r))
}

func (f *fake) Reserve(r *frontend.Reservation, model, version string) error {
	e, err := f.Model(model, version)
	if err != nil {
		return err
	}
	size := 0
	for _, in := range e.Spec.Inputs {
		size += int(in.ByteSize())
	}
	r.Model, r.Version, r.Input = model, version, make([]byte, size)
	f.reserved.Add(1)
	return nil
}

func (f *fake) Release(r *frontend.Reservation) {
	if r.Input != nil {
		f.reserved.Add(-1)
	}
	*r = frontend.Reservation{}
}

func (f *fake) InferReserved(ctx context.Context, r *frontend.Reservation, timeout time.Duration) (*frontend.Response, error) {
	defer f.Release(r)
	e, err := f.Model(r.Model, r.Version)
	if err != nil {
		return nil, err
	}
	f.rank.Store(uint32(r.Priority) | uint32(r.Class)<<8)
	return f.answer(ctx, e, r.Input, timeout, r.Trace)
}

func (f *fake) set(fail error, hold chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.hold = fail, hold
}

// asked is what the last request brought.
func (f *fake) asked() (timeout, left time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.left
}

// traced is the trace that the last request was of.
func (f *fake) traced() frontend.TraceID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// server is a running one over a fake, and a client of it.
type server struct {
	t *testing.T
	*Server
	fake    *fake
	web     *ingress.Server
	address string
	conn    *grpc.ClientConn
	client  inference.GRPCInferenceServiceClient
}

func start(t *testing.T, cfg Config) *server {
	t.Helper()
	return startWith(t, cfg, ingress.Config{})
}

// startWith says more of what both protocols share.
func startWith(t *testing.T, cfg Config, shared ingress.Config) *server {
	t.Helper()
	f := newFake()
	shared.Client, shared.Version, shared.Requests = f, "7", 64
	web, err := ingress.New(shared)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Web, cfg.Client = web, f
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	k := &server{t: t, Server: s, fake: f, web: web, address: l.Addr().String()}
	k.conn = k.dial()
	k.client = inference.NewGRPCInferenceServiceClient(k.conn)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		k.conn.Close()
		if err := s.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := web.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := f.reserved.Load(); n != 0 {
			t.Errorf("%d reservations are left", n)
		}
		until(t, "no connection and no byte is left", func() bool { return s.open.Load() == 0 && s.held.Load() == 0 && s.unsent.Load() == 0 })
	})
	return k
}

// bare is a server that no connection leads to.
func bare(t testing.TB) *Server {
	f := newFake()
	web, err := ingress.New(ingress.Config{Client: f})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Web: web, Client: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return s
}

func (k *server) dial() *grpc.ClientConn {
	k.t.Helper()
	c, err := grpc.NewClient(k.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		k.t.Fatal(err)
	}
	return c
}

// within is a context of the test's.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ask is a request of one input.
func ask(model, name string, t catalog.DataType, shape []int64, raw []byte) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{ModelName: model, Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: name, Datatype: string(t), Shape: shape}}, RawInputContents: [][]byte{raw}}
}

// until waits for a condition that some event of the server's brings.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// Cancel implements ingress.Inferrer: over gRPC contexts end.
func (f *fake) Cancel(wire.RequestID) {}
