package ingress

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// The real client must fit.
var _ Inferrer = (*frontend.Client)(nil)

func TestMain(m *testing.M) {
	// fasthttp's pool looks for its stop every ten seconds, and its clock for
	// the Date header never stops.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// fake is an Inferrer: "echo-T" models return their inputs, "sum" the sum of
// its input and its highest element's place.
type fake struct {
	entries   []catalog.Entry
	down      atomic.Bool
	served    atomic.Int64
	arenaFull atomic.Bool
	reserved  atomic.Int64 // and not yet released
	chosen    atomic.Int64
	cold      atomic.Bool // what is answered waited for its weights

	mu        sync.Mutex // Guards what follows.
	fail      func(r frontend.Request) error
	hold      chan struct{} // not nil: answers wait for it
	last      frontend.Request
	open      map[wire.RequestID]chan struct{} // requests that wait for hold; closed: cancelled
	ids       wire.RequestID
	cancelled int
	stuck     chan struct{}        // not nil: Cancel waits for it
	choose    func(n int64) string // the version of the nth choice
	gone      map[string]bool      // keys of models that went
}

func spec(name string, in, out []catalog.TensorSpec) catalog.Entry {
	return catalog.Entry{DeviceType: "cpu", Ready: true, GPUs: 1, Spec: catalog.ModelSpec{Name: name, Version: "1", Platform: "emulated",
		SLO: 100 * mono.Millisecond, MaxBatch: 8, Inputs: in, Outputs: out, LabelsID: "zero-one-two"}}
}

func newFake() *fake {
	f := &fake{}
	for _, t := range []catalog.DataType{catalog.Bool, catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64, catalog.Int8,
		catalog.Int16, catalog.Int32, catalog.Int64, catalog.FP16, catalog.FP32, catalog.FP64} {
		f.entries = append(f.entries, spec("echo-"+string(t),
			[]catalog.TensorSpec{{Name: "x", Type: t, Shape: []int64{2, 3}}}, []catalog.TensorSpec{{Name: "y", Type: t, Shape: []int64{2, 3}}}))
	}
	big := []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{784}}}
	f.entries = append(f.entries, spec("digits", big, []catalog.TensorSpec{{Name: "logits", Type: catalog.FP32, Shape: []int64{3}}}),
		spec("wide", big, []catalog.TensorSpec{{Name: "y", Type: catalog.FP32, Shape: []int64{784}}}))
	two := spec("two", []catalog.TensorSpec{{Name: "a", Type: catalog.Int32, Shape: []int64{2}}, {Name: "b", Type: catalog.Uint8, Shape: []int64{1}}},
		[]catalog.TensorSpec{{Name: "p", Type: catalog.Int32, Shape: []int64{2}}, {Name: "q", Type: catalog.Uint8, Shape: []int64{1}}})
	flat := spec("flat", []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{4}}}, []catalog.TensorSpec{{Name: "y", Type: catalog.FP32, Shape: []int64{4}}})
	flat.Spec.MaxBatch = 0
	down := spec("down", big, big)
	down.Ready = false
	old := two
	old.Spec.Version = "0"
	huge := []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{10000}}}
	f.entries = append(f.entries, spec("huge", huge, huge))
	f.entries = append(f.entries, two, flat, down, old)
	return f
}

func (f *fake) Models() catalog.Catalogue { return catalog.Catalogue{Entries: f.entries} }
func (f *fake) Ready() bool               { return !f.down.Load() }
func (f *fake) Serving() bool {
	return slices.ContainsFunc(f.entries, func(e catalog.Entry) bool { return e.Ready })
}

func (f *fake) Model(name, version string) (catalog.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if e.Spec.Name == name && !f.gone[e.Spec.Key()] && (version == "" || e.Spec.Version == version) {
			return e, nil
		}
	}
	return catalog.Entry{}, &frontend.Error{Kind: frontend.ErrUnknownModel, Model: name}
}

func (f *fake) Choose(name, version string) (catalog.Entry, error) {
	n := f.chosen.Add(1)
	f.mu.Lock()
	if f.choose != nil && version == "" {
		version = f.choose(n)
	}
	f.mu.Unlock()
	return f.Model(name, version)
}

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

func (f *fake) Infer(ctx context.Context, r frontend.Request) (*frontend.Response, error) {
	f.mu.Lock()
	fail, hold := f.fail, f.hold
	f.last = r
	f.mu.Unlock()
	if hold != nil {
		if err := f.await(r, hold); err != nil {
			return nil, err
		}
		f.mu.Lock()
		fail = f.fail
		f.mu.Unlock()
	}
	if fail != nil {
		if err := fail(r); err != nil {
			return nil, err
		}
	}
	e, err := f.Model(r.Model, r.Version)
	if err != nil {
		return nil, err
	}
	if r.Image != nil && !bytes.HasPrefix(r.Image, []byte("\x89PNG")) {
		return nil, &frontend.Error{Kind: frontend.ErrBadInput, Reason: wire.ReasonInput, Model: r.Model, Msg: "no image"}
	}
	f.served.Add(1)
	return f.respond(e, r), nil
}

