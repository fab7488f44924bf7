package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// entryOf is a model that a device serves, of vectors of n numbers.
func entryOf(id wire.ModelID, name, version string, n int64) catalog.Entry {
	return catalog.Entry{ID: id, Ready: true, GPUs: 1, Spec: catalog.ModelSpec{Name: name, Version: version, SLO: 60 * mono.Second, MaxBatch: 8, Inputs: vector(n), Outputs: vector(n)}}
}

// servedAs is the same as a change that a scheduler of changesOf tells.
func servedAs(e catalog.Entry) catalog.Served {
	return catalog.Served{ID: e.ID, DeviceType: "gpus-1", Spec: e.Spec}
}

// twoSchedulers are a and b, each with a backend of its own, in one network.
func twoSchedulers(t testing.TB, ofA, ofB []catalog.Entry) (a, b *cluster) {
	n := loopback.New()
	return newClusterAt(t, n, "inproc:a", catalog.Catalogue{Epoch: 1, Entries: ofA}), newClusterAt(t, n, "inproc:b", catalog.Catalogue{Epoch: 1, Entries: ofB})
}

func dialBoth(a, b *cluster, change func(*Options)) *Client {
	a.t.Helper()
	return a.dial(func(o *Options) {
		o.Scheduler, o.Schedulers = "", []string{a.address, b.address}
		if change != nil {
			change(o)
		}
	})
}

// ask is a request of the model's size, each with bytes of its own.
func ask(model, version string, n int, v byte) Request {
	return Request{Model: model, Version: version, Inputs: []Tensor{{Name: "x", Type: catalog.FP32, Shape: []int64{int64(n)}, Data: bytes.Repeat([]byte{v}, 4*n)}}}
}

// keep counts the requests that the cluster gets by model, and serves them.
func (c *cluster) keep() func(id wire.ModelID) int {
	got := map[wire.ModelID]int{}
	c.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		c.mu.Lock()
		got[m.Model]++
		c.mu.Unlock()
		c.serve(data, m)
	}
	return func(id wire.ModelID) int { c.mu.Lock(); defer c.mu.Unlock(); return got[id] }
}

// Each request goes to the scheduler that serves its model, also where both call their models
// by the same ids, and both say of themselves what they have.
func TestEachToItsScheduler(t *testing.T) {
	a, b := twoSchedulers(t, []catalog.Entry{entryOf(0, "one", "1", 4), entryOf(1, "two", "1", 2)}, []catalog.Entry{entryOf(0, "three", "1", 3), entryOf(1, "four", "7", 5)})
	ofA, ofB := a.keep(), b.keep()
	client := dialBoth(a, b, nil)
	const each = 50
	var all sync.WaitGroup
	for name, n := range map[string]int{"one": 4, "two": 2, "three": 3, "four": 5} {
		all.Go(func() {
			for i := range each {
				r, err := client.Infer(t.Context(), ask(name, "", n, byte(i)))
				if err != nil || !bytes.Equal(r.Outputs[0].Data, bytes.Repeat([]byte{byte(i)}, 4*n)) {
					t.Errorf("%s: %+v, %v", name, r, err)
					return
				}
			}
		})
	}
	all.Wait()
	for id := range wire.ModelID(2) {
		if ofA(id) != each || ofB(id) != each {
			t.Errorf("id %d: %d requests at a, %d at b, want %d", id, ofA(id), ofB(id), each)
		}
	}
	var names []string
	for _, e := range client.Models().Entries {
		names = append(names, fmt.Sprint(e.ID, e.Spec.Key(), e.Ready))
	}
	if want := []string{"0one/1true", "1two/1true", "0three/1true", "1four/7true"}; fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", names, want)
	}
	if got := client.Versions("four"); !slices.Equal(got, []string{"7"}) || !client.Serving() {
		t.Errorf("versions %v", got)
	}
	if _, err := client.Infer(t.Context(), ask("five", "", 1, 0)); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("a model that nobody has: %v", err)
	}
	if _, err := client.Infer(t.Context(), ask("four", "8", 5, 0)); !errors.Is(err, ErrUnknownModel) || !strings.Contains(err.Error(), "no version 8") {
		t.Errorf("a version that nobody has: %v", err)
	}
	allFree(t, client)
}

