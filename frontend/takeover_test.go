package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// groupOf are the schedulers of a group, each with a backend, and with the model m under an id of
// its own. The first one leads.
func groupOf(t testing.TB, n *loopback.Network, model string, names ...string) []*cluster {
	var all []*cluster
	for i, name := range names {
		c := newClusterAt(t, n, "inproc:"+name, catalog.Catalogue{Epoch: wire.Epoch(1 + i), Entries: []catalog.Entry{entryOf(idOf(i), model, "1", 4)}})
		c.says(100, i == 0)
		all = append(all, c)
	}
	return all
}

func together(groups ...[]*cluster) (texts []string) {
	for _, g := range groups {
		var members []string
		for _, c := range g {
			members = append(members, c.address)
		}
		texts = append(texts, strings.Join(members, "+"))
	}
	return texts
}

// dialGroups waits until all of the schedulers have told what they serve.
func dialGroups(t *testing.T, change func(*Options), groups ...[]*cluster) *Client {
	t.Helper()
	client := groups[0][0].dial(func(o *Options) {
		o.Scheduler, o.Schedulers = "", together(groups...)
		if change != nil {
			change(o)
		}
	})
	for _, u := range client.uplinks {
		eventually(t, "all schedulers", u.told)
	}
	return client
}

// hold keeps what the cluster is asked for.
func (c *cluster) hold(most int) chan wire.Submit {
	held := make(chan wire.Submit, most)
	c.onSubmit = func(_ *cluster, _, _ transport.Link, m wire.Submit) { held <- m }
	return held
}

