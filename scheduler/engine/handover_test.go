package engine

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// checkOnceAmong demands one answer to each of the requests, of whichever engine.
func checkOnceAmong(t *testing.T, accepted int, ds ...*devices) {
	t.Helper()
	for _, d := range ds {
		d.wait()
	}
	for id := 1; id <= accepted; id++ {
		n := 0
		for _, d := range ds {
			d.mu.Lock()
			n += d.answers[wire.RequestID(id)]
			d.mu.Unlock()
		}
		if n != 1 {
			t.Fatalf("request %d has %d answers, want 1", id, n)
		}
	}
}

// patient is a model whose requests wait.
func patient(t testing.TB) batching.Config {
	return batching.Config{Profile: line(t, 1, 4), SLO: 3600 * mono.Second, QueueMax: 1 << 14}
}

func request(id int, slo mono.Dur) *batching.Request {
	now := mono.Now()
	return &batching.Request{ID: wire.RequestID(id), Arrival: now, Deadline: now.Add(slo)}
}

func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// pair is two engines between which models go to and fro.
type pair struct {
	es   [2]*Engine
	ds   [2]*devices
	gpus [2][]GPU

	mu    sync.RWMutex // Guards what follows.
	route []int        // by model
	moves int
}

func newPair(t *testing.T, models int, cfgs *[2]Config) *pair {
	p := &pair{route: make([]int, models)}
	for i := range cfgs {
		p.ds[i] = newDevices(uint64(i), 0.2)
		p.es[i], p.gpus[i] = start(t, cfgs[i], p.ds[i], 0, 4)
	}
	for m := range models {
		p.route[m] = m % 2
		p.add(t, m, m%2)
	}
	return p
}

func (p *pair) add(t *testing.T, m, to int) {
	if err := p.es[to].AddModel(wire.ModelID(m), batching.Config{Profile: line(t, 1, 4), SLO: 60 * mono.Millisecond, QueueMax: 1 << 14}); err != nil {
		t.Error(err)
	}
}

func (p *pair) of(m int) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.route[m]
}

// move hands a model over. The route changes before or after.
func (p *pair) move(t *testing.T, m int, first bool) {
	from := p.of(m)
	p.add(t, m, 1-from)
	swap := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.route[m], p.moves = 1-from, p.moves+1
	}
	if first {
		swap()
	}
	if err := p.es[from].HandOver(wire.ModelID(m), p.es[1-from]); err != nil {
		t.Error(err)
	}
	if !first {
		swap()
	}
}

// Under load, models go to and fro between two engines, which hand over at the same time, with a
// GPU lost on the way: each request gets one answer, none for want of its model, and
// both logs replay.
func TestHandOverUnderLoad(t *testing.T) {
	defer goleak.VerifyNone(t)
	const models, rate = 6, 1500
	cfgs := [2]Config{{Record: NewRecording(), GPUsMax: 16, RequestsMax: 1 << 12, ModelLoops: 2},
		{Record: NewRecording(), GPUsMax: 16, RequestsMax: 1 << 12, FirstLoop: 2, Placement: Placement{Joined: true}}}
	p := newPair(t, models, &cfgs)
	stop := make(chan struct{})
	var movers sync.WaitGroup
	for side := range 2 { // the even models begin with one mover, the odd ones with the other
		movers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(side), 1))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(10)) * time.Millisecond):
				}
				p.move(t, 2*r.IntN(models/2)+side, r.IntN(2) == 0)
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() {
		p.ds[0].mu.Lock()
		p.ds[0].dead[1] = true
		p.ds[0].mu.Unlock()
		p.es[0].RemoveGPU(p.gpus[0][1])
	})
	accepted, r := 0, rand.New(rand.NewPCG(3, 4))
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(time.Millisecond) {
		for due := int(time.Since(begin).Seconds() * rate); accepted < due; {
			m := r.IntN(models)
			if p.es[p.of(m)].Submit(wire.ModelID(m), request(accepted+1, 60*mono.Millisecond)) {
				accepted++
			}
		}
	}
	close(stop)
	movers.Wait()
	time.Sleep(150 * time.Millisecond)
	p.es[0].Stop()
	p.es[1].Stop()
	checkOnceAmong(t, accepted, p.ds[:]...)
	p.check(t, accepted)
	for i := range cfgs {
		if _, _, err := cfgs[i].Record.Replay(cfgs[i]); err != nil {
			t.Errorf("engine %d: %v", i, err)
		}
	}
}

// check looks at what became of the requests.
func (p *pair) check(t *testing.T, accepted int) {
	moved, served := uint64(0), 0
	for i, d := range p.ds {
		for _, s := range p.es[i].Stats().Models {
			moved += s.Moved
		}
		served += d.served
		if n := d.reasons[wire.ReasonUnknownModel] + d.reasons[wire.ReasonUnavailable] + d.reasons[wire.ReasonFull]; n > 0 {
			t.Errorf("engine %d: dropped %v: some for want of their model", i, d.reasons)
		}
	}
	if p.moves < 20 || moved == 0 || served < accepted/2 {
		t.Errorf("%d moves of %d requests, %d of %d served: too few to tell", p.moves, moved, served, accepted)
	}
	t.Logf("%d moves with %d requests; %d accepted, %d served, dropped %v and %v", p.moves, moved, accepted, served, p.ds[0].reasons, p.ds[1].reasons)
}

