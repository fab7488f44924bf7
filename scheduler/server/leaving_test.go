package server

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func unload(gpu string, names ...string) catalog.Order {
	o := catalog.Order{Kind: catalog.OrderUnload, GPU: gpu}
	for _, n := range names {
		o.Keys = append(o.Keys, n+"/1")
	}
	return o
}

// servedAll waits until hosts have run all requests up to last, and says if the scheduler has
// refused one.
func servedAll(f *peer, last wire.RequestID, hosts ...*host) {
	f.t.Helper()
	f.wait("all are served", func() bool {
		n := wire.RequestID(0)
		for _, h := range hosts {
			h.mu.Lock()
			n += wire.RequestID(len(h.answers))
			h.mu.Unlock()
		}
		for id, why := range f.answers {
			if n++; why[0] != wire.ReasonDeadline { // that is a busy machine's
				f.t.Errorf("the scheduler has answered request %d: %v", id, why)
			}
		}
		return n >= last
	})
}

// What waits for a model that is removed is served, before its GPU may unload it; what comes later
// is answered with unavailable.
func TestRemovedModelFinishes(t *testing.T) {
	s, n := newServer(t, nil)
	c, a, _ := begin(t, n)
	f := frontendPeer(t, n)
	f.wait("m", func() bool { return f.entry("m").Ready })
	id := f.entryNow("m").ID
	const last = 50
	for i := range wire.RequestID(last) {
		f.submit(i+1, id, 2*mono.Second)
	}
	f.wait("they wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.models[id].count.look().came == last
	})
	c.must(routeTo(catalog.Nowhere, "m"))
	c.must(unload("a/emulated/0", "m"))
	servedAll(f, last, a)
	f.wait("m is gone", func() bool { return f.entry("m").Spec.Name == "" })
	f.submit(last+1, id, 2*mono.Second)
	f.wait("an answer", func() bool { return len(f.answers[last+1]) == 1 && f.answers[last+1][0] == wire.ReasonUnavailable })
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pools[1]; len(s.leaving) > 0 || p.models != 0 {
		t.Errorf("%d removals are under way, and %s serves %d models", len(s.leaving), p.label(), p.models)
	}
}

// A model that is removed and comes back at once, to where it was or elsewhere, loses nothing; and
// each order has its answer.
func TestRemovedModelReturns(t *testing.T) {
	for _, to := range []string{"A", "B"} {
		t.Run(to, func(t *testing.T) {
			_, n := newServer(t, nil)
			c, a, b := begin(t, n)
			c.must(load("b/emulated/0", "m"))
			f := frontendPeer(t, n)
			f.wait("m", func() bool { return f.entry("m").Ready })
			id := f.entryNow("m").ID
			for i := range wire.RequestID(20) {
				f.submit(i+1, id, 2*mono.Second)
			}
			gone, back := c.order(routeTo(catalog.Nowhere, "m")), c.order(routeTo(to, "m"))
			if why := c.outcome(back) + c.outcome(gone); why != "" {
				t.Error(why)
			}
			f.wait("it is back", func() bool { return f.entry("m").Ready && f.subs[id] == to })
			for i := range wire.RequestID(20) {
				f.submit(i+21, id, 2*mono.Second)
			}
			servedAll(f, 40, a, b)
		})
	}
}

// A removed model does not go to a GPU that joins without it.
func TestRemovedModelAndANewGPU(t *testing.T) {
	_, n := newServer(t, nil)
	c, a, b := begin(t, n)
	c.must(load("a/emulated/0", "n"))
	c.must(routeTo("A", "n"))
	c.must(drainOf("b/emulated/0"))
	f := frontendPeer(t, n)
	f.wait("m", func() bool { return f.entry("m").Ready })
	id := f.entryNow("m").ID
	for i := range wire.RequestID(200) { // more than a runs at once: b would take some
		f.submit(i+1, id, 2*mono.Second)
	}
	gone := c.order(routeTo(catalog.Nowhere, "m"))
	c.must(seatTo("b/emulated/0", "A"))
	if why := c.outcome(gone); why != "" {
		t.Error(why)
	}
	f.wait("all have an answer", func() bool { // b looks that none is for it
		a.mu.Lock()
		b.mu.Lock()
		defer a.mu.Unlock()
		defer b.mu.Unlock()
		return len(a.answers)+len(b.answers)+len(f.answers) == 200
	})
}

// Whoever gives orders that are refused does not fill the log.
func TestRefusedOrdersAreFewLines(t *testing.T) {
	log := &lines{}
	_, n := newServer(t, func(c *Config) { c.Logger = zerolog.New(log) })
	c := newBoss(t, n)
	begin := time.Now()
	for range 1000 {
		if why := c.outcome(c.order(catalog.Order{Kind: "dance"})); why == "" {
			t.Fatal("carried out")
		}
	}
	most := 2 + int(time.Since(begin)/(5*time.Second))
	if got := log.count("not carried out"); got == 0 || got > most {
		t.Errorf("%d lines of 1000 refused orders, want 1 to %d", got, most)
	}
}

// A report of a GPU's life before does not count for the one that has begun: else the GPU would
// seem to owe nothing while a batch runs there.
func TestReportsOfTheLifeBefore(t *testing.T) {
	s, n := newServer(t, nil)
	backendPeer(t, n, "b", 1, "m")
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[0]
	now := p.gpu(0).seat.Load()
	p.sink.Completed(0, &shard.Run{GPU: 0, Life: now.life.Life - 1, Size: 1}, &engine.Done{})
	if owed := now.undone.Load(); owed != 0 {
		t.Errorf("%d batches are owed after a report of the life before, want 0", owed)
	}
	now.undone.Add(1)
	p.sink.Completed(0, &shard.Run{GPU: 0, Life: now.life.Life, Size: 1}, &engine.Done{})
	if owed := now.undone.Load(); owed != 0 {
		t.Errorf("%d batches are owed after the report, want 0", owed)
	}
}
