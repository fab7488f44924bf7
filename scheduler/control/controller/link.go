package controller

import (
	"errors"
	"strings"
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// link is the leader's way to a scheduler, or to the one of a group that leads it (way): orders out; facts
// and outcomes in, which wait in order until the leader's loop takes them.
type link struct {
	c       *Controller
	address string
	ways    []*way
	news    chan struct{} // of all links: has a token while something waits
	peers   *peers

	mu      sync.Mutex     // Guards what follows.
	up      transport.Link // orders go there
	reign   wire.Epoch     // of a group: under which that leads
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
	by map[uint64]*way
}

// hold notes that a link leads to a process, unless another one does; that one is returned.
func (p *peers) hold(process uint64, w *way) *way {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.by[process]; other != nil && other != w {
		return other
	}
	p.by[process] = w
	return nil
}

func (p *peers) release(process uint64, w *way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[process] == w {
		delete(p.by, process)
	}
}

func newLink(c *Controller, address string, news chan struct{}, all *peers) *link {
	l := &link{c: c, address: address, news: news, peers: all}
	for part := range strings.SplitSeq(address, "+") {
		l.ways = append(l.ways, &way{link: l, address: part, grouped: part != address})
	}
	for _, w := range l.ways {
		w.dial()
	}
	return l
}

// close ends the link, and says before that it is meant.
func (l *link) close() {
	for _, w := range l.ways {
		w.close()
	}
}

// isUp lets orders go to a scheduler.
func (l *link) isUp(w *way, up transport.Link, reign wire.Epoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.reign = up, reign
	l.c.metrics.linked.WithLabelValues(l.address).Set(1)
	l.c.log.Info().Str("scheduler", up.Peer().Name).Str("address", w.address).Msg("the controller is linked to the scheduler")
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
	return l.addLocked(s)
}

func (l *link) addLocked(s said) error {
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

// isDown ends that.
func (l *link) isDown(up transport.Link, err error) {
	l.mu.Lock()
	had := l.up == up
	if had {
		l.up = nil
		_ = l.addLocked(said{lost: true}) // there is always room for that; what the next one tells comes behind
	}
	l.mu.Unlock()
	if !had {
		return
	}
	l.c.metrics.linked.WithLabelValues(l.address).Set(0)
	if l.c.ctx.Err() == nil {
		l.c.log.Warn().Str("scheduler", l.address).AnErr("cause", err).Msg("the controller has lost the scheduler: it is dialled again")
	}
}