// A queue far longer than the other engines' rings moves whole, along a chain of engines, while
// requests still come to the first: all wait in the last one in the end.
func TestHandOverOfALongQueue(t *testing.T) {
	defer goleak.VerifyNone(t)
	const before, after = 1000, 200
	var es []*Engine
	var ds []*devices
	for i, ringSize := range []int{4096, 4, 8} {
		d := newDevices(uint64(i), 0)
		e, _ := start(t, Config{RingSize: ringSize, FirstLoop: i, GPUsMax: 4, Placement: Placement{Joined: i == 1}}, d, 0, 0)
		if _, err := e.AddGPU(0, mono.Now().Add(3000*mono.Second)); err != nil { // nothing is served before
			t.Fatal(err)
		}
		if err := e.AddModel(5, patient(t)); err != nil {
			t.Fatal(err)
		}
		es, ds = append(es, e), append(ds, d)
	}
	for i := range before {
		if !es[0].Submit(5, request(i+1, 3600*mono.Second)) {
			t.Fatalf("request %d was refused", i+1)
		}
	}
	for i := range 2 {
		if err := es[i].HandOver(5, es[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range after {
		if !es[0].Submit(5, request(before+i+1, 3600*mono.Second)) {
			t.Fatalf("request %d was refused", before+i+1)
		}
	}
	waitFor(t, "the queue has moved", func() bool { return es[2].Stats().Models[0].Used == before+after })
	for i := range 2 {
		if s := es[i].Stats().Models[0]; s.Moved != before+after || s.Used != 0 || s.Drops != 0 {
			t.Errorf("engine %d: %d moved, %d left, %d dropped, want %d, none, none", i, s.Moved, s.Used, s.Drops, before+after)
		}
		es[i].Stop()
	}
	es[2].Stop()
	checkOnceAmong(t, before+after, ds...)
	if n := ds[2].reasons[wire.ReasonDraining]; n != before+after {
		t.Errorf("the last engine answered %v, want %d draining", ds[2].reasons, before+after)
	}
}

// Where the other engine was stopped after the hand-over, what still comes is answered; where its
// ring stays full, a request waits for room until its deadline.
func TestHandOverToAnEngineThatStops(t *testing.T) {
	defer goleak.VerifyNone(t)
	d, other := newDevices(1, 0), newDevices(2, 0)
	from, _ := start(t, Config{GPUsMax: 4}, d, 0, 1)
	to, _ := start(t, Config{GPUsMax: 4, FirstLoop: 1}, other, 0, 1)
	stuck, err := New(Config{GPUsMax: 4, RingSize: 2, FirstLoop: 2}, newDevices(3, 0)) // never started: nothing is taken out
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Engine{from, to, stuck} {
		for id := range wire.ModelID(2) {
			if err := e.AddModel(id, patient(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := from.HandOver(0, to); err != nil {
		t.Fatal(err)
	}
	to.Stop()
	from.Submit(0, request(1, 3600*mono.Second))
	waitFor(t, "an answer", func() bool { return from.Stats().Models[0].Drops == 1 })
	if d.reasons[wire.ReasonDraining] != 1 {
		t.Errorf("dropped %v, want one draining", d.reasons)
	}
	if err := from.HandOver(1, to); !errors.Is(err, ErrHandOver) {
		t.Errorf("a hand-over to a stopped engine: %v", err)
	}
	if err := from.HandOver(1, stuck); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		from.Submit(1, request(2+i, 50*mono.Millisecond))
	}
	waitFor(t, "three answers", func() bool { return from.Stats().Models[0].Drops == 4 })
	d.mu.Lock()
	if d.reasons[wire.ReasonFull] != 3 {
		t.Errorf("dropped %v, want three for want of room", d.reasons)
	}
	d.mu.Unlock()
	from.Stop()
	checkOnceAmong(t, 1, d, other)
}

func TestHandOverRefuses(t *testing.T) {
	d := newDevices(1, 0)
	from, _ := start(t, Config{GPUsMax: 4}, d, 1, 1)
	to, _ := start(t, Config{GPUsMax: 4, FirstLoop: 1}, newDevices(2, 0), 0, 1)
	defer from.Stop()
	defer to.Stop()
	for what, err := range map[string]error{"not there": from.HandOver(0, to), "to itself": from.HandOver(0, from), "not here": to.HandOver(0, from)} {
		if !errors.Is(err, ErrHandOver) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !from.Submit(0, request(1, 60*mono.Millisecond)) {
		t.Fatal("refused")
	}
	waitFor(t, "the request is answered where it was", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.answers[1] == 1 })
}
