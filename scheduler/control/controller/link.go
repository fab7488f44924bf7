package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// link is the leader's way to a scheduler: orders out; facts and outcomes in, which wait in
// order until the leader's loop takes them.
type link struct {
	c       *Controller
	address string
	keeper  *transport.Keeper
	news    chan struct{} // of all links: has a token while something waits
	peers   *peers

	mu      sync.Mutex // Guards what follows.
	up      transport.Link
	waiting []said
}

// said is one thing that the scheduler said, or that its link is gone.
type said struct {
	facts   *catalog.Facts
	outcome catalog.Outcome
	lost    bool
}

// waitingMax bounds what waits for the loop: a scheduler that says more is not read any more.
const waitingMax = 1 << 16

// peers are the schedulers that links lead to, by the number of their process: two links to one
// would each take for theirs what the other has it do.
type peers struct {
	mu sync.Mutex
	by map[uint64]*link
}

// hold notes that a link leads to a process, unless another one does; that one is returned.
func (p *peers) hold(process uint64, l *link) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.by[process]; other != nil && other != l {
		return other
	}
	p.by[process] = l
	return nil
}

func (p *peers) release(process uint64, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[process] == l {
		delete(p.by, process)
	}
}

func newLink(c *Controller, address string, news chan struct{}, all *peers) *link {
	l := &link{c: c, address: address, news: news, peers: all}
	hello := wire.Hello{Role: wire.RoleController, Incarnation: rand.Uint64(), Token: transport.Token(c.cfg.Token), Name: c.cfg.Name}
	l.keeper = transport.Keep(c.cfg.Network, address, transport.Options{Hello: hello}, l, l.isUp, func(err error) {
		c.log.Warn().Str("scheduler", address).Err(err).Msg("the controller has no link to the scheduler; trying on")
	})
	return l
}

// close ends the link, and says before that it is meant.
func (l *link) close() {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	if up != nil {
		_ = up.Send((&wire.Leave{}).Append(nil))
	}
	l.keeper.Close()
}

func (l *link) isUp(up transport.Link) {
	if other := l.peers.hold(up.Peer().Incarnation, l); other != nil {
		l.c.log.Error().Str("address", l.address).Str("other", other.address).Msg("two addresses of control.scheduler lead to one scheduler: leave one of them out; it has the models of the first")
		up.Close(fmt.Errorf("%w: this controller has a link to this scheduler by another address", transport.ErrRejected))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = up
	l.c.metrics.linked.WithLabelValues(l.address).Set(1)
	l.c.log.Info().Str("scheduler", up.Peer().Name).Str("address", l.address).Msg("the controller is linked to the scheduler")
	transport.SendDoc(up, wire.DocOrder, catalog.Order{Kind: catalog.OrderJoin}) // whose outcome nobody waits for: facts follow
}

// linked is the scheduler's name; "": there is no link.
func (l *link) linked() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up == nil {
		return ""
	}
	return l.up.Peer().Name
}

// take hands over what waits.
func (l *link) take() []said {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.waiting
	l.waiting = nil
	return all
}

// add has something wait.
func (l *link) add(s said) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= waitingMax && !s.lost {
		return errors.New("the controller is behind")
	}
	if s.lost {
		l.waiting = l.waiting[:0]
	}
	l.waiting = append(l.waiting, s)
	select {
	case l.news <- struct{}{}:
	default:
	}
	return nil
}

// send sends an order. One that the link does not take ends the link: a new one begins with
// whole facts, and what is still needed is ordered again.
func (l *link) send(o *catalog.Order) {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	if up == nil {
		return // lost, which the loop is about to hear
	}
	transport.SendDoc(up, wire.DocOrder, o)
}

// PayloadMax implements transport.Limiter.
func (l *link) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.SchedulerDocMax)
}

// Buffer implements transport.Handler.
func (l *link) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (l *link) Receive(up transport.Link, f transport.Frame) {
	var err error
	switch f.Kind {
	case wire.KindDoc:
		err = l.document(f)
	case wire.KindLeave:
		l.c.log.Info().Str("scheduler", l.address).Msg("the scheduler drains")
	default:
		err = fmt.Errorf("frame of kind %d from the scheduler", f.Kind)
	}
	switch {
	case err == nil:
	case errors.Is(err, transport.ErrRejected):
		up.Close(err)
	default:
		up.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
	}
}

func (l *link) document(f transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil {
		return err
	}
	switch d.Type {
	case wire.DocFacts:
		facts, err := catalog.DecodeFacts(f.Payload)
		if err != nil {
			return err
		}
		return l.add(said{facts: &facts})
	case wire.DocOutcome:
		o, err := catalog.DecodeOutcome(f.Payload)
		if err != nil {
			return err
		}
		return l.add(said{outcome: o})
	case wire.DocAdmitted:
		a, err := catalog.DecodeAdmitted(f.Payload)
		if err == nil && a.Error != "" {
			err = fmt.Errorf("%w: this controller is not admitted: %s", transport.ErrRejected, a.Error)
		}
		return err
	}
	return nil // of a later scheduler
}

// Closed implements transport.Handler.
func (l *link) Closed(up transport.Link, err error) {
	l.mu.Lock()
	had := l.up == up
	if had {
		l.up = nil
	}
	l.mu.Unlock()
	if !had {
		return
	}
	l.peers.release(up.Peer().Incarnation, l)
	l.c.metrics.linked.WithLabelValues(l.address).Set(0)
	if l.c.ctx.Err() == nil {
		l.c.log.Warn().Str("scheduler", l.address).AnErr("cause", err).Msg("the controller has lost the scheduler: it is dialled again")
	}
	_ = l.add(said{lost: true}) // there is always room for that
}

var _ transport.Handler = (*link)(nil)
