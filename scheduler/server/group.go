package server

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// group is this scheduler's part in a group of which one leads (package standby). A spare is a whole
// Server: it knows all members from first hand, and has all models and engines, but no GPU is given to
// an engine, and no order to a backend, before that backend has promised to obey (aside).
//
//	links of schedulers, backends --events--> core --SendBeat, Ask--> links, at once
//	                                               --Lead, Use, Yield, Note--> carry, under Server.mu
//
// Heartbeats must not wait for anything: the core has a lock, a goroutine and a timer of its own, and
// nobody who holds its lock waits for Server.mu, nor for a link.
type group struct {
	server   *Server
	log      zerolog.Logger
	places   []*place
	standing *standing
	past     *Past
	ctx      context.Context // ended by close
	cancel   context.CancelFunc
	wake     chan struct{} // of run: something is due earlier than it thinks
	carries  chan struct{} // of carry: there is something to do
	over     chan struct{} // closed when this scheduler has led and another one does
	done     sync.WaitGroup
	probes   sync.WaitGroup
	started  bool
	looked   mono.Time // Owned by run: whether requests come
	told     bool      // all know that it leads. Guarded by Server.mu

	mu       sync.Mutex // Guards what follows. Server.mu may be held when it is taken, not the other way round.
	core     *standby.Scheduler
	effects  standby.Effects // scratch
	frame    []byte          // scratch
	ended    bool            // it has led: the core is not heard any more
	sleeps   mono.Time       // until when run does
	numbers  standby.Link    // of peers' links, the last one given
	peers    map[transport.Link]standby.Link
	byNumber map[standby.Link]transport.Link
	backends map[members.Conn]transport.Link
	todo     []standby.Effect // for carry
	orders   []*steer
	follows  int // place of whom the log has said last that this one is a spare of; -1: nobody
}

// newGroup makes it; start sets it going.
func newGroup(s *Server) *group {
	g := &group{server: s, log: s.log, past: s.cfg.Past, wake: make(chan struct{}, 1), carries: make(chan struct{}, 1), over: make(chan struct{}),
		peers: map[transport.Link]standby.Link{}, byNumber: map[standby.Link]transport.Link{}, backends: map[members.Conn]transport.Link{}, follows: -1}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.standing = newStanding(s)
	for i, address := range s.cfg.Group {
		g.places = append(g.places, &place{group: g, index: i, address: address})
	}
	number := numberOf(&s.cfg, s.epoch)
	if number >= transport.GroupMax && !listensEverywhere(s.cfg.Listen) {
		s.log.Warn().Strs("listen", s.cfg.Listen).Strs("group", s.cfg.Group).Msg("this scheduler listens on none of its group's addresses (scheduler.standby): no other member reaches it unless an address of these leads here by another name")
	}
	g.core = standby.New(standby.Config{Number: number, Life: uint64(s.epoch), Places: len(g.places), Beat: s.cfg.Heartbeat,
		Unheard: int(g.past.unheard.Load()), Heard: wire.Epoch(g.past.heard.Load()), Wall: g.past.wall()}, mono.Now())
	return g
}

// numberOf is the place of its own address in the group, or, where that is written otherwise than it
// listens, one that others hardly have: two of a number would be told, and do no harm (standby.Backend).
func numberOf(cfg *Config, life wire.Epoch) uint16 {
	for i, a := range slices.Sorted(slices.Values(cfg.Group)) {
		if slices.Contains(cfg.Listen, a) {
			return uint16(i)
		}
	}
	h := fnv.New32a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64([]byte(cfg.Name), uint64(life)))
	return uint16(transport.GroupMax + h.Sum32()%(1<<16-transport.GroupMax))
}

// listensEverywhere reports whether some address is one of all the host's, so that others write it otherwise.
func listensEverywhere(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool {
		host, _, err := wire.SplitTCP(a)
		return err == nil && wire.Unspecified(host)
	})
}

func (g *group) start() {
	g.started = true
	g.done.Add(2)
	go g.run()
	go g.carry()
	go g.standing.run(g.standing.tell)
	for _, a := range g.places {
		a.dial()
	}
}

// close ends the links that were dialled, and the goroutines.
func (g *group) close() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.cancel()
	if !g.started {
		return
	}
	for _, a := range g.places {
		<-a.keeper.Done()
	}
	g.done.Wait()
	g.probes.Wait() // none begins any more: the keepers have ended
	<-g.standing.done
}

