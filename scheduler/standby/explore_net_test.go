package standby_test

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
)

// network has a path from each process to each other one, and links over them that keep their
// order, hold what cannot go (as TCP does), and end where they hear nothing for too long.
type network struct {
	w     *world
	paths map[[2]*proc]*path
	order []*path // as they were made
}

// path is one direction.
type path struct {
	from, to *proc
	delay    mono.Dur
	cuts     int       // reasons for which nothing passes
	since    mono.Time // that it is cut
	slow     mono.Dur  // more delay
	links    []*end    // sending ends
}

func (n *network) path(from, to *proc) *path {
	key := [2]*proc{from, to}
	p := n.paths[key]
	if p == nil {
		p = &path{from: from, to: to, delay: n.w.span(20*mono.Microsecond, 300*mono.Microsecond)}
		n.paths[key] = p
		n.order = append(n.order, p)
	}
	return p
}

func (p *path) once(w *world) mono.Dur {
	d := p.delay + w.span(0, p.delay/2) + w.span(0, p.slow)
	if w.chance(0.005) {
		d += w.span(0, w.hiccup())
	}
	return d
}

// cut stops a path. Links whose receivers hear nothing of it for long end there.
func (n *network) cut(from, to *proc) {
	p := n.path(from, to)
	p.cuts++
	if p.cuts > 1 {
		return
	}
	p.since = n.w.now
	for _, e := range p.links {
		n.watch(p, e)
	}
}

// watch ends a link whose receiver hears nothing for its silence.
func (n *network) watch(p *path, e *end) {
	since, other := p.since, e.peer
	n.w.after(n.w.span(150*mono.Millisecond, mono.Second), func() {
		if p.cuts > 0 && p.since == since {
			other.finish("silent")
		}
	})
}

func (n *network) join(from, to *proc) {
	p := n.path(from, to)
	if p.cuts--; p.cuts > 0 {
		return
	}
	for _, e := range slices.Clone(p.links) {
		n.w.after(n.w.span(0, 20*mono.Millisecond), e.flush)
	}
}

// end is one side of a link.
type end struct {
	p       *proc
	life    uint64
	peer    *end
	path    *path // to the peer
	number  standby.Link
	place   int // of the keeper that dialled it; -1: the peer did
	keeper  *keeper
	open    bool // the process has it
	over    bool // the stream from here is at its end: a FIN was sent
	horizon mono.Time
	held    []func()
}

// send brings a message to the peer, after all that went before.
func (e *end) send(m any) {
	if !e.open || e.over {
		return
	}
	other := e.peer
	e.carry(func() {
		other.p.do(other.life, func() {
			if other.open {
				other.p.node.receive(other, m)
			}
		})
	})
}

func (e *end) sendFin() {
	if e.over {
		return
	}
	e.over = true
	other := e.peer
	e.carry(func() { other.finish("peer closed") })
}

func (e *end) carry(arrive func()) {
	if e.path.cuts > 0 || len(e.held) > 0 {
		e.held = append(e.held, arrive)
		return
	}
	w := e.p.w
	e.horizon = max(e.horizon+1, w.now.Add(e.path.once(w)))
	w.at(e.horizon, arrive)
}

// flush sends what a cut held.
func (e *end) flush() {
	if e.path.cuts > 0 {
		return
	}
	held := e.held
	e.held = nil
	for _, arrive := range held {
		e.carry(arrive)
	}
	e.unlist()
}

// finish ends the link on this side, and tells the other one, if it can be told.
func (e *end) finish(string) {
	e.p.do(e.life, func() {
		if !e.open {
			return
		}
		e.shut()
		e.p.node.down(e)
		if e.keeper != nil {
			e.keeper.ended()
		}
	})
}

// shut is finish without telling the node.
func (e *end) shut() {
	e.open = false
	e.p.ends = slices.DeleteFunc(e.p.ends, func(x *end) bool { return x == e })
	e.sendFin()
	e.unlist()
}

