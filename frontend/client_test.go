package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func four(v byte) Tensor {
	return Tensor{Name: "x", Type: catalog.FP32, Shape: []int64{4}, Data: bytes.Repeat([]byte{v}, 16)}
}

func echo(v byte) Request { return Request{Model: "echo", Inputs: []Tensor{four(v)}} }

// allFree fails unless no request is open and no slab in use.
func allFree(t *testing.T, c *Client) {
	t.Helper()
	if c.InFlight() != 0 || c.arena.Used() != 0 {
		t.Errorf("%d requests open, %d slabs in use, want none", c.InFlight(), c.arena.Used())
	}
}

func TestInfer(t *testing.T) {
	c := newCluster(t)
	registry := prometheus.NewRegistry()
	client := c.dial(func(o *Options) { o.Metrics = registry })
	r, err := client.Infer(context.Background(), echo(9))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Outputs) != 1 || !bytes.Equal(r.Outputs[0].Data, four(9).Data) || r.BatchSize != 3 || r.GPU != 5 || r.Slack <= 0 || r.Total <= 0 {
		t.Errorf("%+v", r)
	}
	batch := echo(1)
	batch.Inputs[0].Shape = []int64{1, 4}
	batch.Version = "1"
	if _, err := client.Infer(context.Background(), batch); err != nil {
		t.Errorf("a leading batch dimension of 1: %v", err)
	}
	allFree(t, client)
	families, err := registry.Gather()
	if err != nil || len(families) < 4 {
		t.Errorf("metrics: %d families, %v", len(families), err)
	}
}

func TestImage(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Infer(context.Background(), Request{Model: "image", Image: b.Bytes()}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Infer(context.Background(), Request{Model: "image", Image: []byte("no image")}); !errors.Is(err, ErrBadInput) {
		t.Errorf("%v", err)
	}
	allFree(t, client)
}

// What cannot be taken is refused at once, with the field named.
func TestRefused(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	change := func(f func(*Request)) Request { r := echo(1); f(&r); return r }
	for _, k := range []struct {
		name, text string
		r          Request
		want       error
	}{
		{"model", "not in the catalogue", Request{Model: "nobody"}, ErrUnknownModel},
		{"version", "no version 9", change(func(r *Request) { r.Version = "9" }), ErrUnknownModel},
		{"not ready", "no backend", change(func(r *Request) { r.Model = "away" }), ErrUnavailable},
		{"no input", "0 inputs", change(func(r *Request) { r.Inputs = nil }), ErrBadInput},
		{"name", `"x" is missing`, change(func(r *Request) { r.Inputs[0].Name = "y" }), ErrBadInput},
		{"type", "is INT32", change(func(r *Request) { r.Inputs[0].Type = catalog.Int32 }), ErrBadInput},
		{"shape", "has shape [2 2]", change(func(r *Request) { r.Inputs[0].Shape = []int64{2, 2} }), ErrBadInput},
		{"size", "has 15 bytes", change(func(r *Request) { r.Inputs[0].Data = make([]byte, 15) }), ErrBadInput},
		{"image", "no image preprocessing", Request{Model: "echo", Image: []byte{1}}, ErrBadInput},
		{"both", "not both", change(func(r *Request) { r.Image = []byte{1} }), ErrBadInput},
		{"timeout", "timeout", change(func(r *Request) { r.Timeout = -1 }), ErrBadInput},
		{"long timeout", "timeout", change(func(r *Request) { r.Timeout = 2 * time.Hour }), ErrBadInput},
	} {
		_, err := client.Infer(context.Background(), k.r)
		if !errors.Is(err, k.want) || !strings.Contains(err.Error(), k.text) {
			t.Errorf("%s: %v, want %v with %q", k.name, err, k.want, k.text)
		}
	}
	allFree(t, client)
}

// Each reason of the scheduler becomes the error that users can match.
func TestReasons(t *testing.T) {
	c := newCluster(t)
	var reason atomic.Int32
	c.onSubmit = func(_ *cluster, control, _ transport.Link, m wire.Submit) {
		answer(control, m.Request, wire.Reason(reason.Load()))
	}
	client := c.dial(nil)
	for r, want := range map[wire.Reason]error{
		wire.ReasonDeadline: ErrDropped, wire.ReasonShed: ErrDropped, wire.ReasonFull: ErrOverloaded, wire.ReasonUnavailable: ErrUnavailable,
		wire.ReasonBackendLost: ErrUnavailable, wire.ReasonUnknownModel: ErrLoading /* the catalogue has it */, wire.ReasonExecution: ErrFailed,
		wire.ReasonInput: ErrBadInput, wire.ReasonDraining: ErrUnavailable, wire.ReasonExpired: ErrDeadlineExceeded,
	} {
		reason.Store(int32(r))
		_, err := client.Infer(context.Background(), echo(1))
		var e *Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Reason != r && r != wire.ReasonUnknownModel || e.Model != "echo" {
			t.Errorf("%v: %v", r, err)
		}
	}
	if err := reasonError("m", wire.ReasonDeadline); !errors.Is(err, ErrDeadlineExceeded) {
		t.Error("a deadline drop does not match ErrDeadlineExceeded")
	}
	allFree(t, client)
}

// The rule of deadlines: Timeout, else the SLO; an earlier context tightens,
// a later one does not loosen.
func TestDeadline(t *testing.T) {
	c := newCluster(t)
	budgets := make(chan mono.Dur, 1)
	c.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		budgets <- m.Deadline.Sub(m.Arrival)
		c.serve(data, m)
	}
	client := c.dial(func(o *Options) { o.ReplyMargin = new(2 * mono.Millisecond) })
	for _, k := range []struct {
		timeout, ctx, low, high time.Duration
	}{
		{0, 0, 498 * time.Millisecond, 498 * time.Millisecond},
		{0, time.Hour, 498 * time.Millisecond, 498 * time.Millisecond},
		{0, 200 * time.Millisecond, 100 * time.Millisecond, 198 * time.Millisecond},
		{3 * time.Second, 0, 2998 * time.Millisecond, 2998 * time.Millisecond},
		{3 * time.Second, time.Second, 800 * time.Millisecond, 998 * time.Millisecond},
	} {
		ctx, cancel := context.Background(), func() {}
		if k.ctx > 0 {
			ctx, cancel = context.WithTimeout(ctx, k.ctx)
		}
		r := echo(1)
		r.Timeout = k.timeout
		if _, err := client.Infer(ctx, r); err != nil {
			t.Errorf("%+v: %v", k, err)
		} else if got := (<-budgets).Std(); got < k.low || got > k.high {
			t.Errorf("timeout %v, context %v: the scheduler got %v, want %v to %v", k.timeout, k.ctx, got, k.low, k.high)
		}
		cancel()
	}
}

