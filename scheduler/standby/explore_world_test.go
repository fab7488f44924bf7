package standby_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A world is a cluster in virtual time: processes with clocks of their own, a network that fails,
// and the checkers, which see everything. One seed is one history.
type world struct {
	seed  uint64
	rng   *rand.Rand
	plant plant

	now    mono.Time
	events []event // heap
	serial uint64
	steps  int

	net        network
	procs      []*proc // all of them
	schedulers []*schedulerNode
	backends   []*backendNode
	frontends  []*frontendNode
	lives      uint64

	check  checker
	broken string // the first violation
	trace  func(string)
}

type event struct {
	at     mono.Time
	serial uint64
	run    func()
}

func (e event) less(o event) bool { return e.at < o.at || e.at == o.at && e.serial < o.serial }

// at schedules an event.
func (w *world) at(t mono.Time, run func()) {
	w.serial++
	w.events = append(w.events, event{max(t, w.now), w.serial, run})
	for i := len(w.events) - 1; i > 0; {
		up := (i - 1) / 4
		if !w.events[i].less(w.events[up]) {
			break
		}
		w.events[i], w.events[up] = w.events[up], w.events[i]
		i = up
	}
}

func (w *world) after(d mono.Dur, run func()) { w.at(w.now.Add(d), run) }

func (w *world) pop() event {
	e, last := w.events[0], len(w.events)-1
	w.events[0] = w.events[last]
	w.events[last] = event{}
	w.events = w.events[:last]
	for i := 0; ; {
		least := i
		for c := 4*i + 1; c <= 4*i+4 && c < last; c++ {
			if w.events[c].less(w.events[least]) {
				least = c
			}
		}
		if least == i {
			return e
		}
		w.events[i], w.events[least] = w.events[least], w.events[i]
		i = least
	}
}

// run goes on until an instant, or the first violation.
func (w *world) run(until mono.Time) {
	for len(w.events) > 0 && w.events[0].at <= until && w.broken == "" {
		e := w.pop()
		w.now = e.at
		e.run()
		w.steps++
	}
	w.now = until
}

// fail notes a violation.
func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf("seed %d, %v: ", w.seed, w.now) + fmt.Sprintf(format, args...)
	}
}

func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%v ", w.now) + fmt.Sprintf(format, args...))
	}
}