// A leader dies with requests open: the next one gets all of them, the earliest deadline first,
// under its own id of the model and with the deadlines that they had, and each is answered, once.
func TestTakeOver(t *testing.T) {
	const requests = 1000
	all := groupOf(t, loopback.New(), "m", "a", "b", "c")
	held := all[0].hold(requests)
	var deadlines []mono.Time
	got := map[wire.RequestID]wire.Submit{}
	all[1].onSubmit = func(c *cluster, _, data transport.Link, m wire.Submit) {
		c.mu.Lock()
		deadlines, got[m.Request] = append(deadlines, m.Deadline), m
		c.mu.Unlock()
		c.serve(data, m)
	}
	client := dialGroups(t, func(o *Options) { o.MaxInFlight = requests }, all)
	answers := make(chan error, 2*requests)
	for i := range requests {
		q := ask("m", "", 4, byte(i))
		q.Timeout = time.Duration(60+(i*7919)%requests) * time.Second
		client.InferAsync(context.Background(), q, func(r *Response, err error) {
			if err == nil && !bytes.Equal(r.Outputs[0].Data, bytes.Repeat([]byte{byte(i)}, 16)) {
				err = fmt.Errorf("request %d has the output of another: %v", i, r.Outputs[0].Data)
			}
			answers <- err
		})
	}
	first := map[wire.RequestID]wire.Submit{}
	for range requests {
		m := <-held
		first[m.Request] = m
	}
	all[0].kill()
	all[1].says(200, true)
	for range requests {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	allFree(t, client)
	all[1].mu.Lock()
	defer all[1].mu.Unlock()
	if len(deadlines) != requests || !slices.IsSorted(deadlines) {
		t.Errorf("%d requests were sent again, in order %v; want %d", len(deadlines), slices.IsSorted(deadlines), requests)
	}
	for id, m := range got {
		want := first[id]
		if want.Model = idOf(1); m != want {
			t.Fatalf("sent again as %+v, want %+v", m, want)
		}
	}
	if len(answers) > 0 {
		t.Errorf("%d answers too many", len(answers))
	}
}

// What was running when the leader changed ends at its backend, and its output is the answer. The
// copy at the new leader is harmless: its READ is refused, and what comes of it is nobody's.
func TestOldLeadersOutputWins(t *testing.T) {
	all := groupOf(t, loopback.New(), "m", "a", "b")
	a, b := all[0], all[1]
	atA, atB := a.hold(1), b.hold(1)
	client := dialGroups(t, nil, all)
	answers := make(chan error, 4)
	client.InferAsync(context.Background(), ask("m", "", 4, 7), func(r *Response, err error) {
		if err == nil && !bytes.Equal(r.Outputs[0].Data, bytes.Repeat([]byte{7}, 16)) {
			err = fmt.Errorf("%v", r.Outputs[0].Data)
		}
		answers <- err
	})
	begun := <-atA
	a.kill()
	b.says(200, true)
	again := <-atB
	a.serve(a.data, begun) // READs, and sends the output
	if err := <-answers; err != nil {
		t.Error(err)
	}
	allFree(t, client)
	read := make(chan error, 1)
	_ = b.data.Read([]transport.ReadOp{{Request: again.Request, Input: again.Input, Dst: make([]byte, 16), Done: func(_ uint64, err error) { read <- err }}})
	if err := <-read; !errors.Is(err, transport.ErrStale) {
		t.Errorf("the copy's READ: %v", err)
	}
	for _, r := range []wire.Reason{wire.ReasonNone, wire.ReasonInput} {
		m := wire.Output{Request: again.Request, Reason: r, BatchSize: 1}
		_ = b.data.SendPayload(m.Append(nil, 16), make([]byte, 16), nil)
	}
	answer(b.control, again.Request, wire.ReasonShed)
	b.onSubmit = nil
	if _, err := client.Infer(t.Context(), ask("m", "", 4, 8)); err != nil { // behind those
		t.Error(err)
	}
	if len(answers) > 0 {
		t.Errorf("a second answer: %v", <-answers)
	}
	allFree(t, client)
}

// Two groups: a take-over in one is nothing to the other's requests, and what a group gives up goes
// to the other that has it.
func TestTwoGroups(t *testing.T) {
	n := loopback.New()
	first, second := groupOf(t, n, "one", "a", "b"), groupOf(t, n, "two", "c", "d")
	atA, atC := first[0].hold(2), second[0].hold(2)
	client := dialGroups(t, nil, first, second)
	one, two := make(chan error, 2), make(chan error, 2)
	client.InferAsync(context.Background(), ask("one", "", 4, 1), func(_ *Response, err error) { one <- err })
	client.InferAsync(context.Background(), ask("two", "", 4, 2), func(_ *Response, err error) { two <- err })
	<-atA
	m := <-atC
	first[0].kill()
	client.InferAsync(context.Background(), ask("one", "1", 4, 1), func(_ *Response, err error) { one <- err })
	client.InferAsync(context.Background(), ask("two", "1", 4, 2), func(_ *Response, err error) { two <- err })
	second[0].serve(second[0].data, m)
	second[0].serve(second[0].data, <-atC)
	for range 2 {
		if err := <-two; err != nil {
			t.Errorf("of the group that stays: %v", err)
		}
	}
	none(t, "of the group without a leader", one)
	first[1].says(200, true)
	for range 2 {
		if err := <-one; err != nil {
			t.Errorf("of the group that was taken over: %v", err)
		}
	}
	// one moves to the other group, while a request for it is on its way to the first.
	client.groups[0].grace.Store(0)
	eventually(t, "the leader's own catalogue", func() bool { return client.groups[0].held.Load() == nil })
	second[0].onSubmit = nil
	first[1].onSubmit = func(_ *cluster, control, _ transport.Link, m wire.Submit) {
		second[0].change(catalog.Changes{Models: []catalog.Served{servedAs(entryOf(99, "one", "1", 4))}})
		eventually(t, "the new place", func() bool { return client.uplinks[2].of("one") != nil })
		answer(control, m.Request, wire.ReasonUnavailable)
	}
	if _, err := client.Infer(t.Context(), ask("one", "", 4, 1)); err != nil {
		t.Errorf("what moved to the other group: %v", err)
	}
	allFree(t, client)
}

// One of a group is enough; a group of which none leads is not, and Dial says what is in the way.
func TestOneOfAGroup(t *testing.T) {
	all := groupOf(t, loopback.New(), "m", "a", "b")
	all[1].close()
	client := all[0].dial(func(o *Options) { o.Scheduler = together(all)[0] })
	if _, err := client.Infer(t.Context(), ask("m", "", 4, 1)); err != nil || !client.Ready() {
		t.Errorf("%v, ready %v", err, client.Ready())
	}
	all[0].says(100, false)
	eventually(t, "what is in the way", func() bool {
		return strings.Contains(client.troubles(context.DeadlineExceeded), "scheduler inproc:a: it does not lead its group")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, Options{Scheduler: together(all)[0], Network: all[0].network, Listen: "inproc:", ArenaBytes: 1 << 20})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "inproc:b: ") {
		t.Errorf("%v", err)
	}
}

// chaos is a group whose leaders change at random.
type chaos struct {
	all   []*cluster
	roll  func(n int) int
	reign atomic.Uint64
	calm  atomic.Bool
}

// act does with a request what the dice say.
func (x *chaos) act(c *cluster, control, data transport.Link, m wire.Submit) {
	if x.calm.Load() {
		c.serve(data, m)
		return
	}
	switch x.roll(10) {
	case 0:
		output(data, m.Request, make([]byte, 16))
		output(data, m.Request, make([]byte, 16))
	case 1:
		answer(control, m.Request, wire.ReasonShed)
		output(data, m.Request, make([]byte, 16))
	case 2: // silence
	case 3:
		answer(control, m.Request, wire.ReasonUnavailable)
	case 4:
		answer(control, m.Request, wire.ReasonDraining)
	case 5: // of somebody else
		x.all[x.roll(len(x.all))].answerLate(m.Request)
	default:
		c.serve(data, m)
	}
}

func (c *cluster) answerLate(id wire.RequestID) {
	c.mu.Lock()
	control := c.control
	c.mu.Unlock()
	if control != nil {
		answer(control, id, wire.ReasonDeadline)
	}
}

// turn changes who leads: one steps down or not, one is killed or not, another one leads, twice, or late.
func (x *chaos) turn() {
	c := x.all[x.roll(len(x.all))]
	switch x.roll(5) {
	case 0:
		c.kill()
		c.listen()
	case 1:
		c.says(wire.Epoch(x.reign.Load()), false)
	}
	if x.roll(3) == 0 {
		time.Sleep(time.Duration(x.roll(8)) * time.Millisecond)
	}
	next := x.all[x.roll(len(x.all))]
	next.says(wire.Epoch(x.reign.Add(1)), true)
	if x.roll(4) == 0 {
		next.says(wire.Epoch(x.reign.Load()), true)
		c.says(wire.Epoch(x.reign.Load()-1), true)
	}
}

// Take-overs from a seed, under load: leaders die, step down, and come back, two say that they lead,
// outputs come once, twice, late or never, refusals come from whomever. Each request has one answer,
// and nothing is left over.
func TestEachIsAnsweredOnceOverTakeOvers(t *testing.T) {
	defer goleak.VerifyNone(t)
	const seed, requests = 43, 6000
	r := rand.New(rand.NewPCG(seed, 0))
	var dice sync.Mutex
	x := &chaos{roll: func(n int) int { dice.Lock(); defer dice.Unlock(); return r.IntN(n) }}
	x.all = groupOf(t, loopback.New(), "m", "a", "b", "c")
	x.reign.Store(100)
	for _, c := range x.all {
		c.onSubmit = x.act
	}
	client := dialGroups(t, func(o *Options) { o.MaxInFlight = 1 << 12 }, x.all)
	turned := make(chan struct{})
	go func() {
		defer close(turned)
		for !x.calm.Load() {
			x.turn()
			time.Sleep(time.Duration(1+x.roll(6)) * time.Millisecond)
		}
	}()
	answers, served := make([]atomic.Int32, requests), atomic.Int32{}
	var wait sync.WaitGroup
	wait.Add(requests)
	for i := range requests {
		q := ask("m", []string{"", "1"}[i%2], 4, byte(i))
		q.Timeout = time.Duration(5+x.roll(100)) * time.Millisecond
		client.InferAsync(context.Background(), q, func(_ *Response, err error) {
			if err == nil {
				served.Add(1)
			}
			if answers[i].Add(1) == 1 {
				wait.Done()
			}
		})
		if i%20 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	wait.Wait()
	x.calm.Store(true)
	<-turned
	x.all[0].says(wire.Epoch(x.reign.Add(1)), true)
	q := ask("m", "", 4, 1)
	q.Timeout = 20 * time.Second
	if _, err := client.Infer(t.Context(), q); err != nil {
		t.Errorf("seed %d: after all of it: %v", seed, err)
	}
	for i := range answers {
		if n := answers[i].Load(); n != 1 {
			t.Fatalf("seed %d: request %d has %d answers", seed, i, n)
		}
	}
	if served.Load() == 0 {
		t.Errorf("seed %d: none was served", seed)
	}
	allFree(t, client)
	client.Close()
	for _, c := range x.all {
		c.close()
	}
}

// BenchmarkTakeOver is what sending n open requests again takes, from the end of the old leader's
// link until the new one's link has all of them.
func BenchmarkTakeOver(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := newMembers(b, 2, func(o *Options) { o.MaxInFlight, o.ArenaBytes = 1<<16, 64<<20 })
			h.lead(0, 1, true)
			ignore := func(*Response, error) {}
			for range n {
				h.InferAsync(context.Background(), ask("m", "", 4, 1), ignore)
			}
			reign := wire.Epoch(2)
			for i := 0; b.Loop(); i++ {
				to := (i + 1) % 2
				h.links[to].forget()
				h.lead(to, reign, true)
				reign++
				for h.links[to].count() < n {
					time.Sleep(10 * time.Microsecond)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)*1000/float64(n), "us/1000")
		})
	}
}