// drive has the core hear something, and carries out what comes of it.
func (g *group) drive(hear func(now mono.Time, out *standby.Effects)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	hear(mono.Now(), &g.effects)
	g.follow()
	g.perform()
	if g.core.NextWake() < g.sleeps {
		g.sleeps = 0 // once is enough
		wake(g.wake)
	}
}

// follow has the log say whose spare this scheduler is, as soon as that is known or another's. Caller holds mu.
func (g *group) follow() {
	if at, ok := g.core.LeaderPlace(); ok && at != g.follows {
		g.follows = at
		g.effects = append(g.effects, standby.Effect{Kind: standby.Note, Text: "is a spare of " + g.places[at].address + ", which leads"})
	}
}

// leader is the address of another one that leads, behind a joint; "": it is not known.
func (g *group) leader(joint string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, ok := g.core.LeaderPlace(); ok {
		return joint + g.places[at].address
	}
	return ""
}

// perform carries out what must not wait, and leaves the rest to carry. Caller holds mu.
func (g *group) perform() {
	s := g.server
	for i := range g.effects {
		e := &g.effects[i]
		if g.ended && e.Kind != standby.Note {
			continue // this server ends: it must not be promised anything any more
		}
		switch e.Kind {
		case standby.SendBeat:
			if l := g.byNumber[e.Link]; l != nil {
				g.frame = e.Beat.Append(g.frame[:0])
				_ = l.Send(g.frame) // where it cannot be sent it does not arrive, which is what beats are for
			}
			continue
		case standby.Ask:
			if l := g.backends[members.Conn(e.Link)]; l != nil {
				g.server.mustHear(l, e.Promise.Append(nil)) // a backend whose link is closed joins again, and is asked again
			}
			continue
		case standby.Lead:
			s.reign.Store(uint64(e.Reign))
			s.leads.Store(true)
		case standby.Yield:
			s.mute.Store(true)
			s.leads.Store(false)
			g.ended = true
			g.past.unheard.Store(int64(g.core.Unheard()))
			g.past.heard.Store(uint64(g.core.Heard()))
		}
		g.todo = append(g.todo, *e)
		wake(g.carries)
	}
	g.effects = g.effects[:0]
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run lets the core do what is due, in time.
func (g *group) run() {
	defer g.done.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		g.mu.Lock()
		due, ended := g.core.NextWake(), g.ended
		g.sleeps = due
		g.mu.Unlock()
		if ended {
			return
		}
		if due == mono.Never {
			due = mono.Now().Add(mono.Second)
		}
		timer.Reset(due.Sub(mono.Now()).Std())
		select {
		case <-g.ctx.Done():
			return
		case <-g.wake:
			continue
		case <-timer.C:
		}
		busy := g.requests()
		g.drive(func(now mono.Time, out *standby.Effects) {
			if now.Sub(due) > g.server.cfg.Heartbeat {
				g.past.late.Add(1)
			}
			g.core.Tick(now, out)
			if busy {
				g.core.Busy(now, out)
			}
		})
	}
}

// busyEvery is how often it is looked whether requests come.
const busyEvery = 100 * mono.Millisecond

// requests reports now and then whether some have come.
func (g *group) requests() bool {
	now := mono.Now()
	if now.Sub(g.looked) < busyEvery || !g.server.busy.Load() {
		return false
	}
	g.looked = now
	return g.server.busy.Swap(false)
}

// carry does what needs Server.mu.
func (g *group) carry() {
	defer g.done.Done()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.carries:
		}
		for {
			g.mu.Lock()
			todo := g.todo
			g.todo = nil
			g.mu.Unlock()
			if len(todo) == 0 {
				break
			}
			first(todo)
			for i := range todo {
				g.server.carryGroup(&todo[i])
			}
		}
	}
}

// first lets GPUs be seated before frontends hear who leads, and send what they have.
func first(todo []standby.Effect) {
	slices.SortStableFunc(todo, func(a, b standby.Effect) int {
		rank := func(e *standby.Effect) int {
			if e.Kind == standby.Use {
				return 0
			}
			return 1
		}
		return rank(&a) - rank(&b)
	})
}

// carryGroup carries out one effect of the group's.
func (s *Server) carryGroup(e *standby.Effect) {
	switch e.Kind {
	case standby.Note:
		s.log.Info().Str("group", "scheduler").Msg(e.Text)
	case standby.Use:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.uses(members.Conn(e.Link), e.Reign)
	case standby.Lead:
		s.begins(e.Reign)
	case standby.Yield:
		s.yields(e.Reign)
	}
}

