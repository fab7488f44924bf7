package frontend

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// poisoned is the priority by which the fake backend knows requests that the model fails on.
const poisoned = 9

// failsAlone has requests of that priority fail alone, once release is closed (nil: at once), and notes what came.
func failsAlone(c *cluster, release <-chan struct{}) (came func() []wire.Submit) {
	var mu sync.Mutex
	var all []wire.Submit
	c.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		mu.Lock()
		all = append(all, m)
		mu.Unlock()
		if m.Priority != poisoned {
			c.serve(data, m)
			return
		}
		go func() {
			if release != nil {
				<-release
			}
			text := []byte("index 99 is beyond the table\xff")
			out := wire.Output{Request: m.Request, Reason: wire.ReasonExecution, Flags: wire.OutputAlone}
			if err := data.SendPayload(out.Append(nil, len(text)), text, nil); err != nil {
				c.t.Error(err)
			}
		}()
	}
	return func() []wire.Submit {
		mu.Lock()
		defer mu.Unlock()
		return append([]wire.Submit(nil), all...)
	}
}

// ways are how one asks for an inference.
func askAs(client *Client, way int, source uint64, priority wire.Priority) error {
	if way == 0 {
		r := patient()
		r.Source, r.Priority = source, priority
		_, err := client.Infer(context.Background(), r)
		return err
	}
	var r Reservation
	if err := client.Reserve(&r, "echo", ""); err != nil {
		return err
	}
	for i := range r.Input {
		r.Input[i] = byte(source)
	}
	r.Source, r.Priority = source, priority
	_, err := client.InferReserved(context.Background(), &r, 10*time.Second)
	return err
}

// A request that fails alone is told with the model's words, and those like it are suspects from then on; others are not.
func TestCulpritsAreSuspects(t *testing.T) {
	for way := range 2 {
		c := newCluster(t)
		came := failsAlone(c, nil)
		client := c.dial(nil)
		if err := askAs(client, way, 5, 0); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			err := askAs(client, 1, 7, poisoned)
			var e *Error
			if !errors.As(err, &e) || e.Kind != ErrFailed || e.ID() == "" || !strings.Contains(err.Error(), "index 99 is beyond the table?") {
				t.Fatal(err)
			}
			if err := askAs(client, way, 5, 0); err != nil {
				t.Fatal(err)
			}
		}
		strong := 0
		for i, m := range came() {
			switch {
			case m.Priority != poisoned && i > 4 && m.Suspicion != wire.SuspicionNone:
				t.Errorf("way %d: submit %d of a good source: suspicion %d", way, i, m.Suspicion)
			case m.Priority == poisoned && m.Suspicion == wire.SuspicionStrong:
				strong++
			}
		}
		if strong < 2 {
			t.Errorf("way %d: %d strong suspects of 6", way, strong)
		}
		if n := client.metricsOf("echo").doubts.open.Load(); n != 0 {
			t.Errorf("way %d: %d strong suspects are open", way, n)
		}
	}
}

// Of strong suspects only a few are open at a time. The others are refused: with a reason, after a moment, and as soon as
// those have their answers they may come again. Good requests are served meanwhile.
func TestStrongSuspectsAreFewAtATime(t *testing.T) {
	c := newCluster(t)
	failsAlone(c, nil)
	client := c.dial(nil)
	for range 5 {
		_ = askAs(client, 1, 7, poisoned)
	}
	release := make(chan struct{})
	came := failsAlone(c, release)
	errs := make(chan error, 20)
	for range cap(errs) {
		go func() { errs <- askAs(client, 1, 7, poisoned) }()
	}
	for range cap(errs) - strongOpen {
		if err := <-errs; !errors.Is(err, ErrIsolated) {
			t.Error(err)
		}
	}
	if err := askAs(client, 1, 5, 0); err != nil {
		t.Error(err)
	}
	if n := len(came()); n != strongOpen+1 {
		t.Errorf("%d were sent", n)
	}
	close(release)
	for range strongOpen {
		if err := <-errs; !errors.Is(err, ErrFailed) {
			t.Error(err)
		}
	}
	if err := askAs(client, 1, 7, poisoned); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
	if open, held, slabs := client.metricsOf("echo").doubts.open.Load(), client.held.Load(), client.arena.Used(); open != 0 || held != 0 || slabs != 0 {
		t.Errorf("%d are open, %d held back, %d slabs", open, held, slabs)
	}
}

// metricsOf are a model's.
func (c *Client) metricsOf(name string) *modelMetrics {
	m, err := c.choose(name, "")
	if err != nil {
		panic(err)
	}
	return m.metrics
}
