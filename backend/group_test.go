package backend

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What devices shall have is for the scheduler to say that is obeyed: a spare's orders change nothing.
// It is told of the others' orders, also of those that came before it had admitted the backend.
func TestSparesKeepIsIgnored(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newGroup(t)
	defer g.end()
	key, other := g.backend.pools[0].specs[0].Key(), g.backend.pools[0].specs[1].Key()
	g.a.admits()
	g.a.promise(1000, false)
	g.a.hears(wire.Promised{Epoch: 1000, Highest: 1000})
	g.a.tell(wire.DocKeep, catalog.Keep{Device: 0, In: "east", Told: &catalog.Told{SubCluster: "east", Epoch: 200, Serial: 7, Whole: true, Keys: []string{key}}})
	stocked := func(p *peer, key string, devices ...int) {
		t.Helper()
		g.eventually("stock", func() bool { return slices.Equal(p.stocked(key).Devices, devices) })
	}
	g.eventually("the order", func() bool {
		s := g.backend.pools[0].stock
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.devices[0].in == "east"
	})
	g.b.admits()
	g.b.tell(wire.DocKeep, catalog.Keep{Device: 0, In: "west", Unload: []string{key, other}})
	g.b.tell(wire.DocKeep, catalog.Keep{Device: 7, In: "nowhere"}) // not even looked at
	g.eventually("what it missed", func() bool { return len(g.b.keeps()) == 2 })
	if k := g.b.keeps(); k[0].In != "east" || k[0].Told == nil || k[0].Told.Serial != 7 || !k[0].Told.Whole || k[1].Device != 1 || k[1].In != "" {
		t.Errorf("told %+v", k)
	}
	g.eventually("the spare's orders", func() bool { return g.counter("symphony_backend_overtaken_orders_total") == 2 })
	g.a.tell(wire.DocKeep, catalog.Keep{Device: 1, In: "east", Unload: []string{key}})
	stocked(g.a, key, 0)
	stocked(g.b, key, 0) // each is told
	g.eventually("the order of the other", func() bool { return len(g.b.keeps()) == 3 })
	if k := g.b.keeps()[2]; k.Device != 1 || k.In != "east" || !slices.Equal(k.Unload, []string{key}) {
		t.Errorf("told %+v", k)
	}
	if s := g.a.stocked(other); s.Key != "" {
		t.Errorf("the spare unloaded %+v", s)
	}
	if n := len(g.a.keeps()); n != 0 {
		t.Errorf("the scheduler that is obeyed is told %d orders", n)
	}

	// The spare leads: it was started before the other, and what it says holds.
	g.b.promise(2000, false)
	g.b.hears(wire.Promised{Epoch: 2000, Highest: 2000})
	g.b.tell(wire.DocKeep, catalog.Keep{Device: 0, In: "east", Unload: []string{other}, Told: &catalog.Told{SubCluster: "east", Epoch: 100, Serial: 1, Whole: true, Keys: []string{other}}})
	stocked(g.a, other, 1)
	stocked(g.b, other, 1)
	s := g.backend.pools[0].stock
	s.mu.Lock()
	defer s.mu.Unlock()
	if told := s.repeated(); len(told) != 1 || told[0].Epoch != 100 || !slices.Equal(told[0].Keys, []string{other}) {
		t.Errorf("it repeats %+v", told)
	}
}

// stocked is what the scheduler was told of a model last.
func (p *peer) stocked(key string) (last catalog.Stocked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.docs {
		if doc, err := catalog.DecodeStock(d.payload); d.kind == wire.DocStock && err == nil {
			for _, s := range doc.Models {
				if s.Key == key {
					last = s
				}
			}
		}
	}
	return last
}

// keeps are the orders that it was told of.
func (p *peer) keeps() (all []catalog.Keep) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.docs {
		if k, err := catalog.DecodeKeep(d.payload); d.kind == wire.DocKeep && err == nil {
			all = append(all, k)
		}
	}
	return all
}

// Data links are the frontends', whatever schedulers call them: a take-over dials none again, one that
// a scheduler forgets stays while another names it, and one that each sees at another address of its
// host stays where it answers.
func TestMembersAreShared(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, first := range []bool{false, true} {
		membersAreShared(t, first)
	}
}

func membersAreShared(t *testing.T, lostFirst bool) {
	g := led(t)
	defer g.end()
	f := g.frontend(71, "inproc:x")
	defer f.listener.Close()
	elsewhere := g.frontend(71, "inproc:y")
	defer elsewhere.listener.Close()
	link := func(p int, id wire.FrontendID) transport.Link {
		return g.backend.uplinks[p].ids.Load().frontends.Link(id)
	}
	g.a.member(5, 71, "inproc:x")
	g.eventually("the data link", func() bool { return is(link(0, 5), 71) })
	first := link(0, 5)
	g.b.member(1, 71, "inproc:y")
	g.eventually("the other's name for it", func() bool { return link(1, 1) == first })
	g.b.promise(2000, false)
	g.b.hears(wire.Promised{Epoch: 2000, Highest: 2000})
	g.a.member(5, 71, "")
	g.eventually("the end of its name", func() bool { return link(0, 5) == nil })
	if link(1, 1) != first || f.dials() != 1 || elsewhere.dials() != 0 {
		t.Error("a frontend that one scheduler still names was dialled again")
	}
	g.a.member(6, 71, "inproc:x")
	g.eventually("its new name", func() bool { return link(0, 6) == first })
	lose := func() { // what a scheduler that is lost has said holds no more where another one is obeyed
		g.a.listener.Close()
		g.eventually("the loss", func() bool { return g.backend.uplinks[0].link.Load() == nil })
	}
	if lostFirst {
		lose()
	}
	g.b.member(1, 71, "")
	if !lostFirst {
		g.eventually("the end of its name", func() bool { return link(1, 1) == nil })
		if link(0, 6) != first {
			t.Error("a frontend that one scheduler still names was forgotten")
		}
		lose()
	}
	g.eventually("its end", func() bool { return link(1, 1) == nil && link(0, 6) == nil })
	if n := f.dials() + elsewhere.dials(); n != 1 {
		t.Errorf("dialled %d times, want once", n)
	}
	if l := link(1, 8); l == nil {
		t.Error("another frontend's link went with it")
	}
}

