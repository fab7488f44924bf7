package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// single is a model whose batches are of one request and take so long: nothing is deferred.
func single(name string, takes mono.Dur) catalog.ModelSpec {
	m := spec(name)
	m.SLO, m.MaxBatch, m.Profile = 10*mono.Second, 1, catalog.Profile{Alpha: mono.Millisecond, Beta: takes}
	return m
}

const budget = 30 * mono.Second // of requests: none is late on a busy machine

// scene is a group with backends and a frontend that all are linked with all.
type scene struct {
	*world
	all      []*member
	backends []*fakeBackend
	front    *fakeFrontend
	names    []string
}

func newScene(t *testing.T, schedulers, backends, devices int, models ...catalog.ModelSpec) *scene {
	t.Helper()
	s := &scene{world: newWorld(t), names: []string{"s0", "s1", "s2"}[:schedulers]}
	s.all = s.groupOf(nil, s.names...)
	fronts := newFronts()
	for i := range backends {
		s.backends = append(s.backends, s.backend(fronts, []string{"b0", "b1", "b2"}[i], devices, models, s.names...))
	}
	s.front = s.frontend(fronts, "f", s.names...)
	s.settled()
	return s
}

// settled waits until one leads, all that live know all models, and all backends obey the one.
func (s *scene) settled() *member {
	s.t.Helper()
	var it *member
	until(s.t, "one leads and all obey it", func() bool {
		var leads []*member
		for _, m := range s.all {
			if m.leads() {
				leads = append(leads, m)
			}
		}
		if len(leads) != 1 {
			return false
		}
		it = leads[0]
		for i, m := range s.all {
			if m.host.dead.Load() {
				continue
			}
			for _, b := range s.backends {
				for _, x := range b.specs {
					if !s.front.knows(i, x.Name) {
						return false
					}
				}
			}
		}
		return !slices.ContainsFunc(s.backends, func(b *fakeBackend) bool {
			return !b.host.dead.Load() && !b.deaf() && b.obeys() != slices.Index(s.names, it.name)
		})
	})
	return it
}

func (s *scene) ask(n int, model string) {
	for range n {
		s.front.ask(model, budget)
	}
}

// order gives a scheduler an order of the control plane's.
func (s *scene) order(m *member, o catalog.Order) error {
	s.t.Helper()
	p := newPeer(s.t)
	var l transport.Link
	from := s.host("c")
	until(s.t, "a link to "+m.name, func() (ok bool) { // it may be about to begin anew
		var err error
		l, err = from.Dial(context.Background(), "inproc:"+m.name, transport.Options{Hello: wire.Hello{Role: wire.RoleController}}, p)
		return err == nil
	})
	defer l.Close(nil)
	o.ID = 77
	transport.SendDoc(l, wire.DocOrder, o)
	p.wait("an outcome of "+o.Kind, func() bool { _, ok := p.outcomes[77]; return ok })
	if e := p.outcomes[77].Error; e != "" {
		return errors.New(e)
	}
	return nil
}

// A spare knows all members and models, and answers who asks it all the same; no order comes from it,
// nor from anybody before a backend has promised (fakeBackend.order).
func TestASpareKnowsAllAndDrivesNothing(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", mono.Millisecond))
	it := s.settled()
	s.ask(50, "m")
	s.front.served("with a leader and two spares")
	for _, spare := range without(s.all, it) {
		p := dialled(t, s.world, spare)
		p.wait("the model", func() bool { return p.entry("m").GPUs == 4 })
		p.submit(1, p.entryNow("m").ID, mono.Second)
		p.wait("an answer", func() bool { return len(p.answers[1]) == 1 })
		if got := p.answers[1][0]; got != wire.ReasonUnavailable {
			t.Errorf("%v answers %v, want %v", spare, got, wire.ReasonUnavailable)
		}
		if err := s.order(spare, catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1"}}); err == nil || !strings.Contains(err.Error(), "does not lead") {
			t.Errorf("%v is ordered something: %v", spare, err)
		}
	}
	for _, b := range s.backends {
		b.mu.Lock()
		if len(b.ran) != 1 || b.keeps > 0 && len(b.granted) == 0 {
			t.Errorf("backend %s ran for reigns %v", b.name, b.ran)
		}
		b.mu.Unlock()
	}
}

// dialled is a frontend that has a link to one scheduler only, and does not care who leads.
func dialled(t *testing.T, w *world, m *member) *peer {
	t.Helper()
	p := newPeer(t)
	l, err := w.host("stray-"+m.name).Dial(context.Background(), "inproc:"+m.name, transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}}, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(nil) })
	p.link = l
	transport.SendDoc(l, wire.DocFrontend, catalog.FrontendInfo{Name: "stray", Instance: 5, Address: "inproc:stray"})
	p.wait("admission", func() bool { return p.admitted != nil && p.admitted.Error == "" })
	return p
}