// begins tells all that this scheduler leads.
func (s *Server) begins(reign wire.Epoch) {
	s.group.past.takeovers.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Info().Uint64("reign", uint64(reign)).Int("frontends", len(s.frontends)).Int("backends", len(s.backends)).Msg("this scheduler leads its group")
	s.tellLeads()
	s.group.told = true // facts of one that does not lead, as far as they know, controllers would refuse
	s.controllers.look()
	s.group.standing.look()
	s.group.answer(true)
}

// yields ends this Server: another one leads. What waits here is sent there by the frontends.
func (s *Server) yields(reign wire.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.close()
	s.log.Warn().Uint64("reign", uint64(reign)).Msg("this scheduler leads its group no more: it ends, and its process begins anew as a spare")
	s.tellLeads()
	s.group.answer(false)
	close(s.group.over)
}

// tellLeads tells frontends and controllers whether this scheduler leads. Caller holds mu.
func (s *Server) tellLeads() {
	lead := s.group.lead()
	frame := lead.Append(nil)
	for _, f := range s.frontends {
		if f.admitted.Load() {
			s.mustHear(f.link, frame)
		}
	}
	for _, c := range s.controllers.all {
		s.mustHear(c.link, frame)
	}
}

// tellLead tells one, in a group. A link that cannot take it ends, and is told with the next one.
func (s *Server) tellLead(l transport.Link) {
	if s.group == nil {
		return
	}
	lead := s.group.lead()
	s.mustHear(l, lead.Append(nil))
}

// lead is what those who are admitted now have to know.
func (g *group) lead() wire.Lead {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.core.Lead()
}

// Over is closed when this scheduler has led its group and another one does: Close it then, and make a
// new one, which joins as a spare. Nil where it is alone.
func (s *Server) Over() <-chan struct{} {
	if s.group == nil {
		return nil
	}
	return s.group.over
}

// Leads reports whether it leads its group.
func (s *Server) Leads() bool { return s.leads.Load() }

// backendUp says that a backend is admitted. Caller holds Server.mu.
func (g *group) backendUp(b *backend) {
	g.drive(func(now mono.Time, out *standby.Effects) {
		g.backends[b.conn] = b.link
		g.core.BackendUp(now, standby.Link(b.conn), b.instance, out)
	})
}

func (g *group) backendDown(conn members.Conn) {
	g.drive(func(now mono.Time, out *standby.Effects) {
		delete(g.backends, conn)
		g.core.BackendDown(now, standby.Link(conn), out)
	})
}

func (g *group) promised(conn members.Conn, m wire.Promised) {
	g.drive(func(now mono.Time, out *standby.Effects) { g.core.Promised(now, standby.Link(conn), m, out) })
}

// peerUp says that a link to another scheduler is up.
func (g *group) peerUp(l transport.Link, place int) {
	g.drive(func(now mono.Time, out *standby.Effects) {
		if g.peers[l] != 0 {
			return
		}
		g.numbers++
		g.peers[l], g.byNumber[g.numbers] = g.numbers, l
		g.core.PeerUp(now, place, g.numbers, l.Peer().Incarnation, out)
	})
	g.standing.look()
}

func (g *group) peerDown(l transport.Link) {
	g.drive(func(now mono.Time, out *standby.Effects) {
		number := g.peers[l]
		if number == 0 {
			return
		}
		delete(g.peers, l)
		delete(g.byNumber, number)
		g.core.PeerDown(now, number, out)
	})
}

// lost is peerDown of a link that led to a place. That nobody listens there any more says that its
// process has ended, which its silence says later.
func (g *group) lost(l transport.Link, a *place) {
	g.peerDown(l)
	g.probes.Go(a.probe)
}

func (g *group) beat(l transport.Link, m wire.Beat) {
	g.drive(func(now mono.Time, out *standby.Effects) { g.core.Beat(now, g.peers[l], m, out) })
}

// links are those that lead to other schedulers, one to each.
func (g *group) links() (all []transport.Link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	latest := map[uint64]standby.Link{}
	for l, number := range g.peers {
		life := l.Peer().Incarnation
		latest[life] = max(latest[life], number)
	}
	for _, number := range latest {
		all = append(all, g.byNumber[number])
	}
	return all
}

// refusedDial reports whether a host has said that nobody listens there.
func refusedDial(address string, err error) bool {
	scheme, _, _ := transport.SplitAddress(address)
	return errors.Is(err, syscall.ECONNREFUSED) || scheme == "inproc" && errors.Is(err, transport.ErrUnreachable)
}