// A reply margin of 0 reserves nothing; the default is for who says nothing.
func TestReplyMargin(t *testing.T) {
	c := newCluster(t)
	budgets := make(chan mono.Dur, 1)
	c.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		budgets <- m.Deadline.Sub(m.Arrival)
		c.serve(data, m)
	}
	for want, margin := range map[mono.Dur]*mono.Dur{500 * mono.Millisecond: new(mono.Dur(0)), 500*mono.Millisecond - ReplyMarginDefault: nil} {
		client := c.dial(func(o *Options) { o.ReplyMargin = margin })
		if _, err := client.Infer(context.Background(), echo(1)); err != nil {
			t.Fatal(err)
		}
		if got := <-budgets; got != want {
			t.Errorf("the scheduler got %v, want %v", got, want)
		}
		client.Close()
	}
	if _, err := Dial(context.Background(), Options{Scheduler: "inproc:scheduler", Network: c.network, ReplyMargin: new(mono.Dur(-1))}); err == nil || !strings.Contains(err.Error(), "ReplyMargin") {
		t.Errorf("a negative margin: %v", err)
	}
}

// If nothing comes, the client answers by itself, and the slab is refused to
// late READs.
func TestSilenceExpires(t *testing.T) {
	c := newCluster(t)
	submits := make(chan wire.Submit, 1)
	c.onSubmit = func(_ *cluster, _, _ transport.Link, m wire.Submit) { submits <- m }
	client := c.dial(nil)
	r := echo(1)
	r.Timeout = 20 * time.Millisecond
	if _, err := client.Infer(context.Background(), r); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	m := <-submits
	late := make(chan error, 1)
	_ = c.data.Read([]transport.ReadOp{{Request: m.Request, Input: m.Input, Dst: make([]byte, 16), Done: func(_ uint64, err error) { late <- err }}})
	if err := <-late; !errors.Is(err, transport.ErrStale) {
		t.Errorf("late READ: %v", err)
	}
	output(c.data, m.Request, make([]byte, 16)) // nobody waits: ignored
	allFree(t, client)
}

