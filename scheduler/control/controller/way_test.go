package controller

import (
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

// grouped is a scheduler of a group: it says whether it leads, and keeps what it is ordered.
type grouped struct {
	t    *testing.T
	n    *loopback.Network
	name string
	life uint64

	mu     sync.Mutex
	link   transport.Link
	orders []catalog.Order
	lead   wire.Lead
}

func newGrouped(t *testing.T, n *loopback.Network, name string, life uint64) *grouped {
	g := &grouped{t: t, n: n, name: name, life: life}
	l, err := n.Listen("inproc:"+name, transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler, Incarnation: life, Name: name}},
		func(wire.Hello) (transport.Handler, error) { return g, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return g
}

func (g *grouped) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (g *grouped) Closed(transport.Link, error)                         {}

func (g *grouped) Receive(l transport.Link, f transport.Frame) {
	if f.Kind != wire.KindDoc {
		return
	}
	o, err := catalog.DecodeOrder(f.Payload)
	if err != nil {
		g.t.Error(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.orders = append(g.orders, o); o.Kind == catalog.OrderJoin {
		g.link = l
		g.tell()
	}
}

// tell says whether it leads, and its facts where it does. Caller holds mu.
func (g *grouped) tell() {
	_ = g.link.Send(g.lead.Append(nil))
	if g.lead.Leads {
		transport.SendDoc(g.link, wire.DocFacts, catalog.Facts{Epoch: g.life, Serial: 1, Whole: true})
	}
}

// leads has it say so from now on.
func (g *grouped) leads(lead wire.Lead) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lead = lead; g.link != nil {
		g.tell()
	}
}

func (g *grouped) ordered(kind string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.orders {
		if o.Kind == kind {
			return true
		}
	}
	return false
}

// Orders go to the scheduler of a group that leads, and follow when another one does; what the one that is
// overtaken says does not count.
func TestALinkFollowsWhoLeads(t *testing.T) {
	n := loopback.New()
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Name: "c", Store: s, Network: n, Schedulers: []string{"inproc:nobody"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	a, b := newGrouped(t, n, "a", 11), newGrouped(t, n, "b", 12)
	a.leads(wire.Lead{Epoch: 100, Leads: true})
	b.leads(wire.Lead{Epoch: 100})
	news := make(chan struct{}, 1)
	l := newLink(c, "inproc:a+inproc:b", news, &peers{by: map[uint64]*way{}})
	t.Cleanup(l.close)

	var heard []said
	next := func(what string, want func(said) bool) {
		t.Helper()
		for end := time.After(30 * time.Second); ; {
			heard = append(heard, l.take()...)
			for len(heard) > 0 {
				x := heard[0]
				heard = heard[1:]
				if want(x) {
					return
				}
				t.Logf("before %s: %+v", what, x)
			}
			select {
			case <-news:
			case <-end:
				t.Fatalf("%s: not within 30 s", what)
			}
		}
	}
	factsOf := func(epoch uint64) func(said) bool {
		return func(x said) bool { return x.facts != nil && x.facts.Epoch == epoch }
	}
	within := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not within 30 s", what)
			}
		}
	}
	next("the leader's facts", factsOf(11))
	l.send(&catalog.Order{Kind: catalog.OrderNames})
	within("an order at the leader", func() bool { return a.ordered(catalog.OrderNames) })

	b.leads(wire.Lead{Epoch: 200, Leads: true}) // the old one does not know it yet
	next("the end of the old leader's word", func(x said) bool { return x.lost })
	next("the new leader's facts", factsOf(12))
	l.send(&catalog.Order{Kind: catalog.OrderSet})
	within("an order at the new leader", func() bool { return b.ordered(catalog.OrderSet) })
	if a.ordered(catalog.OrderSet) {
		t.Error("the old leader is ordered something")
	}

	b.leads(wire.Lead{Epoch: 200})
	next("that nobody leads", func(x said) bool { return x.lost })
	if l.linked() != "" {
		t.Errorf("nobody leads, and the controller is linked to %q", l.linked())
	}
	b.leads(wire.Lead{Epoch: 300, Leads: true})
	next("that it leads again", factsOf(12))
}
