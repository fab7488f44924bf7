package standby_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport/mono"
)

// plant is a bug put in on purpose, to see that the checkers find it.
type plant int

const (
	plantNone plant = iota
	plantPromiseBroken
	plantReignReused
	plantStaleTaken
	plantRunningIgnored
)

// newWorld makes a cluster of a random size.
func newWorld(seed uint64, bug plant) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 18)), plant: bug}
	w.net = network{w: w, paths: map[[2]*proc]*path{}}
	w.check = newChecker(w)
	gpus := 0
	for i := range 2 + w.rng.IntN(4) {
		n := &schedulerNode{index: i}
		n.p = w.newProc(fmt.Sprint("scheduler", i+1), n)
		w.schedulers = append(w.schedulers, n)
	}
	for i := range 1 + w.rng.IntN(8) {
		n := &backendNode{gpus: make([]*gpu, 1+w.rng.IntN(2))}
		n.p = w.newProc(fmt.Sprint("backend", i+1), n)
		w.backends = append(w.backends, n)
		gpus += len(n.gpus)
	}
	for i := range 1 + w.rng.IntN(4) {
		n := &frontendNode{}
		n.p = w.newProc(fmt.Sprint("frontend", i+1), n)
		w.frontends = append(w.frontends, n)
	}
	for _, n := range w.frontends {
		n.pause = mono.Dur(len(w.frontends)) * 12 * mono.Millisecond / mono.Dur(gpus)
		n.pause = max(n.pause, 6*mono.Millisecond)
	}
	for _, p := range w.procs {
		for i, s := range w.schedulers {
			if s.p != p {
				_, peer := p.node.(*schedulerNode)
				p.keepers = append(p.keepers, &keeper{from: p, to: s.p, place: i, quick: peer})
			}
		}
	}
	return w
}

// startAll starts all processes, one after the other.
func (w *world) startAll() {
	for _, p := range w.procs {
		w.after(w.span(0, 400*mono.Millisecond), func() {
			if !p.alive {
				p.start()
			}
		})
	}
}

// explore lives one history: a start, faults, their end, and what must hold then.
func (w *world) explore() {
	w.startAll()
	if w.chance(0.8) {
		w.run(mono.Time(w.span(400*mono.Millisecond, 1200*mono.Millisecond)))
	}
	faults := w.span(200*mono.Millisecond, 1500*mono.Millisecond)
	if w.chance(0.05) {
		faults = w.span(2*mono.Second, 6*mono.Second)
	}
	until := w.now.Add(faults)
	for range 2 + w.rng.IntN(14) {
		w.after(w.span(0, faults), func() { w.fault(until) })
	}
	w.run(until)
	w.heal()
	w.run(w.now.Add(mono.Second))
	if text := w.check.settled(); text != "" && w.broken == "" {
		w.fail("a second after all faults: %s", text)
	}
	w.check.calm = true
	w.stays(300 * mono.Millisecond)
	w.finish()
}

// stays lets time go by, in which nobody takes over.
func (w *world) stays(d mono.Dur) {
	before := w.check.tally.switches
	for end := w.now.Add(d); w.now < end && w.broken == ""; {
		w.run(w.now.Add(mono.Millisecond))
		if text := w.check.settled(); text != "" && w.broken == "" {
			w.fail("it did not stay so: %s", text)
		}
	}
	if w.check.tally.switches != before {
		w.fail("another one took over, and nothing was wrong")
	}
}

// finish lets the last requests have their answers.
func (w *world) finish() {
	for _, f := range w.frontends {
		f.next = mono.Never
	}
	w.run(w.now.Add(200 * mono.Millisecond))
	w.check.final()
}