// One scheduler dies: what was open there is answered at once, and so is what comes for its
// models; the other one's requests, open and new, do not notice. It comes back with another
// epoch and other ids, and serves.
func TestOneSchedulerDies(t *testing.T) {
	a, b := twoSchedulers(t, []catalog.Entry{entryOf(0, "one", "1", 4)}, []catalog.Entry{entryOf(0, "two", "1", 4)})
	held := make(chan wire.Submit, 2)
	hold := func(_ *cluster, _, _ transport.Link, m wire.Submit) { held <- m }
	a.onSubmit, b.onSubmit = hold, hold
	registry := prometheus.NewRegistry()
	client := dialBoth(a, b, func(o *Options) { o.Metrics = registry })
	lost, kept := make(chan error, 1), make(chan error, 1)
	client.InferAsync(t.Context(), ask("one", "", 4, 1), func(_ *Response, err error) { lost <- err })
	<-held
	client.InferAsync(t.Context(), ask("two", "", 4, 2), func(_ *Response, err error) { kept <- err })
	m := <-held
	a.close()
	if err := <-lost; !errors.Is(err, ErrUnavailable) {
		t.Errorf("open at the scheduler that died: %v", err)
	}
	if _, err := client.Infer(t.Context(), ask("one", "", 4, 1)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "inproc:a") {
		t.Errorf("new for the scheduler that died: %v", err)
	}
	if e, err := client.Model("one", ""); err != nil || e.Ready {
		t.Errorf("its model: %+v, %v", e, err)
	}
	if _, err := client.Infer(t.Context(), ask("nobody", "", 4, 1)); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("what it never had: %v", err)
	}
	if got := linked(t, registry); !client.Ready() || !client.Serving() || got != "inproc:a=0 inproc:b=1" {
		t.Errorf("ready %v, serving %v, %s", client.Ready(), client.Serving(), got)
	}
	select {
	case err := <-kept:
		t.Fatalf("open at the other scheduler: %v", err)
	default:
	}
	b.serve(b.data, m)
	if err := <-kept; err != nil {
		t.Errorf("open at the other scheduler: %v", err)
	}
	b.onSubmit = nil
	if _, err := client.Infer(t.Context(), ask("two", "", 4, 1)); err != nil {
		t.Errorf("new for the other scheduler: %v", err)
	}
	a.onSubmit, a.doc = nil, catalog.Catalogue{Epoch: 9, Entries: []catalog.Entry{entryOf(0, "else", "1", 1), entryOf(5, "one", "1", 4)}}
	a.listen()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := client.WaitReady(ctx, "one", "two"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := client.Infer(ctx, ask(name, "", 4, 1)); err != nil {
			t.Errorf("%s after the return: %v", name, err)
		}
	}
	if got := linked(t, registry); got != "inproc:a=1 inproc:b=1" {
		t.Error(got)
	}
	allFree(t, client)
}

