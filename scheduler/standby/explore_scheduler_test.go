package standby_test

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What goes over links, besides what package wire has.
type (
	join     struct{ gpus int } // of a backend or a frontend, on its new link
	admitted struct{}           // the answer
	submit   struct {
		key      key
		deadline mono.Time
	}
	refusal struct{ key key }
	// running is wire.Running with its order, for the checkers.
	running struct {
		order *order
		gpu   int
	}
	done   struct{ order *order }
	output struct{ key key }
)

// order is a batch.
type order struct {
	reign   wire.Epoch
	server  *server
	backend uint64 // life
	link    *end   // the scheduler's
	gpu     int
	until   mono.Time
	items   []item
	kept    bool // in a planned switch: runs although its reign is over
	over    bool // it has run
}

type item struct {
	key      key
	deadline mono.Time
	known    []*order // that run it already, as its scheduler knows
}

// schedulerNode is a scheduler's process: the core, and a server that it lets drive or not.
type schedulerNode struct {
	p      *proc
	index  int
	core   *standby.Scheduler
	out    standby.Effects
	peers  []*end
	server *server
	busyAt mono.Time
}

const (
	batchMax = 4
	overdue  = 50 * mono.Millisecond // after its planned end a batch is given up
)

// server is what a scheduler knows until it yields: then another one begins.
type server struct {
	driving bool
	reign   wire.Epoch
	ends    []*end // of backends and frontends, that were admitted
	backs   []*served
	queue   []item
	door    map[key]*entry
}

// entry is a request that runs, here or of before.
type entry struct {
	orders []*order // that have it; several where one was not known in time
	done   bool     // by one of them
	held   *item    // it was sent again meanwhile
}

// served is a backend as a server sees it.
type served struct {
	end    *end
	life   uint64
	gpus   []*order // what is there
	usable bool
}

func (s *server) uses(life uint64) bool {
	return slices.ContainsFunc(s.backs, func(b *served) bool { return b.life == life && b.usable })
}

func (n *schedulerNode) number() uint16 {
	if n.p.w.plant == plantReignReused {
		return 1
	}
	return uint16(n.index + 1)
}

func (n *schedulerNode) boot() {
	w := n.p.w
	cfg := standby.Config{Number: n.number(), Life: n.p.life, Places: len(w.schedulers), Wall: uint64(w.wallBase() + n.p.wall - int64(n.p.offset))}
	if w.plant == plantReignReused {
		cfg.Life, cfg.Wall = 1, -uint64(n.p.clock())
	}
	n.core, n.out, n.peers, n.server, n.busyAt = standby.New(cfg, n.p.clock()), nil, nil, newServer(), 0
	n.core.PlaceSelf(n.p.clock(), n.index, &n.out)
	n.carryOut()
}

func newServer() *server { return &server{door: map[key]*entry{}} }

func (n *schedulerNode) stop() {}

func (n *schedulerNode) nextWake() mono.Time { return n.core.NextWake() }

func (n *schedulerNode) wake() {
	n.core.Tick(n.p.clock(), &n.out)
	n.carryOut()
}

func (n *schedulerNode) refused(k *keeper) {
	n.core.PlaceRefused(n.p.clock(), k.place, &n.out)
	n.carryOut()
}

func (n *schedulerNode) up(e *end) {
	if _, peer := e.peer.p.node.(*schedulerNode); peer {
		n.core.PeerUp(n.p.clock(), e.place, e.number, e.peer.life, &n.out)
		n.peers = append(n.peers, e)
		n.carryOut()
	}
}

func (n *schedulerNode) down(e *end) {
	now := n.p.clock()
	if i := slices.Index(n.peers, e); i >= 0 {
		n.peers = slices.Delete(n.peers, i, i+1)
		n.core.PeerDown(now, e.number, &n.out)
		n.carryOut()
		return
	}
	s := n.server
	s.ends = slices.DeleteFunc(s.ends, func(x *end) bool { return x == e })
	if i := slices.IndexFunc(s.backs, func(b *served) bool { return b.end == e }); i >= 0 {
		b := s.backs[i]
		s.backs = slices.Delete(s.backs, i, i+1)
		for _, o := range b.gpus {
			n.release(o, true)
		}
		n.core.BackendDown(now, e.number, &n.out)
		n.carryOut()
		n.dispatch()
	}
}