// await waits for hold, or until the request is cancelled.
func (f *fake) await(r frontend.Request, hold chan struct{}) error {
	cancelled := make(chan struct{})
	f.mu.Lock()
	f.ids++
	id := f.ids
	if f.open == nil {
		f.open = map[wire.RequestID]chan struct{}{}
	}
	f.open[id] = cancelled
	f.mu.Unlock()
	if r.ID != nil {
		r.ID.Store(uint64(id))
	}
	select {
	case <-hold:
		f.mu.Lock()
		delete(f.open, id)
		f.mu.Unlock()
		return nil
	case <-cancelled:
		return &frontend.Error{Kind: frontend.ErrCancelled, Reason: wire.ReasonCancelled, Model: r.Model}
	}
}

func (f *fake) Cancel(id wire.RequestID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stuck := f.stuck; stuck != nil {
		f.mu.Unlock()
		stuck <- struct{}{}
		<-stuck
		f.mu.Lock()
	}
	if c, ok := f.open[id]; ok {
		delete(f.open, id)
		f.cancelled++
		close(c)
	}
}

// state is how many requests wait, and how many were cancelled.
func (f *fake) state() (waiting, cancelled int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open), f.cancelled
}

func (f *fake) respond(e catalog.Entry, r frontend.Request) *frontend.Response {
	a := &frontend.Response{Version: e.Spec.Version, BatchSize: 4, GPU: 2, Queue: 3 * time.Millisecond, Fetch: time.Millisecond, Execute: 5 * time.Millisecond,
		Reply: time.Millisecond, Total: 10 * time.Millisecond, Frontend: 3, Request: 255, Slack: -2 * time.Millisecond, Cold: f.cold.Load()}
	for i, o := range e.Spec.Outputs {
		t := frontend.Tensor{Name: o.Name, Type: o.Type, Shape: o.Shape}
		switch {
		case e.Spec.Name == "digits":
			t.Data = make([]byte, 12)
			binary.LittleEndian.PutUint32(t.Data[4:], 0x40000000) // 2.0: the label "one"
		case i < len(r.Inputs):
			for _, in := range r.Inputs {
				if in.Name == e.Spec.Inputs[i].Name {
					t.Data = bytes.Clone(in.Data)
				}
			}
		}
		a.Outputs = append(a.Outputs, t)
	}
	return a
}

func (f *fake) InferAsync(ctx context.Context, r frontend.Request, done func(*frontend.Response, error)) {
	f.mu.Lock()
	held := f.hold != nil
	f.mu.Unlock()
	ask := func() { done(f.Infer(ctx, r)) }
	if held {
		go ask()
		return
	}
	ask()
}

func (f *fake) Reserve(r *frontend.Reservation, model, version string) error {
	e, err := f.Model(model, version)
	if err != nil {
		return err
	}
	if f.arenaFull.Load() {
		return &frontend.Error{Kind: frontend.ErrOverloaded, Reason: wire.ReasonFull, Model: model, Msg: "the frontend's arena is full"}
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
	q := frontend.Request{Model: r.Model, Version: r.Version, Timeout: timeout, Priority: r.Priority, Class: r.Class, ID: r.ID}
	for _, in := range e.Spec.Inputs {
		n := in.ByteSize()
		q.Inputs = append(q.Inputs, frontend.Tensor{Name: in.Name, Type: in.Type, Shape: in.Shape, Data: r.Input[:n]})
		r.Input = r.Input[n:]
	}
	return f.Infer(ctx, q)
}

func (f *fake) failWith(err func(r frontend.Request) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func reason(kind error, r wire.Reason) func(frontend.Request) error {
	return func(q frontend.Request) error { return &frontend.Error{Kind: kind, Reason: r, Model: q.Model} }
}

// server is a running ingress over a fake.
type server struct {
	t *testing.T
	*Server
	fake    *fake
	address string
	ended   chan error
}

func start(t *testing.T, cfg Config) *server {
	t.Helper()
	f := newFake()
	cfg.Client = f
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &server{t: t, Server: s, fake: f, address: l.Addr().String(), ended: make(chan error, 1)}
	go func() { k.ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := s.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		if err := <-k.ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if n := f.reserved.Load(); n != 0 {
			t.Errorf("%d reservations are left", n)
		}
	})
	return k
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	closes bool
}

func (s *server) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, b, resp.Close}
}

// want demands a status and a piece of the body.
func (s *server) want(a answer, status int, text string) {
	s.t.Helper()
	if a.status != status || !strings.Contains(string(a.body), text) {
		s.t.Errorf("answer %d %s, want %d with %q", a.status, a.body, status, text)
	}
	if a.status >= 400 && (a.header.Get(reasonHeader) == "" || !strings.Contains(string(a.body), `"error":`)) {
		s.t.Errorf("answer %d %s: no reason header or no error", a.status, a.body)
	}
}

// binaryBody puts a header and tensors together; the length for the header.
func binaryBody(header string, tensors ...string) (body, length string) {
	return header + strings.Join(tensors, ""), fmt.Sprint(len(header))
}

// exchangeRaw sends bytes on a connection of its own and returns all that
// comes back until the server closes.
func exchangeRaw(t *testing.T, address, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}