// linked is the gauge of the schedulers.
func linked(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "symphony_frontend_linked" {
				all = append(all, fmt.Sprintf("%s=%g", label(m, "scheduler"), m.GetGauge().GetValue()))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A model moves to and fro under load. It is served where it comes to before it goes from where
// it was, and from then on the old place refuses what still comes: each request has one answer,
// and none is refused.
func TestModelMovesUnderLoad(t *testing.T) {
	e := entryOf(3, "m", "1", 4)
	a, b := twoSchedulers(t, []catalog.Entry{e, entryOf(4, "other", "1", 4)}, nil)
	places, counts := [2]*cluster{a, b}, [2]func(wire.ModelID) int{a.keep(), b.keep()}
	var has [2]atomic.Bool
	has[0].Store(true)
	for i, c := range places {
		serve := c.onSubmit
		c.onSubmit = func(c *cluster, control, data transport.Link, m wire.Submit) {
			if m.Model == e.ID && !has[i].Load() {
				answer(control, m.Request, wire.ReasonUnavailable)
				return
			}
			serve(c, control, data, m)
		}
	}
	b.doc.Entries = []catalog.Entry{entryOf(0, "third", "1", 4)} // a device for what comes
	client := dialBoth(a, b, nil)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers [4]atomic.Int64
	for g := range answers {
		all.Go(func() {
			for i := byte(0); ctx.Err() == nil; i++ {
				q := ask("m", []string{"", "1"}[g%2], 4, i)
				var given atomic.Int32
				done := make(chan error, 2)
				client.InferAsync(context.Background(), q, func(_ *Response, err error) { given.Add(1); done <- err })
				if err := <-done; err != nil || given.Load() != 1 {
					t.Errorf("%v; %d answers", err, given.Load())
					return
				}
				answers[g].Add(1)
			}
		})
	}
	for i := range 60 {
		from, to := i%2, (i+1)%2
		has[to].Store(true)
		places[to].change(catalog.Changes{Models: []catalog.Served{servedAs(e)}})
		eventually(t, "the new place", func() bool { return client.uplinks[to].of("m") != nil })
		has[from].Store(false)
		places[from].change(catalog.Changes{Gone: []wire.ModelID{e.ID}})
		eventually(t, "the old place is left", func() bool { return client.uplinks[from].of("m") == nil })
		for g := range answers { // no request sees two moves
			n := answers[g].Load()
			eventually(t, "answers after the move", func() bool { return t.Failed() || answers[g].Load() >= n+2 })
		}
	}
	cancel()
	all.Wait()
	n := int64(0)
	for g := range answers {
		n += answers[g].Load()
	}
	if atA, atB := counts[0](e.ID), counts[1](e.ID); atA == 0 || atB == 0 || int64(atA+atB) != n {
		t.Errorf("%d and %d ran, %d were answered", atA, atB, n)
	}
	allFree(t, client)
}

// What a scheduler refuses because it does not serve it goes to another one that does, once;
// what it refuses for other reasons, or nobody else serves, is answered.
func TestRefusedGoesOn(t *testing.T) {
	one, two := entryOf(3, "m", "1", 4), entryOf(8, "m", "2", 4)
	wide := entryOf(8, "m", "1", 5)
	for _, k := range []struct {
		what    string
		other   catalog.Entry // that b serves when a refuses
		reason  wire.Reason
		version string
		refuses bool // b, too
		want    error
		atB     int
	}{
		{"moved", one, wire.ReasonUnavailable, "1", false, nil, 1},
		{"moved, no version asked for", one, wire.ReasonUnknownModel, "", false, nil, 1},
		{"drained", one, wire.ReasonDraining, "1", false, nil, 1},
		{"another version", two, wire.ReasonUnavailable, "", false, nil, 1},
		{"another version, and one was asked for", two, wire.ReasonUnavailable, "1", false, ErrUnavailable, 0},
		{"other tensors", wide, wire.ReasonUnavailable, "", false, ErrUnavailable, 0},
		{"full", one, wire.ReasonFull, "", false, ErrOverloaded, 0},
		{"dropped", one, wire.ReasonDeadline, "", false, ErrDropped, 0},
		{"refused by both", one, wire.ReasonUnavailable, "", true, ErrUnavailable, 1},
	} {
		a, b := twoSchedulers(t, []catalog.Entry{one}, []catalog.Entry{entryOf(0, "device", "1", 1)})
		var atA, atB atomic.Int32
		var client *Client
		a.onSubmit = func(_ *cluster, control, _ transport.Link, m wire.Submit) {
			if atA.Add(1) == 1 {
				b.change(catalog.Changes{Models: []catalog.Served{servedAs(k.other)}})
				eventually(t, "the new place", func() bool { return client.uplinks[1].of("m") != nil })
			}
			answer(control, m.Request, k.reason)
		}
		b.onSubmit = func(c *cluster, control, data transport.Link, m wire.Submit) {
			atB.Add(1)
			if k.refuses {
				answer(control, m.Request, k.reason)
				return
			}
			if m.Model != k.other.ID {
				t.Errorf("%s: asked for id %d", k.what, m.Model)
			}
			c.serve(data, m)
		}
		client = dialBoth(a, b, nil)
		r, err := client.Infer(t.Context(), ask("m", k.version, 4, 6))
		if k.want == nil && (err != nil || !bytes.Equal(r.Outputs[0].Data, bytes.Repeat([]byte{6}, 16)) || r.Version != k.other.Spec.Version) {
			t.Errorf("%s: %+v, %v", k.what, r, err)
		}
		if k.want != nil && !errors.Is(err, k.want) || atA.Load() != 1 || int(atB.Load()) != k.atB {
			t.Errorf("%s: %v; %d requests at a, %d at b", k.what, err, atA.Load(), atB.Load())
		}
		allFree(t, client)
		client.Close()
	}
}

// A scheduler has nothing to say of another one's requests.
func TestAnswersOfOthers(t *testing.T) {
	a, b := twoSchedulers(t, []catalog.Entry{entryOf(0, "one", "1", 4)}, []catalog.Entry{entryOf(0, "two", "1", 4)})
	client := (*Client)(nil)
	b.onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		for _, r := range []wire.Reason{wire.ReasonShed, wire.ReasonUnavailable} {
			answer(a.control, m.Request, r)
		}
		a.change(catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "gpus-1", GPUs: 2}}}) // behind them
		eventually(t, "the answers", func() bool { e, _ := client.Model("one", ""); return e.GPUs == 2 })
		c.serve(data, m)
	}
	client = dialBoth(a, b, nil)
	if _, err := client.Infer(t.Context(), ask("two", "", 4, 1)); err != nil {
		t.Error(err)
	}
	allFree(t, client)
}