// span is a random one.
func (w *world) span(from, to mono.Dur) mono.Dur {
	return from + mono.Dur(w.rng.Int64N(int64(to-from)+1))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// node is what a process does.
type node interface {
	boot()
	up(e *end)             // a link is up
	down(e *end)           // it has ended
	receive(e *end, m any) // what it brought
	refused(k *keeper)     // nobody listens where it dials
	wake()                 // its timer
	nextWake() mono.Time   // by its own clock
	stop()                 // it is killed
}

// proc is a process on a host of its own. What comes while it is paused waits.
type proc struct {
	w       *world
	name    string
	node    node
	alive   bool
	forGood bool // it will not be started again
	off     bool // its host is down, too: it refuses nobody
	life    uint64
	paused  bool
	since   mono.Time // it is paused
	stood   mono.Dur  // the longest pause of this life
	inbox   []func()
	timer   mono.Time // the pending event of it; Never: none
	offset  mono.Dur  // of its clock
	wall    int64     // how far its wall clock is wrong
	numbers standby.Link
	ends    []*end
	ghosts  []*end // of peers, that do not know of the death of a host
	keepers []*keeper
}

func (w *world) newProc(name string, n node) *proc {
	p := &proc{w: w, name: name, node: n}
	w.procs = append(w.procs, p)
	return p
}

// start begins a life.
func (p *proc) start() {
	w := p.w
	w.lives++
	p.alive, p.off, p.paused, p.life, p.timer, p.inbox = true, false, false, w.lives, mono.Never, nil
	p.stood = 0
	p.offset = mono.Dur(w.rng.Int64N(int64(3600 * mono.Second)))
	if p.wall == 0 || w.chance(0.5) { // a clock that is set between two lives
		p.wall = w.rng.Int64N(int64(7200*mono.Second)) - int64(3600*mono.Second)
	}
	w.say("%s starts (life %d)", p.name, p.life)
	for _, e := range p.ghosts { // a host that is there again knows nothing of such links, and says so
		w.after(w.span(0, 100*mono.Millisecond), func() { e.finish("reset") })
	}
	p.ghosts = nil
	p.node.boot()
	for _, k := range p.keepers {
		k.wait, k.link = 0, nil
		k.dial()
	}
	p.arm()
}

// clock is the process's own.
func (p *proc) clock() mono.Time { return p.w.now.Add(p.offset) }

// do runs something in the process, unless that life is over.
func (p *proc) do(life uint64, run func()) {
	switch {
	case !p.alive || p.life != life:
	case p.paused:
		p.inbox = append(p.inbox, run)
	default:
		run()
		p.arm()
	}
}

// hiccup is how late a message or a timer may be now and then: where nobody is to take over, by less than the
// silence that is suspected, even when two come together.
func (w *world) hiccup() mono.Dur {
	if w.check.calm {
		return 3 * mono.Millisecond / 2
	}
	return 3 * mono.Millisecond
}

// arm sees to the timer. Timers are late by a little, now and then by more.
func (p *proc) arm() {
	if !p.alive {
		return
	}
	next := p.node.nextWake()
	if next == mono.Never {
		return
	}
	at := max(next.Add(-p.offset), p.w.now)
	if p.timer <= at {
		return
	}
	p.timer = at
	life, late := p.life, p.w.span(0, 50*mono.Microsecond)
	if p.w.chance(0.01) {
		late = p.w.span(0, p.w.hiccup())
	}
	p.w.at(at.Add(late), func() { p.fire(life, at) })
}

func (p *proc) fire(life uint64, at mono.Time) {
	if !p.alive || p.life != life || p.timer != at {
		return
	}
	p.timer = mono.Never
	if p.paused {
		return
	}
	if p.node.nextWake() <= p.clock() {
		p.node.wake()
	}
	p.arm()
}

// pause is SIGSTOP, with SIGCONT after d: its timer may come first then, or what waits to be read.
func (p *proc) pause(d mono.Dur) {
	if !p.alive || p.paused {
		return
	}
	p.w.say("%s stands still for %v", p.name, d)
	p.paused, p.since = true, p.w.now
	life := p.life
	p.w.after(d, func() {
		if p.life == life {
			p.resume()
		}
	})
}

func (p *proc) resume() {
	if !p.alive || !p.paused {
		return
	}
	p.w.say("%s goes on", p.name)
	p.paused, p.stood = false, max(p.stood, p.w.now.Sub(p.since))
	inbox := p.inbox
	p.inbox = nil
	first := p.w.chance(0.5)
	if first && p.node.nextWake() <= p.clock() {
		p.node.wake()
	}
	life := p.life
	for i, run := range inbox {
		if p.alive && p.life == life {
			run()
		}
		if i%8 == 7 && p.node.nextWake() <= p.clock() {
			p.node.wake()
		}
	}
	p.timer = mono.Never
	p.arm()
}

// kill ends the process. Its host tells the peers, unless it died with it.
func (p *proc) kill(host bool) {
	if !p.alive {
		return
	}
	p.w.say("%s is killed (with its host: %v)", p.name, host)
	p.node.stop()
	p.alive, p.off = false, host
	ends := p.ends
	p.ends = nil
	for _, e := range ends {
		e.open = false
		if host {
			other := e.peer
			p.ghosts = append(p.ghosts, other)
			p.w.after(p.w.span(200*mono.Millisecond, mono.Second), func() { other.finish("silent") })
		} else {
			e.sendFin()
		}
		e.unlist()
	}
	for _, k := range p.keepers {
		k.attempt++
	}
}

func (p *proc) hostUp() bool { return !p.off }

// wallBase is the true unix time at the world's beginning.
func (w *world) wallBase() int64 { return int64(1_800_000_000 * mono.Second) }
