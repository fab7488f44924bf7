package backend

import (
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// frontend is a process that listens for backends.
type frontend struct {
	*dataSide
	mu       sync.Mutex
	listener transport.Listener
	dialled  int
}

// frontend begins to listen on an address.
func (c *cluster) frontend(instance uint64, address string) *frontend {
	f := &frontend{dataSide: (*dataSide)(c)}
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend, Incarnation: instance, Name: address}, Slabs: slabs{}}
	ln, err := c.network.Listen(address, o, func(wire.Hello) (transport.Handler, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dialled++
		return f.dataSide, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	f.listener = ln
	return f
}

func (f *frontend) dials() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialled
}

// is reports whether the link goes to the process.
func is(l transport.Link, instance uint64) bool { return l != nil && l.Peer().Incarnation == instance }

// orderFor is an order with one request of each frontend.
func (c *cluster) orderFor(epoch wire.Epoch, id wire.BatchID, frontends ...wire.FrontendID) {
	now := mono.Now()
	m := wire.Batch{Epoch: epoch, Batch: id, Model: 10, Device: 1, Exec: now, Until: now, Latest: mono.Never}
	for _, f := range frontends {
		m.Items = append(m.Items, wire.BatchItem{Request: wire.RequestID(id)<<8 | wire.RequestID(f), Frontend: f, Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: 32}})
	}
	_ = c.control().Send(m.Append(nil))
}

// Two frontends of which one answers at the address of both: the one that answers is
// served, nothing of the other goes to it, and the log says once which it is and what to
// set. When the other is the one that answers, the same holds for it.
func TestTwoFrontendsOfOneAddress(t *testing.T) {
	log := &lines{}
	c := newCluster(t)
	defer c.close()
	a := c.frontend(71, "inproc:both")
	b := c.backend(func(cfg *Config) { cfg.Logger = zerolog.New(log) })
	defer b.Close()
	c.admit(100, wire.Member{Frontend: 1, Instance: 71, Address: "inproc:both"}, wire.Member{Frontend: 2, Instance: 72, Address: "inproc:both"})
	c.wait("the link to who answers", func() bool { return is(b.data(1), 71) })
	c.wait("more attempts for the other", func() bool { return a.dials() >= 5 })
	for id := range wire.BatchID(10) {
		c.orderFor(100, id+1, 1)
	}
	c.wait("outputs", func() bool { return len(c.outputs) == 10 })
	c.orderFor(100, 20, 2, 1) // one of them can be told nothing: the other is
	c.wait("the other's output", func() bool { return len(c.outputs) == 11 && len(c.dones) == 11 })
	c.mu.Lock()
	for _, o := range c.outputs {
		if o.Request&0xff != 1 {
			t.Errorf("request %x went to a frontend that did not ask it", o.Request)
		}
	}
	c.mu.Unlock()
	said := log.about("another process answers", "frontend.advertise", `"answers":"inproc:both"`)
	if len(said) != 1 {
		t.Errorf("said %d times, want once:\n%s", len(said), log.about(""))
	}

	a.listener.Close()
	c.member(100, 1, 71, "")
	next := c.frontend(72, "inproc:both")
	defer next.listener.Close()
	c.wait("the link to the other", func() bool { return is(b.data(2), 72) && b.data(1) == nil })
	c.orderFor(100, 30, 2)
	c.wait("its output", func() bool { return len(c.outputs) == 12 })
}

// A frontend that is seen at another address is dialled there, and not where it was.
func TestFrontendMoves(t *testing.T) {
	c := newCluster(t)
	defer c.close()
	here, there := c.frontend(71, "inproc:here"), c.frontend(71, "inproc:there")
	defer here.listener.Close()
	defer there.listener.Close()
	b := c.backend()
	defer b.Close()
	c.admit(100, wire.Member{Frontend: 1, Instance: 71, Address: "inproc:here"})
	c.wait("the link", func() bool { return is(b.data(1), 71) })
	before := b.data(1)
	c.member(100, 4, 71, "inproc:there")
	c.wait("the link to where it is", func() bool { return is(b.data(4), 71) && there.dials() == 1 })
	if b.data(4) == before || b.data(1) != nil {
		t.Error("the link before is used still")
	}
	c.orderFor(100, 1, 4)
	c.wait("an output", func() bool { return len(c.outputs) == 1 })
	if n := here.dials(); n != 1 {
		t.Errorf("dialled %d times where it was", n)
	}
}

// A scheduler that was started again gives the same frontends other ids: their links stay.
// Those that it does not name end.
func TestLinksOutliveTheScheduler(t *testing.T) {
	c := newCluster(t)
	defer c.close()
	stays, leaves := c.frontend(71, "inproc:stays"), c.frontend(72, "inproc:leaves")
	defer stays.listener.Close()
	defer leaves.listener.Close()
	b := c.backend()
	defer b.Close()
	c.admit(100, wire.Member{Frontend: 1, Instance: 71, Address: "inproc:stays"}, wire.Member{Frontend: 2, Instance: 72, Address: "inproc:leaves"})
	c.wait("the links", func() bool { return is(b.data(1), 71) && is(b.data(2), 72) })
	link := b.data(1)
	gone := b.uplinks[0].ids.Load().frontends.member(2).keeper
	first := c.control()
	first.Close(nil)
	c.wait("a new registration", func() bool { return c.link != nil && c.link != first })
	if b.data(1) != link || b.data(2) == nil {
		t.Error("the links did not outlive that to the scheduler")
	}
	c.admit(200, wire.Member{Frontend: 2, Instance: 71, Address: "inproc:stays"})
	c.wait("the new ids", func() bool { return b.data(2) == link && b.data(1) == nil })
	c.wait("the end of the link of a frontend that is not named", func() bool {
		select {
		case <-gone.Done():
			return true
		default:
			return false
		}
	})
	c.orderFor(200, 1, 2)
	c.wait("an output", func() bool { return len(c.outputs) == 1 })
	if n := stays.dials(); n != 1 {
		t.Errorf("dialled %d times, want once", n)
	}
	c.member(100, 2, 0, "") // of the scheduler before
	c.member(200, 77, 5, "")
	c.orderFor(200, 2, 2)
	c.wait("another output", func() bool { return len(c.outputs) == 2 })
	c.member(200, 2, 71, "")
	c.wait("its end", func() bool { return b.data(2) == nil })
}