// What was reserved for a model goes to where that is now.
func TestReservedMoves(t *testing.T) {
	for what, leave := range map[string]func(a, b *uplink, ofA *fakeLink){
		"it went": func(a, _ *uplink, l *fakeLink) {
			a.tell(l, wire.DocChanges, catalog.Changes{Epoch: 1, Since: 1, Serial: 2, Gone: []wire.ModelID{1}})
		},
		"its link went": func(a, _ *uplink, l *fakeLink) { a.Closed(l, errors.New("cut")) },
		"it stays, too": func(_, _ *uplink, _ *fakeLink) {},
		"and both lost": func(a, b *uplink, l *fakeLink) {
			a.Closed(l, errors.New("cut"))
			b.Closed(b.admitted.Load().link, errors.New("cut"))
		},
		"a starts again": func(a, _ *uplink, l *fakeLink) { a.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 2}) },
	} {
		c := alone(t, func(o *Options) { o.Scheduler, o.Schedulers = "", []string{"inproc:a", "inproc:b"} })
		a, b := c.uplinks[0], c.uplinks[1]
		ofA, ofB := &fakeLink{}, &fakeLink{}
		gpus := []catalog.PoolState{{DeviceType: "e", GPUs: 1}}
		a.tell(ofA, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
		a.tell(ofA, wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1, Pools: gpus, Models: []catalog.Served{reservedEntry(1, "echo", 4)}})
		b.tell(ofB, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
		var r Reservation
		if err := c.Reserve(&r, "echo", "1"); err != nil {
			t.Fatal(err)
		}
		b.tell(ofB, wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1, Pools: gpus, Models: []catalog.Served{reservedEntry(7, "echo", 4)}})
		leave(a, b, ofA)
		done := make(chan error, 1)
		go func() {
			_, err := c.InferReserved(context.Background(), &r, 0)
			done <- err
		}()
		var wantA, wantB []wire.ModelID
		switch what {
		case "it stays, too":
			wantA = []wire.ModelID{1}
		case "and both lost":
			if err := <-done; !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
			done <- nil
		default:
			wantB = []wire.ModelID{7}
		}
		sent := func(l *fakeLink) []wire.ModelID { l.mu.Lock(); defer l.mu.Unlock(); return slices.Clone(l.sent) }
		eventually(t, what, func() bool { return slices.Equal(sent(ofA), wantA) && slices.Equal(sent(ofB), wantB) })
		c.failAll(wire.ReasonCancelled)
		<-done
		allFree(t, c)
		c.Close()
	}
}

// A client starts with one of two schedulers and says which one lacks; what nobody has may be
// the other's, and is unavailable until that has been reached.
func TestStartsWithOne(t *testing.T) {
	a, b := twoSchedulers(t, []catalog.Entry{entryOf(0, "one", "1", 4)}, []catalog.Entry{entryOf(0, "two", "1", 4)})
	b.close()
	var log lockedLog
	client := dialBoth(a, b, func(o *Options) { o.Logger = zerolog.New(&log) })
	if _, err := client.Infer(t.Context(), ask("one", "", 4, 1)); err != nil || !client.Ready() {
		t.Errorf("%v, ready %v", err, client.Ready())
	}
	for _, q := range []Request{ask("two", "", 4, 1), ask("one", "2", 4, 1), ask("nobody", "", 4, 1)} {
		if _, err := client.Infer(t.Context(), q); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "scheduler inproc:b has not been reached yet") {
			t.Errorf("%s/%s: %v", q.Model, q.Version, err)
		}
	}
	if n := log.count("inproc:b", "no link to the scheduler"); n != 1 {
		t.Errorf("said %d times that b lacks:\n%s", n, log.String())
	}
	b.listen()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := client.WaitReady(ctx, "two"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Infer(t.Context(), ask("nobody", "", 4, 1)); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("now that all are there: %v", err)
	}
	if err := client.Drain(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range []*cluster{a, b} {
		eventually(t, "a farewell", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.leaves == 1 })
	}
}