// A scheduler that says which frontends there are ends no link of one that another has yet to name,
// or that only the other names.
func TestSettlingEndsNoOthersLinks(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	f := g.frontend(71, "inproc:x")
	defer f.listener.Close()
	link := func(p int, id wire.FrontendID) transport.Link {
		return g.backend.uplinks[p].ids.Load().frontends.Link(id)
	}
	g.a.member(5, 71, "inproc:x")
	g.eventually("the data link", func() bool { return is(link(0, 5), 71) })
	first := link(0, 5)
	g.a.mu.Lock()
	old := g.a.link
	g.a.mu.Unlock()
	old.Close(nil)
	g.a.wait("another introduction", func() bool { return g.a.link != nil && g.a.link != old })
	g.b.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{31, 32}}) // while the one that is obeyed is away
	g.eventually("ids", func() bool {
		t := g.backend.uplinks[1].ids.Load().models.Load()
		return len(*t) > 32 && (*t)[32].pool == 0
	})
	g.a.tell(wire.DocAdmitted, catalog.Admitted{Epoch: g.a.life})
	g.eventually("its admission", func() bool { return g.backend.uplinks[0].link.Load() != nil })
	g.b.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{41, 42}}) // while it has not named its own
	g.eventually("ids", func() bool {
		t := g.backend.uplinks[1].ids.Load().models.Load()
		return len(*t) > 42 && (*t)[42].pool == 0
	})
	g.a.member(5, 71, "inproc:x")
	g.a.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{10, 11}})
	g.eventually("its name", func() bool { return link(0, 5) == first })
	if n := f.dials(); n != 1 {
		t.Errorf("dialled %d times, want once", n)
	}
}

// All schedulers hear of devices out of service, and that the backend drains.
func TestAllAreTold(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t)
	defer g.end()
	g.backend.OutOfService(0, 0, "device", "it is lost")
	for _, p := range []*peer{g.a, g.b} {
		p.wait("a device out of service", func() bool {
			return slices.ContainsFunc(p.docs, func(d document) bool { return d.kind == wire.DocService })
		})
	}
	if err := g.backend.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	for _, p := range []*peer{g.a, g.b} {
		p.wait("the farewell", func() bool { return p.left })
	}
}

// A group that makes no sense is refused with what to write.
func TestWrongGroups(t *testing.T) {
	network := loopback.New()
	for text, want := range map[string]string{
		"inproc:a+":           "missing beside a +",
		"inproc:a++inproc:b":  "missing beside a +",
		"inproc:a + inproc:a": `"inproc:a" is there twice`,
		"inproc:a" + strings.Repeat("+inproc:b", 16): "17 schedulers",
	} {
		b, err := New(context.Background(), Config{Name: "b", Scheduler: text, Network: network, Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 1}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if b != nil {
			b.Close()
		}
	}
}

// A scheduler that stands alone may ask for promises all the same; one that does not is obeyed as it
// is admitted, and hears nothing of promises.
func TestAlone(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newGroup(t, func(c *Config) { c.Scheduler = "inproc:a" })
	defer g.end()
	g.a.admits()
	g.eventually("it is ready", func() bool { return g.backend.Ready() && g.backend.data(3) != nil })
	g.a.order(200, 1)
	g.queued(0)
	g.gate.open()
	g.a.wait("a report", func() bool { return len(g.a.heard) == 1 })
	g.a.hears(done{200, 1, 1})
	g.a.order(200, 2)
	g.queued(0)
	g.a.order(200, 3)
	g.queued(1)
	g.a.promise(5000, false)
	g.a.hears(running{200, 2, 1, wire.RunningItem{Instance: 3, Request: 2}}, wire.Promised{Epoch: 5000, Highest: 5000})
	g.a.order(200, 4)
	g.a.order(5000, 5)
	g.queued(1)
	g.gate.open()
	g.queued(0)
	g.gate.open()
	g.a.hears(done{200, 2, 1}, done{5000, 5, 1})
	g.answered(1, 2, 5)

	// It comes back, of the same life, which is below its reign, and asks again.
	g.a.mu.Lock()
	old := g.a.link
	g.a.mu.Unlock()
	old.Close(nil)
	g.a.wait("another introduction", func() bool { return g.a.link != nil && g.a.link != old })
	g.a.admits()
	g.a.promise(5000, false)
	g.a.hears(wire.Promised{Epoch: 5000, Highest: 5000})
	g.a.order(5000, 6)
	g.queued(0)
	g.gate.open()
	g.a.hears(done{5000, 6, 1})
}