// Leaders die under load, one after the other, and come back as spares: each request has its output.
func TestLeadersDie(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", 2*mono.Millisecond))
	for range 4 {
		it := s.settled()
		s.ask(60, "m")
		it.kill()
		s.ask(60, "m")
		s.front.served("after the death of a leader")
		it.start()
	}
	s.settled()
}

// A leader that stands still is overtaken; when it goes on nobody obeys it, and it becomes a spare.
func TestALeaderStandsStill(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", 2*mono.Millisecond))
	for range 3 {
		it := s.settled()
		began := it.servers.Load()
		s.ask(40, "m")
		it.host.pause(true)
		s.ask(40, "m")
		leader(t, without(s.all, it))
		s.ask(40, "m")
		s.front.served("while the old leader stands still")
		it.host.pause(false)
		until(t, "the old leader begins anew", func() bool { return it.servers.Load() > began })
		if s.settled() == it {
			t.Errorf("%v leads again at once", it)
		}
		s.ask(40, "m")
		s.front.served("after the old leader has come back")
	}
}

// What ran when the leader died is not run again: the request that came again is held until its output.
func TestWhatRunsIsHeld(t *testing.T) {
	s := newScene(t, 2, 1, 1, single("slow", 1500*mono.Millisecond))
	it := s.settled()
	id := s.front.ask("slow", budget)
	s.runs(id, 1)
	it.kill()
	next := s.settled()
	until(t, "the request is held", func() bool { return next.cfg.Past.held.Load() == 1 })
	s.front.served("a request that ran over a take-over")
	s.front.mu.Lock()
	defer s.front.mu.Unlock()
	if r := s.front.open[id]; r.ran != 1 || r.sent != 2 {
		t.Errorf("it was sent %d times and ran %d times, want 2 and 1", r.sent, r.ran)
	}
	h := next.current.Load().held
	until(t, "the table is empty", func() bool { return h.batches.Load() == 0 && h.waiting.Load() == 0 })
}

// runs waits until a request runs for the n-th time.
func (s *scene) runs(id wire.RequestID, n int) {
	s.t.Helper()
	until(s.t, "the request runs", func() bool {
		s.front.mu.Lock()
		defer s.front.mu.Unlock()
		return s.front.open[id].ran == n
	})
}

// If the backend that runs it is lost too, does not end in time, or gives it back, the request runs again.
func TestWhatIsHeldRunsElsewhere(t *testing.T) {
	for name, end := range map[string]func(b *fakeBackend){
		"lost":       func(b *fakeBackend) { b.host.kill() },
		"hung":       func(*fakeBackend) {},
		"given back": func(*fakeBackend) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 2, 2, 1, single("slow", 500*mono.Millisecond))
			it := s.settled()
			id := s.front.ask("slow", budget)
			s.runs(id, 1)
			var runs *fakeBackend
			for _, b := range s.backends {
				b.mu.Lock()
				if len(b.queued) > 0 {
					runs = b
					b.chills = name == "given back"
					b.hangs = !b.chills
				}
				b.mu.Unlock()
			}
			it.kill()
			next := s.settled()
			until(t, "the request is held", func() bool { return next.cfg.Past.held.Load() == 1 })
			end(runs)
			s.runs(id, 2)
			s.front.served("a request whose first run does not end")
		})
	}
}

// GPUs of a backend that has not promised get nothing; they are used when it has.
func TestGPUsThatDidNotPromise(t *testing.T) {
	s := newScene(t, 2, 2, 1, single("m", 2*mono.Millisecond))
	deaf := s.backends[1]
	it := s.settled()
	deaf.mu.Lock()
	deaf.refuses = true
	clear(deaf.ran)
	deaf.mu.Unlock()
	it.kill()
	next := s.settled()
	s.ask(40, "m")
	s.front.served("with one backend that did not promise")
	deaf.mu.Lock()
	if len(deaf.ran) > 0 && deaf.ran[wire.Epoch(next.current.Load().reign.Load())] > 0 {
		t.Errorf("the backend that did not promise ran %v", deaf.ran)
	}
	deaf.refuses = false
	link := deaf.place[slices.Index(s.names, next.name)].link
	deaf.mu.Unlock()
	link.Close(nil) // it comes again, and is asked again
	s.settled()
	until(t, "its GPU is used again", func() bool {
		s.ask(4, "m")
		deaf.mu.Lock()
		defer deaf.mu.Unlock()
		return deaf.ran[wire.Epoch(next.current.Load().reign.Load())] > 0
	})
	s.front.served("with both")
}