// Dial waits a while for a scheduler that is there and says nothing, and not for ever.
func TestOneSchedulerIsSilent(t *testing.T) {
	n := loopback.New()
	a := newClusterAt(t, n, "inproc:a", testModels())
	ln, err := n.Listen("inproc:b", transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}}, func(wire.Hello) (transport.Handler, error) { return fakeBackend{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	begin := time.Now()
	client := a.dial(func(o *Options) { o.Scheduler, o.Schedulers = "", []string{"inproc:b", "inproc:a"} })
	if waited := time.Since(begin); waited < othersWait || !client.Ready() {
		t.Errorf("waited %v, want %v", waited, othersWait)
	}
	if _, err := client.Infer(t.Context(), echo(1)); err != nil {
		t.Error(err)
	}
}

// Two addresses of one scheduler: one link stays, the other is not made, and the log says what
// to do. The scheduler would end each link for the other.
func TestOneSchedulerTwice(t *testing.T) {
	n := loopback.New()
	var all [2]*cluster
	for i := range all {
		all[i] = newClusterAt(t, n, fmt.Sprint("inproc:", i), testModels())
		all[i].close()
		all[i].life = 77
		all[i].listen()
	}
	var log lockedLog
	client := dialBoth(all[0], all[1], func(o *Options) { o.Logger = zerolog.New(&log) })
	eventually(t, "a line", func() bool { return log.count("leave one of the two addresses out", "inproc:0", "inproc:1") > 0 })
	first := [2]*admission{client.uplinks[0].admitted.Load(), client.uplinks[1].admitted.Load()}
	if (first[0] == nil) == (first[1] == nil) {
		t.Fatalf("admitted %v", first)
	}
	for range 20 {
		if _, err := client.Infer(t.Context(), echo(1)); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond) // the other address is tried again meanwhile
	}
	if now := [2]*admission{client.uplinks[0].admitted.Load(), client.uplinks[1].admitted.Load()}; now != first {
		t.Errorf("the link was lost: %v, %v", first, now)
	}
}

func TestNoSchedulerOfTwo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, Options{Schedulers: []string{"inproc:a", "inproc:b"}, Network: loopback.New(), Listen: "inproc:", ArenaBytes: 1 << 20})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "scheduler inproc:a: ") || !strings.Contains(err.Error(), "scheduler inproc:b: ") {
		t.Error(err)
	}
	for want, o := range map[string]Options{
		"not both":               {Scheduler: "inproc:a", Schedulers: []string{"inproc:b"}},
		`"inproc:a" is empty or`: {Schedulers: []string{"inproc:a", "inproc:b", "inproc:a"}},
		`"" is empty or`:         {Schedulers: []string{"inproc:a", ""}},
		"at most 64":             {Schedulers: make([]string, SchedulersMax+1)},
		"A+B for two of one":     {Scheduler: "inproc:a+"},
		`"inproc:b" is empty or`: {Schedulers: []string{"inproc:a+inproc:b", "inproc:c + inproc:b"}},
	} {
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}

// Labels are asked for where the model is.
func TestLabelsOfTwoSchedulers(t *testing.T) {
	_, id, err := catalog.EncodeLabels([]string{"cat"})
	if err != nil {
		t.Fatal(err)
	}
	c := alone(t, func(o *Options) { o.Scheduler, o.Schedulers = "", []string{"inproc:a", "inproc:b"} })
	links := [2]*fakeLink{{}, {}}
	for i, u := range c.uplinks {
		u.tell(links[i], wire.DocAdmitted, catalog.Admitted{Epoch: 1})
	}
	with := catalog.Served{ID: 4, DeviceType: "e", Spec: catalog.ModelSpec{Name: "l", Version: "1", Inputs: vector(1), Outputs: vector(2), LabelsID: id}}
	c.uplinks[0].tell(links[0], wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1})
	c.uplinks[1].tell(links[1], wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1, Models: []catalog.Served{with}})
	got := make(chan error, 1)
	go func() {
		_, err := c.Labels(t.Context(), "l", "")
		got <- err
	}()
	eventually(t, "a question at b", func() bool { return links[1].asked() > 0 })
	if links[0].asked() > 0 {
		t.Error("a was asked, which does not have the model")
	}
	c.uplinks[0].tell(links[0], wire.DocChanges, catalog.Changes{Epoch: 1, Since: 1, Serial: 2, Models: []catalog.Served{with}})
	c.uplinks[1].tell(links[1], wire.DocChanges, catalog.Changes{Epoch: 1, Since: 1, Serial: 2, Gone: []wire.ModelID{4}})
	eventually(t, "a question at a, where the model is now", func() bool { return links[0].asked() > 0 })
	c.uplinks[0].tell(links[0], wire.DocLabels, []string{"cat"})
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// lockedLog is a log that goroutines write while a test reads it.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count is the lines that have all of the words.
func (l *lockedLog) count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		has := func(w string) bool { return strings.Contains(line, w) }
		if !slices.ContainsFunc(words, func(w string) bool { return !has(w) }) {
			n++
		}
	}
	return n
}