// fault lets something go wrong, until when at the latest.
func (w *world) fault(until mono.Time) {
	lasts := w.span(mono.Millisecond, 800*mono.Millisecond)
	switch {
	case w.chance(0.5):
		lasts = w.span(mono.Millisecond, 40*mono.Millisecond)
	case w.chance(0.1):
		lasts = w.span(mono.Millisecond, 5*mono.Second)
	}
	lasts = min(lasts, until.Sub(w.now))
	p := w.victim()
	switch w.rng.IntN(10) {
	case 0, 1:
		p.pause(lasts)
	case 2:
		w.cut(p, w.procs[w.rng.IntN(len(w.procs))], lasts)
	case 3: // a process from a random part of the others
		for _, o := range w.procs {
			if o != p && w.chance(0.6) {
				w.cut(p, o, lasts)
			}
		}
	case 4:
		w.split(lasts)
	case 5:
		p.kill(w.chance(0.3))
		if _, ok := p.node.(*schedulerNode); ok && w.chance(0.3) && w.others(p) {
			p.forGood, p.off = true, false
			return
		}
		w.after(lasts, func() {
			if !p.alive && !p.forGood {
				p.start()
			}
		})
	case 6:
		if len(p.ends) > 0 {
			p.ends[w.rng.IntN(len(p.ends))].tear()
		}
	case 7:
		for _, path := range w.net.order {
			if w.chance(0.2) {
				path.slow = w.span(0, 30*mono.Millisecond)
				w.after(lasts, func() { path.slow = 0 })
			}
		}
	case 8:
		w.promote()
		if w.chance(0.5) { // people who do not agree, over a slow network
			for _, path := range w.net.order {
				if w.chance(0.3) {
					path.slow = w.span(0, 10*mono.Millisecond)
					w.after(lasts, func() { path.slow = 0 })
				}
			}
			for range w.rng.IntN(12) {
				w.after(w.span(0, 30*mono.Millisecond), w.promote)
			}
		}
	case 9:
		for _, s := range w.schedulers {
			s.p.do(s.p.life, func() {
				if s.core.StepDown(s.p.clock(), &s.out) == nil {
					w.check.tally.planned++
				}
				s.carryOut()
			})
		}
	}
}

// promote makes some scheduler take over.
func (w *world) promote() {
	s := w.schedulers[w.rng.IntN(len(w.schedulers))]
	s.p.do(s.p.life, func() {
		_ = s.core.Promote(s.p.clock(), &s.out)
		s.carryOut()
	})
}

// victim is a process, half of the time one that leads.
func (w *world) victim() *proc {
	for _, s := range w.schedulers {
		if s.p.alive && s.server.driving && w.chance(0.5) {
			return s.p
		}
	}
	return w.procs[w.rng.IntN(len(w.procs))]
}

// others reports whether another scheduler will be there.
func (w *world) others(p *proc) bool {
	for _, s := range w.schedulers {
		if s.p != p && !s.p.forGood {
			return true
		}
	}
	return false
}

// cut stops one direction or both.
func (w *world) cut(a, b *proc, d mono.Dur) {
	if a == b {
		return
	}
	both, one := w.chance(0.6), w.chance(0.5)
	for _, pair := range [][2]*proc{{a, b}, {b, a}} {
		if both || one == (pair[0] == a) {
			w.say("cut %s -> %s for %v", pair[0].name, pair[1].name, d)
			w.net.cut(pair[0], pair[1])
			w.after(d, func() { w.net.join(pair[0], pair[1]) })
		}
	}
}

// split divides all processes in two, or cuts two kinds of them from each other.
func (w *world) split(d mono.Dur) {
	side := map[*proc]bool{}
	kinds := w.chance(0.4)
	for _, p := range w.procs {
		_, scheduler := p.node.(*schedulerNode)
		if side[p] = w.chance(0.5); kinds {
			side[p] = scheduler
		}
	}
	if kinds && w.chance(0.4) { // all schedulers from each other
		for i, a := range w.schedulers {
			for _, b := range w.schedulers[i+1:] {
				w.cut(a.p, b.p, d)
			}
		}
		return
	}
	for i, a := range w.procs {
		for _, b := range w.procs[i+1:] {
			if side[a] != side[b] {
				w.cut(a, b, d)
			}
		}
	}
}

// heal ends all faults: cuts and pauses have ended by themselves.
func (w *world) heal() {
	w.say("all faults are over")
	for _, p := range w.net.order {
		p.slow = 0
	}
	for _, p := range w.procs {
		p.resume()
		p.off = false
		if !p.alive && !p.forGood {
			p.start()
		}
	}
}
