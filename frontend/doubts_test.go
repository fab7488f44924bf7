package frontend

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
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

// suspect has a source's requests of a model be strong suspects from now on.
func suspect(client *Client, name, version string, source uint64) *doubts {
	m, err := client.choose(name, version)
	if err != nil {
		panic(err)
	}
	g := graded{}
	g.keys.Source = source
	for range 5 {
		m.metrics.doubts.failed(&g)
	}
	return &m.metrics.doubts
}

// A suspect that moves to another version, which has doubts of its own, is counted out where it was counted in. Else
// strongOpen of them would lock the source out of its version for good.
func TestSuspectsThatMoveAreCountedOutWhereTheyCameFrom(t *testing.T) {
	a, b := twoSchedulers(t, []catalog.Entry{entryOf(0, "m", "2", 4)}, []catalog.Entry{entryOf(0, "m", "1", 4)})
	a.onSubmit = func(_ *cluster, control, _ transport.Link, m wire.Submit) {
		_ = control.Send((&wire.Answer{Request: m.Request, Reason: wire.ReasonUnavailable}).Append(nil))
	}
	client := dialBoth(a, b, nil)
	from, to := suspect(client, "m", "2", 7), suspect(client, "m", "1", 7)
	for range 2 * strongOpen {
		r := ask("m", "", 4, 1)
		r.Source = 7
		if answer, err := client.Infer(t.Context(), r); err != nil || answer.Version != "1" {
			t.Fatalf("%+v, %v", answer, err)
		}
		if m, n := from.open.Load(), to.open.Load(); m != 0 || n != 0 {
			t.Fatalf("%d suspects of version 2 are open, %d of version 1", m, n)
		}
	}
	allFree(t, client)
}

// A suspect whose outputs have no room is counted out, and a refusal that is held back needs none.
func TestSuspectsWithoutRoomAreCountedOut(t *testing.T) {
	c := largeCluster(t)
	c.onSubmit = func(*cluster, transport.Link, transport.Link, wire.Submit) {} // no answer
	client := c.dial(func(o *Options) { o.OutputsMax = strongOpen * largeSize })
	d := suspect(client, "large", "", 7)
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error, 2*strongOpen)
	one := func(ctx context.Context, source uint64) {
		r := large(1)
		r.Source = source
		client.InferAsync(ctx, r, func(_ *Response, err error) { answers <- err })
	}
	for range strongOpen {
		one(ctx, 1)
	}
	one(t.Context(), 7)
	if err := <-answers; !errors.Is(err, ErrOverloaded) {
		t.Errorf("there is no room: %v", err)
	}
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d suspects are open after one was refused", n)
	}
	cancel()
	for range strongOpen {
		<-answers
	}
	ctx, cancel = context.WithCancel(t.Context())
	for range strongOpen {
		one(ctx, 7) // takes all the room
	}
	one(t.Context(), 7)
	if err := <-answers; !errors.Is(err, ErrIsolated) {
		t.Errorf("the others are open: %v", err)
	}
	cancel()
	for range strongOpen {
		<-answers
	}
	if open, held, room := d.open.Load(), client.held.Load(), client.outputs.used.Load(); open != 0 || held != 0 || room != 0 {
		t.Errorf("%d are open, %d held back, %d bytes awaited", open, held, room)
	}
	allFree(t, client)
}

// A suspect that comes while the client closes, and is refused after Close has answered all that were open, is answered, too.
func TestHeldRefusalsAreAnsweredAtTheEnd(t *testing.T) {
	client := newCluster(t).dial(nil)
	m, err := client.choose("echo", "")
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	var answers []error
	now := mono.Now()
	client.isolate(&call{model: m, arrival: now, deadline: now.Add(mono.Second), done: func(_ *Response, err error) { answers = append(answers, err) }})
	if len(answers) != 1 || !errors.Is(answers[0], ErrUnavailable) || client.held.Load() != 0 || client.InFlight() != 0 {
		t.Errorf("answers %v, %d held back, %d open", answers, client.held.Load(), client.InFlight())
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
