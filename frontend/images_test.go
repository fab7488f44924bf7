package frontend

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

func grey(t testing.TB, side int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An image behind slow ones is answered at its deadline, or when its context
// ends, not when its turn comes; and nothing of it is left over.
func TestImageWaitsNoLongerThanItsDeadline(t *testing.T) {
	c := newCluster(t)
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) {} // silence
	client := c.dial(func(o *Options) { o.PreprocessConcurrency = 1 })
	slow, small := grey(t, 2000), grey(t, 2)
	var slowLeft atomic.Int32
	for range 20 {
		slowLeft.Add(1)
		client.InferAsync(context.Background(), Request{Model: "image", Image: slow, Timeout: time.Minute}, func(*Response, error) { slowLeft.Add(-1) })
	}
	_, err := client.Infer(context.Background(), Request{Model: "image", Image: small, Timeout: time.Millisecond})
	if !errors.Is(err, ErrDeadlineExceeded) {
		t.Errorf("short deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	client.InferAsync(ctx, Request{Model: "image", Image: small, Timeout: time.Minute}, func(_ *Response, err error) { answered <- err })
	cancel()
	if err := <-answered; !errors.Is(err, ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
	if slowLeft.Load() != 20 {
		t.Errorf("%d slow images open, want all 20", slowLeft.Load())
	}
	client.Close()
	if slowLeft.Load() != 0 {
		t.Errorf("%d images without an answer after Close", slowLeft.Load())
	}
	allFree(t, client)
}

// The bytes belong to the caller again as soon as InferAsync has returned.
func TestImageIsCopied(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	img := grey(t, 2)
	answered := make(chan error, 1)
	client.InferAsync(context.Background(), Request{Model: "image", Image: img}, func(_ *Response, err error) { answered <- err })
	clear(img)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestImageBytesAreBounded(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	client.waiting.Store(imageBytesMax)
	if _, err := client.Infer(context.Background(), Request{Model: "image", Image: grey(t, 2)}); !errors.Is(err, ErrOverloaded) {
		t.Error(err)
	}
	if client.waiting.Load() != imageBytesMax {
		t.Error("the refused image still counts")
	}
}

// Drain waits for images too.
func TestDrainWaitsForImages(t *testing.T) {
	c := newCluster(t)
	client := c.dial(func(o *Options) { o.PreprocessConcurrency = 1 })
	var served atomic.Int32
	for range 5 {
		client.InferAsync(context.Background(), Request{Model: "image", Image: grey(t, 500), Timeout: time.Minute}, func(_ *Response, err error) {
			if err == nil {
				served.Add(1)
			}
		})
	}
	if err := client.Drain(context.Background()); err != nil || served.Load() != 5 {
		t.Errorf("%v; %d of 5 served", err, served.Load())
	}
}

// Close in the midst of callers: each gets one answer, nobody writes into
// memory that is gone, no goroutine stays.
func TestCloseAmongCallers(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t)
	img := grey(t, 8)
	for range 20 {
		client := c.dial(func(o *Options) { o.MaxInFlight = 4096 })
		var asked, answered atomic.Int64
		var wait sync.WaitGroup
		for g := range 4 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for range 300 {
					q := echo(1)
					if g == 0 {
						q = Request{Model: "image", Image: img}
					}
					asked.Add(1)
					client.InferAsync(context.Background(), q, func(*Response, error) { answered.Add(1) })
				}
			}()
		}
		time.Sleep(300 * time.Microsecond)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		wait.Wait()
		if asked.Load() != answered.Load() {
			t.Fatalf("%d asked, %d answered", asked.Load(), answered.Load())
		}
		allFree(t, client)
	}
	c.close()
}

// A Dial that failed leaves nothing behind that would hinder the next.
func TestDialAgainWithTheSameRegistry(t *testing.T) {
	c := newCluster(t)
	registry := prometheus.NewRegistry()
	o := Options{Scheduler: "inproc:scheduler", Listen: "inproc:scheduler", Network: c.network, Metrics: registry, ArenaBytes: 1 << 20}
	if _, err := Dial(context.Background(), o); err == nil {
		t.Fatal("listening where the scheduler listens: no error")
	}
	client := c.dial(func(o *Options) { o.Metrics = registry })
	client.Close()
	c.dial(func(o *Options) { o.Metrics = registry })
}

// refusing is a scheduler that admits nobody.
type refusing struct{ fakeBackend }

func (refusing) Receive(l transport.Link, f transport.Frame) {
	if f.Kind == wire.KindDoc {
		transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Error: "the cluster is full"})
	}
}

func TestDialSaysWhyNotAdmitted(t *testing.T) {
	network := loopback.New()
	ln, err := network.Listen("inproc:scheduler", transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}},
		func(wire.Hello) (transport.Handler, error) { return refusing{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = Dial(ctx, Options{Scheduler: "inproc:scheduler", Listen: "inproc:", Network: network, ArenaBytes: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "the cluster is full") {
		t.Errorf("%v", err)
	}
}