func TestCancelled(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(context.Background())
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) { cancel() }
	client := c.dial(nil)
	if _, err := client.Infer(ctx, echo(1)); !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	allFree(t, client)
}

func TestLimits(t *testing.T) {
	c := newCluster(t)
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) {}
	client := c.dial(func(o *Options) { o.MaxInFlight = 10 })
	var full, other atomic.Int32
	var wait sync.WaitGroup
	wait.Add(30)
	for range 30 {
		client.InferAsync(context.Background(), echo(1), func(_ *Response, err error) {
			if errors.Is(err, ErrOverloaded) {
				full.Add(1)
			} else {
				other.Add(1)
			}
			wait.Done()
		})
	}
	if full.Load() != 20 || client.InFlight() != 10 {
		t.Errorf("%d overloaded, %d open; want 20 and 10", full.Load(), client.InFlight())
	}
	client.Close()
	wait.Wait()
	if other.Load() != 10 {
		t.Errorf("%d answered at Close, want 10", other.Load())
	}
}

// The scheduler goes and comes back: open requests are answered unavailable
// at once, new ones too, then there is service again.
func TestSchedulerLost(t *testing.T) {
	c := newCluster(t)
	submitted := make(chan struct{}, 1)
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) { submitted <- struct{}{} }
	client := c.dial(nil)
	answered := make(chan error, 1)
	client.InferAsync(context.Background(), echo(1), func(_ *Response, err error) { answered <- err })
	<-submitted
	c.close()
	if err := <-answered; !errors.Is(err, ErrUnavailable) {
		t.Errorf("open request: %v", err)
	}
	if _, err := client.Infer(context.Background(), echo(1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("new request: %v", err)
	}
	if client.Ready() {
		t.Error("ready without a scheduler")
	}
	c.onSubmit = nil
	c.listen()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := client.WaitReady(ctx, "echo"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Infer(ctx, echo(1)); err != nil {
		t.Errorf("after the return: %v", err)
	}
}

// TestSchedulerForgot: a scheduler that was started again knows no model until a
// backend has told it. What it does not know yet is unavailable; what never was is
// unknown.
func TestSchedulerForgot(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	c.close()
	all := c.doc
	c.doc = catalog.Catalogue{Epoch: 2}
	c.listen()
	for end := time.Now().Add(5 * time.Second); client.Models().Epoch != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the new scheduler's catalogue did not come")
		}
	}
	if _, err := client.Infer(context.Background(), echo(1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a model of the scheduler before: %v", err)
	}
	if _, err := client.Model("echo", ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("its description: %v", err)
	}
	if _, err := client.Model("nobody", ""); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("a model that never was: %v", err)
	}
	c.close()
	c.doc = all
	c.listen()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := client.WaitReady(ctx, "echo"); err != nil {
		t.Fatal(err)
	}
}

func TestDialFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, Options{Scheduler: "tcp:127.0.0.1:1"})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
	if _, err := Dial(ctx, Options{}); err == nil || !strings.Contains(err.Error(), "Options.Scheduler") {
		t.Errorf("%v", err)
	}
}