// unlist forgets an end that is over and has nothing to send.
func (e *end) unlist() {
	if !e.open && len(e.held) == 0 {
		e.path.links = slices.DeleteFunc(e.path.links, func(x *end) bool { return x == e })
	}
}

// tear breaks a link: each side learns of it at its own time, and what is under way is lost.
func (e *end) tear() {
	for _, x := range []*end{e, e.peer} {
		x.over, x.held = true, nil
		e.p.w.after(e.p.w.span(0, 50*mono.Millisecond), func() { x.finish("broken") })
	}
}

// keeper holds a link up.
type keeper struct {
	from    *proc
	to      *proc
	place   int
	quick   bool // the first dial after a loss is at once
	attempt uint64
	wait    mono.Dur
	link    *end
}

const (
	dialMax = 200 * mono.Millisecond
	waitMin = 50 * mono.Millisecond
	waitMax = 500 * mono.Millisecond
)

func (k *keeper) ended() {
	k.link = nil
	k.wait = 0
	if k.quick {
		k.dial()
		return
	}
	k.again()
}

func (k *keeper) again() {
	k.wait = min(max(2*k.wait, waitMin), waitMax)
	life := k.from.life
	k.from.w.after(k.wait/2+k.from.w.span(0, k.wait/2), func() { k.from.do(life, k.dial) })
}

// dial tries once: the handshake goes there and back, and the process there must answer.
func (k *keeper) dial() {
	w, life := k.from.w, k.from.life
	k.attempt++
	this := k.attempt
	there, back := w.net.path(k.from, k.to), w.net.path(k.to, k.from)
	w.after(dialMax, func() {
		k.from.do(life, func() {
			if k.attempt == this && k.link == nil {
				k.attempt++
				k.again()
			}
		})
	})
	if there.cuts > 0 {
		return
	}
	w.after(there.once(w), func() {
		if !k.to.alive {
			if k.to.hostUp() && back.cuts == 0 {
				w.after(back.once(w), func() {
					k.from.do(life, func() {
						if k.attempt == this && k.link == nil {
							k.attempt++
							k.from.node.refused(k)
							k.again()
						}
					})
				})
			}
			return
		}
		toLife := k.to.life
		k.to.do(toLife, func() { k.accept(this, life) })
	})
}

// accept is the listener's part: its end is up, and the dialler's when it hears of it.
func (k *keeper) accept(attempt, life uint64) {
	w := k.from.w
	if !k.from.alive || k.from.life != life {
		return
	}
	a := &end{p: k.from, life: life, path: w.net.path(k.from, k.to), place: k.place, keeper: k}
	b := &end{p: k.to, life: k.to.life, path: w.net.path(k.to, k.from), place: standby.Accepted}
	a.peer, b.peer = b, a
	b.raise()
	b.carry(func() {
		if !k.from.alive || k.from.life != life {
			b.finish("nobody there")
			return
		}
		k.from.do(life, func() {
			if k.attempt != attempt || k.link != nil || a.over {
				a.sendFin()
				return
			}
			k.attempt++
			k.link, k.wait = a, 0
			a.raise()
		})
	})
}

// raise makes an end the process's.
func (e *end) raise() {
	e.p.numbers++
	e.number, e.open = e.p.numbers, true
	e.p.ends = append(e.p.ends, e)
	e.path.links = append(e.path.links, e)
	if back := e.peer.path; back.cuts > 0 {
		e.p.w.net.watch(back, e.peer)
	}
	e.p.node.up(e)
}

// datagram brings an output: later after a cut that is short, and not at all after a long one.
func (n *network) datagram(from, to *proc, arrive func()) {
	p, life := n.path(from, to), to.life
	if p.cuts > 0 {
		since := p.since
		n.w.after(n.w.span(0, 300*mono.Millisecond), func() {
			if p.cuts == 0 || p.since != since {
				to.do(life, arrive)
			}
		})
		return
	}
	n.w.after(p.once(n.w), func() { to.do(life, arrive) })
}
