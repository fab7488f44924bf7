package frontend

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cancelled are the Cancels that came.
func (c *cluster) cancelled() []wire.Cancel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]wire.Cancel(nil), c.cancels...)
}

func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// patient is a request that no stall of the host's makes late.
func patient() Request {
	r := echo(1)
	r.Timeout = time.Minute
	return r
}

// Each way to ask tells the scheduler when its context is cancelled: with the model and deadline of the
// Submit, behind it. A context whose deadline passes needs no word.
func TestTheSchedulerIsTold(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	submits := map[wire.RequestID]wire.Submit{}
	c.onSubmit = func(_ *cluster, _, _ transport.Link, m wire.Submit) { // nobody answers
		mu.Lock()
		defer mu.Unlock()
		submits[m.Request] = m
	}
	client := c.dial(nil)
	ask := []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := client.Infer(ctx, patient()); return err },
		func(ctx context.Context) error {
			var r Reservation
			if err := client.Reserve(&r, "echo", ""); err != nil {
				return err
			}
			_, err := client.InferReserved(ctx, &r, time.Minute)
			return err
		},
		func(ctx context.Context) error {
			_, err := client.Infer(ctx, Request{Model: "image", Image: grey(t, 2), Timeout: time.Minute})
			return err
		},
	}
	for i, f := range ask {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- f(ctx) }()
		waitUntil(t, "its Submit", func() bool { mu.Lock(); defer mu.Unlock(); return len(submits) == i+1 })
		cancel()
		if err := <-ended; !errors.Is(err, ErrCancelled) {
			t.Errorf("%d: %v", i, err)
		}
		waitUntil(t, "its Cancel", func() bool { return len(c.cancelled()) == i+1 })
		k := c.cancelled()[i]
		mu.Lock()
		if m := submits[k.Request]; m.Model != k.Model || m.Deadline != k.Deadline {
			t.Errorf("%d: cancelled %+v, submitted %+v", i, k, m)
		}
		mu.Unlock()
	}
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Infer(short, echo(1)); !errors.Is(err, ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	allFree(t, client)
	if n := len(c.cancelled()); n != len(ask) {
		t.Errorf("%d Cancels, want %d", n, len(ask))
	}
}

// Each way to ask may be cancelled by the id that it told, once.
func TestCancelByID(t *testing.T) {
	c := newCluster(t)
	var submits atomic.Int64
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) { submits.Add(1) } // nobody answers
	client := c.dial(nil)
	byID := []func(id *atomic.Uint64) error{
		func(id *atomic.Uint64) error {
			r := patient()
			r.ID = id
			_, err := client.Infer(context.Background(), r)
			return err
		},
		func(id *atomic.Uint64) error {
			var r Reservation
			if err := client.Reserve(&r, "echo", ""); err != nil {
				return err
			}
			r.ID = id
			_, err := client.InferReserved(context.Background(), &r, time.Minute)
			return err
		},
		func(id *atomic.Uint64) error {
			_, err := client.Infer(context.Background(), Request{Model: "image", Image: grey(t, 2), Timeout: time.Minute, ID: id})
			return err
		},
	}
	for i, f := range byID {
		n := i + 1
		var id atomic.Uint64
		ended := make(chan error, 1)
		go func() { ended <- f(&id) }()
		waitUntil(t, "its Submit", func() bool { return submits.Load() == int64(n) && id.Load() != 0 })
		client.Cancel(wire.RequestID(id.Load()))
		client.Cancel(wire.RequestID(id.Load())) // again: it is none any more
		if err := <-ended; !errors.Is(err, ErrCancelled) {
			t.Errorf("by id, %d: %v", i, err)
		}
		waitUntil(t, "its Cancel", func() bool { return len(c.cancelled()) == n })
		if k := c.cancelled()[n-1]; uint64(k.Request) != id.Load() {
			t.Errorf("by id, %d: cancelled %+v, want %d", i, k, id.Load())
		}
	}
	allFree(t, client)
}

// A context that is cancelled at any moment of Infer's leaves nothing behind, and no Cancel comes before
// its Submit (the cluster looks).
func TestCancelledAtAnyMoment(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	for i := range 300 {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for range i * 20 {
			}
			cancel()
		}()
		if _, err := client.Infer(ctx, patient()); err != nil && !errors.Is(err, ErrCancelled) {
			t.Fatal(err)
		}
		cancel()
	}
	allFree(t, client)
}

// A scheduler of an older version is not told: it would end the link.
func TestOldSchedulerIsNotTold(t *testing.T) {
	c := &cluster{t: t, network: loopback.New(), address: "inproc:scheduler", doc: testModels(), old: true}
	c.listen()
	t.Cleanup(c.close)
	ctx, cancel := context.WithCancel(context.Background())
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) { cancel() }
	client := c.dial(nil)
	if _, err := client.Infer(ctx, echo(1)); !errors.Is(err, ErrCancelled) {
		t.Fatal(err)
	}
	c.onSubmit = nil
	if _, err := client.Infer(context.Background(), echo(2)); err != nil { // behind what would have been a Cancel
		t.Fatal(err)
	}
}

// A Cancel that a full link does not take is counted: the request runs, and its answer is discarded. One of a link that
// has ended is none.
func TestCancelsThatAreRefused(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := newCluster(t)
	submits := make(chan wire.Submit, 1)
	c.onSubmit = func(_ *cluster, _, _ transport.Link, m wire.Submit) { submits <- m } // without an answer
	client := c.dial(func(o *Options) { o.Metrics = registry })
	u := client.uplinks[0]
	first := u.admitted.Load()
	for why, want := range map[error]float64{transport.ErrFull: 1, transport.ErrClosed: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		u.admitted.Store(first)
		go func() { _, err := client.Infer(ctx, patient()); ended <- err }()
		<-submits
		full := *first
		full.link = &deafLink{first.link, why}
		u.admitted.Store(&full)
		cancel()
		if err := <-ended; !errors.Is(err, ErrCancelled) {
			t.Errorf("%v: %v", why, err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got float64
		for _, f := range families {
			if f.GetName() == "symphony_cancels_refused_total" {
				got = f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		if why == transport.ErrFull && got != want || got > want {
			t.Errorf("%v: %v are counted, want %v", why, got, want)
		}
	}
	u.admitted.Store(first)
}

// deafLink takes no frames.
type deafLink struct {
	transport.Link
	why error
}

func (l *deafLink) Send([]byte) error { return l.why }