// A planned change: the leader hands over, and what waits at backends is run where it is.
func TestHandOver(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", 2*mono.Millisecond))
	it := s.settled()
	for _, spare := range without(s.all, it) {
		until(t, "a spare that is to step down names the leader", func() bool { // as soon as it has dialled it
			err := s.order(spare, catalog.Order{Kind: catalog.OrderStepDown})
			return err != nil && strings.HasSuffix(err.Error(), "does not lead: ask the one that does, inproc:"+it.name)
		})
	}
	s.ask(60, "m")
	until(t, "the leader steps down", func() bool { // as soon as it hears a spare
		err := s.order(it, catalog.Order{Kind: catalog.OrderStepDown})
		return err == nil || strings.Contains(err.Error(), "does not lead")
	})
	s.ask(60, "m")
	s.front.served("after the leader has stepped down")
	if s.settled() == it {
		t.Fatalf("%v still leads", it)
	}
	s.ask(60, "m")
	until(t, "it is promoted", func() bool { return s.order(it, catalog.Order{Kind: catalog.OrderPromote}) == nil })
	if got := s.settled(); got != it {
		t.Errorf("%v leads, and %v was promoted", got, it)
	}
	if err := s.order(it, catalog.Order{Kind: catalog.OrderPromote}); err != nil {
		t.Errorf("who leads is promoted: %v", err)
	}
	s.front.served("after the promotion")
}

// The drain of a leader hands over first; that of the last one finishes what is open.
func TestDrainHandsOver(t *testing.T) {
	s := newScene(t, 2, 1, 2, single("m", 2*mono.Millisecond))
	it := s.settled()
	s.ask(60, "m")
	server := it.current.Load()
	until(t, "it hands over", func() bool { return server.handOver(context.Background()) }) // as soon as it hears the spare
	if err := server.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-server.Over()
	s.front.served("after the drain")
	it.kill()
	last := s.settled()
	s.ask(20, "m")
	s.front.served("by the last one")
	if err := last.current.Load().Drain(context.Background()); err != nil {
		t.Error(err)
	}
}

// Schedulers that do not hear of each other drive no GPU together, each its own at most, and when they do
// again one is left.
func TestSplit(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", 2*mono.Millisecond))
	both := func(a, b string, cut bool) { s.cut(a, b, cut); s.cut(b, a, cut) }
	for range 2 {
		it := s.settled()
		// The leader and a backend on one side, the rest on the other, with the frontend.
		divide := func(cut bool) {
			for _, other := range without(s.all, it) {
				both(it.name, other.name, cut)
				both("b0", other.name, cut)
			}
			both(it.name, "b1", cut)
			both(it.name, "f", cut)
		}
		s.ask(40, "m")
		divide(true)
		leader(t, without(s.all, it))
		s.ask(40, "m")
		s.front.served("on the larger side of the split")
		divide(false)
		s.settled()
		s.ask(40, "m")
		s.front.served("after the split")
	}
}

// A leader that hears none of its spares, while all reach the backends: the two sides take these from each
// other, and wait longer each time, though each reign's end is a new Server.
func TestSplitOfSchedulersAlone(t *testing.T) {
	s := newScene(t, 3, 2, 2, single("m", 2*mono.Millisecond))
	it := s.settled()
	divide := func(cut bool) {
		for _, other := range without(s.all, it) {
			s.cut(it.name, other.name, cut)
			s.cut(other.name, it.name, cut)
		}
	}
	divide(true)
	until(t, "the leader was overtaken three times by one that it does not hear, and remembers", func() bool { return it.cfg.Past.unheard.Load() >= 3 })
	s.ask(40, "m")
	s.front.served("by either side")
	divide(false)
	s.settled()
}

// What the control plane has set holds under the next leader, and so does where GPUs are.
func TestOrdersOutliveTheLeader(t *testing.T) {
	s := newScene(t, 2, 1, 2, single("m", 2*mono.Millisecond))
	it := s.settled()
	slo := int64(7 * mono.Second)
	gpu := "b0/emulated/0"
	for _, o := range []catalog.Order{
		{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &slo}},
		{Kind: catalog.OrderDrain, GPU: gpu},
		{Kind: catalog.OrderSeat, GPU: gpu, To: "one"},
		{Kind: catalog.OrderRoute, DeviceType: "emulated", To: "one", Keys: []string{"m/1"}},
	} {
		if err := s.order(it, o); err != nil {
			t.Fatalf("%s: %v", o.Kind, err)
		}
	}
	told := func(m *member) bool {
		server := m.current.Load()
		server.mu.Lock()
		defer server.mu.Unlock()
		for i := range server.models {
			if x := &server.models[i]; x.spec != nil && x.spec.Name == "m" && x.pool != nil {
				return x.pool.name == "one" && x.spec.SLO == 7*mono.Second
			}
		}
		return false
	}
	spare := without(s.all, it)[0]
	until(t, "the spare knows it", func() bool { return told(spare) })
	s.ask(20, "m")
	it.kill()
	s.ask(20, "m")
	s.front.served("in the sub-cluster, under the next leader")
	if next := s.settled(); !told(next) {
		t.Error("the new leader has forgotten what was ordered")
	}
}