func (n *schedulerNode) receive(e *end, m any) {
	now, s := n.p.clock(), n.server
	switch m := m.(type) {
	case wire.Beat:
		n.core.Beat(now, e.number, m, &n.out)
		n.carryOut()
	case join:
		s.ends = append(s.ends, e)
		e.send(admitted{})
		if m.gpus == 0 {
			e.send(n.core.Lead())
			return
		}
		for _, b := range slices.Clone(s.backs) { // a link that another one of the same process replaces
			if b.life == e.peer.life {
				b.end.shut()
				n.down(b.end)
			}
		}
		s.backs = append(s.backs, &served{end: e, life: e.peer.life, gpus: make([]*order, m.gpus)})
		n.core.BackendUp(now, e.number, e.peer.life, &n.out)
		n.carryOut()
	case wire.Promised:
		if n.p.w.plant == plantStaleTaken && m.Epoch != 0 && m.Epoch == m.Highest && n.core.Role() != standby.Spare {
			m.Epoch, m.Highest = n.core.Reign(), n.core.Reign() // whatever reign it is a promise of
		}
		n.core.Promised(now, e.number, m, &n.out)
		n.carryOut()
	case running:
		if b := s.of(e); b != nil {
			n.isRunning(b, m)
		}
	case done:
		if b := s.of(e); b != nil && b.gpus[m.order.gpu] == m.order {
			b.gpus[m.order.gpu] = nil
			n.release(m.order, false)
			n.dispatch()
		}
	case submit:
		n.submitted(e, m)
	}
}

func (s *server) of(e *end) *served {
	for _, b := range s.backs {
		if b.end == e {
			return b
		}
	}
	return nil
}

// isRunning: a backend goes on with a batch of before. What it has of it here waits for it.
func (n *schedulerNode) isRunning(b *served, m running) {
	s, w := n.server, n.p.w
	for _, it := range m.order.items {
		w.check.knows(s, it.key, m.order, b.end)
	}
	if w.plant == plantRunningIgnored {
		return
	}
	b.gpus[m.gpu] = m.order
	for _, it := range m.order.items {
		e := s.enter(it.key, m.order)
		if i := slices.IndexFunc(s.queue, func(q item) bool { return q.key == it.key }); i >= 0 {
			q := s.queue[i]
			e.held = &q
			s.queue = slices.Delete(s.queue, i, i+1)
		}
	}
	n.giveUp(s, b, m.order)
}

// giveUp ends the wait for a batch that is overdue.
func (n *schedulerNode) giveUp(s *server, b *served, o *order) {
	w, life := n.p.w, n.p.life
	w.at(o.until.Add(overdue), func() {
		n.p.do(life, func() {
			if n.server == s && b.gpus[o.gpu] == o {
				b.gpus[o.gpu] = nil
				n.release(o, true)
				n.dispatch()
			}
		})
	})
}

// release: a batch is over. Where it is lost its requests run again, unless another one has them,
// too; else they are remembered: one that is sent again meanwhile has its output already.
func (n *schedulerNode) release(o *order, lost bool) {
	if o == nil {
		return
	}
	s := n.server
	for _, it := range o.items {
		e := s.door[it.key]
		if e == nil {
			continue
		}
		e.orders = slices.DeleteFunc(e.orders, func(x *order) bool { return x == o })
		e.done = e.done || !lost
		if lost && o.server == s && e.held == nil {
			it.known = nil
			e.held = &it
		}
		switch {
		case e.done:
			e.held = nil
		case len(e.orders) > 0:
		default:
			delete(s.door, it.key)
			if e.held != nil {
				s.queue = append(s.queue, *e.held)
			}
		}
	}
}

// enter notes that a batch has a request.
func (s *server) enter(k key, o *order) *entry {
	e := s.door[k]
	if e == nil {
		e = &entry{}
		s.door[k] = e
	}
	e.orders = append(e.orders, o)
	return e
}