func TestDrain(t *testing.T) {
	c := newCluster(t)
	hold := make(chan wire.Submit, 1)
	c.onSubmit = func(_ *cluster, _, _ transport.Link, m wire.Submit) { hold <- m }
	client := c.dial(nil)
	answered := make(chan error, 1)
	client.InferAsync(context.Background(), echo(1), func(_ *Response, err error) { answered <- err })
	m := <-hold
	drained := make(chan error, 1)
	go func() { drained <- client.Drain(context.Background()) }()
	for client.Ready() {
		time.Sleep(time.Millisecond)
	}
	if _, err := client.Infer(context.Background(), echo(1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while draining: %v", err)
	}
	c.serve(c.data, m)
	if err := <-answered; err != nil {
		t.Errorf("the open request: %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// Best effort that waits holds no drain up: it is refused, and leaves the scheduler's queue.
func TestDrainRefusesBestEffort(t *testing.T) {
	c := newCluster(t)
	hold := make(chan wire.Submit, 1)
	c.onSubmit = func(_ *cluster, _, _ transport.Link, m wire.Submit) { hold <- m }
	client := c.dial(nil)
	answered := make(chan error, 1)
	r := echo(1)
	r.Class, r.Timeout = wire.ClassBestEffort, 0
	client.InferAsync(context.Background(), r, func(_ *Response, err error) { answered <- err })
	<-hold
	if err := client.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	var e *Error
	if err := <-answered; !errors.As(err, &e) || e.Reason != wire.ReasonDraining {
		t.Errorf("a request of best effort: %v", err)
	}
}

// Half of the requests that may be open are left to those with deadlines.
func TestBestEffortIsBounded(t *testing.T) {
	c := newCluster(t)
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) {}
	client := c.dial(func(o *Options) { o.MaxInFlight = 8 })
	refused := 0
	ask := func(class wire.Class, n int) {
		for range n {
			r := echo(1)
			r.Class, r.Timeout = class, time.Minute
			client.InferAsync(context.Background(), r, func(_ *Response, err error) {
				if errors.Is(err, ErrOverloaded) {
					refused++
				}
			})
		}
	}
	if ask(wire.ClassBestEffort, 6); refused != 2 {
		t.Errorf("%d of 6 of best effort are refused, want 2", refused)
	}
	if ask(wire.ClassLatency, 5); refused != 3 {
		t.Errorf("%d of 5 with deadlines are refused, want 1", refused-2)
	}
}

// Chaos from a seed: outputs once, twice, late, never, drops, a lost
// scheduler. Each request is answered exactly once, and nothing is left over.
func TestEachIsAnsweredOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	const seed, requests = 21, 3000
	c := newCluster(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var dice sync.Mutex
	roll := func(n int) int { dice.Lock(); defer dice.Unlock(); return r.IntN(n) }
	c.onSubmit = func(c *cluster, control, data transport.Link, m wire.Submit) {
		switch roll(8) {
		case 0:
			output(data, m.Request, make([]byte, 16))
			output(data, m.Request, make([]byte, 16))
		case 1:
			answer(control, m.Request, wire.ReasonShed)
			output(data, m.Request, make([]byte, 16))
		case 2: // silence
		case 3:
			output(data, m.Request, make([]byte, 3)) // does not fit the model
		case 4:
			output(data, m.Request^1<<30, make([]byte, 16)) // of nobody
			answer(control, m.Request, wire.ReasonDeadline)
		default:
			c.serve(data, m)
		}
	}
	client := c.dial(nil)
	answers := make([]atomic.Int32, requests)
	var wait sync.WaitGroup
	wait.Add(requests)
	for i := range requests {
		q := echo(byte(i))
		q.Timeout = time.Duration(5+roll(40)) * time.Millisecond
		client.InferAsync(context.Background(), q, func(*Response, error) {
			if answers[i].Add(1) == 1 {
				wait.Done()
			}
		})
		if i%1000 == 500 {
			c.close()
			c.listen()
		}
		if i%50 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	wait.Wait()
	time.Sleep(60 * time.Millisecond) // late outputs
	for i := range answers {
		if n := answers[i].Load(); n != 1 {
			t.Fatalf("seed %d: request %d has %d answers", seed, i, n)
		}
	}
	allFree(t, client)
	client.Close()
	c.close()
}

func BenchmarkInferAsync(b *testing.B) {
	c := newCluster(b)
	client := c.dial(func(o *Options) { o.MaxInFlight = 1 << 14 })
	q, ctx := echo(1), context.Background()
	var open atomic.Int64
	done := func(_ *Response, err error) {
		if err != nil {
			panic(fmt.Sprint(err))
		}
		open.Add(-1)
	}
	b.ReportAllocs()
	for b.Loop() {
		for open.Load() > 1000 {
			time.Sleep(10 * time.Microsecond)
		}
		open.Add(1)
		client.InferAsync(ctx, q, done)
	}
	for open.Load() > 0 {
		time.Sleep(10 * time.Microsecond)
	}
}