func (n *schedulerNode) submitted(e *end, m submit) {
	s := n.server
	if !s.driving || !slices.Contains(s.ends, e) {
		return
	}
	if n.p.w.now >= n.busyAt {
		n.busyAt = n.p.w.now.Add(100 * mono.Millisecond)
		n.core.Busy(n.p.clock(), &n.out)
		n.carryOut()
	}
	it := item{key: m.key, deadline: m.deadline}
	same := func(x item) bool { return x.key == m.key }
	switch {
	case s.door[m.key] != nil:
		if e := s.door[m.key]; !e.done {
			e.held = &it
		}
	case !slices.ContainsFunc(s.queue, same):
		s.queue = append(s.queue, it)
	}
	n.dispatch()
}

// dispatch gives what waits to GPUs that are free.
func (n *schedulerNode) dispatch() {
	s, w := n.server, n.p.w
	if !s.driving {
		return
	}
	s.queue = slices.DeleteFunc(s.queue, func(it item) bool { return it.deadline < w.now.Add(2*mono.Millisecond) })
	for _, b := range s.backs {
		for g := range b.gpus {
			if len(s.queue) == 0 || !b.usable {
				break
			}
			if b.gpus[g] != nil {
				continue
			}
			size := min(len(s.queue), batchMax)
			o := &order{reign: s.reign, server: s, backend: b.life, link: b.end, gpu: g, until: w.now.Add(8 * mono.Millisecond), items: slices.Clone(s.queue[:size])}
			s.queue = slices.Delete(s.queue, 0, size)
			for _, it := range o.items {
				s.enter(it.key, o)
			}
			b.gpus[g] = o
			w.check.sends(n, o)
			b.end.send(o)
			n.giveUp(s, b, o)
		}
	}
}

// carryOut does what the core wants.
func (n *schedulerNode) carryOut() {
	w := n.p.w
	for len(n.out) > 0 {
		out := n.out
		n.out = nil
		for i := range out {
			n.effect(&out[i])
		}
		if n.out == nil {
			n.out = out[:0]
		}
	}
	if n.server.driving != (n.core.Role() == standby.Leader) {
		w.fail("%s drives: %v, as %v", n.p.name, n.server.driving, n.core.Role())
	}
}

func (n *schedulerNode) effect(e *standby.Effect) {
	w, s := n.p.w, n.server
	switch e.Kind {
	case standby.SendBeat:
		for _, x := range n.peers {
			if x.number == e.Link {
				if e.Beat.Leads {
					w.check.reign(n.p.life, e.Beat.Epoch, "leads")
				}
				x.send(e.Beat)
			}
		}
	case standby.Ask:
		w.check.reign(n.p.life, e.Promise.Epoch, "asks")
		for _, b := range s.backs {
			if b.end.number == e.Link {
				b.end.send(e.Promise)
			}
		}
	case standby.Lead:
		w.check.reign(n.p.life, e.Reign, "begins")
		w.check.tally.switches++
		w.say("%s LEADS %d", n.p.name, e.Reign)
		s.driving, s.reign = true, e.Reign
		for _, x := range s.ends {
			x.send(wire.Lead{Epoch: e.Reign, Leads: true})
		}
	case standby.Use:
		for _, b := range s.backs {
			if b.end.number == e.Link {
				w.check.use(n, b.life, e.Reign)
				b.usable = true
			}
		}
		n.dispatch()
	case standby.Yield:
		n.yield()
	case standby.Note:
		w.say("%s: %s", n.p.name, e.Text)
	}
}

// yield makes a new server, without links.
func (n *schedulerNode) yield() {
	s := n.server
	s.driving = false
	for _, x := range s.ends {
		x.send(n.core.Lead())
	}
	n.server = newServer()
	life := n.p.life
	n.p.w.after(0, func() {
		n.p.do(life, func() {
			for _, x := range s.ends {
				if x.open {
					x.shut()
					if s.of(x) != nil {
						n.core.BackendDown(n.p.clock(), x.number, &n.out)
					}
				}
			}
			n.carryOut()
		})
	})
}
