package scaling

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Replicas go in two steps. First their GPUs drain: they get nothing new, and what they have is ended,
// as the roll-out's limits allow. Only then is the scaler asked for a smaller size. Until that moment
// all can be called off.

// shrink begins to drain what is to spare.
func (g *Group) shrink(t *tally, out *Effects) {
	if g.awaited || !g.cool(g.cfg.CoolDown) || g.now.Sub(g.begun) < g.cfg.CoolDown || t.waited > 0 || t.pending > 0 && g.punctual() {
		return
	}
	who, n := g.spare(t)
	if n == 0 {
		return
	}
	g.changed, g.draining, g.target = g.now, g.now, g.size-n
	for _, m := range who {
		m.leaving = true
	}
	g.leave(out)
	out.Notes = append(out.Notes, drainText(g, who, n))
	g.finish(false, out)
}

// spare are the replicas that can go, the highest first, and how many they are with those that
// were never seen: as many as leave what is wanted in place, of replicas that have served for long.
func (g *Group) spare(t *tally) (who []*member, n int) {
	needed := 0.0 // now: the last epoch may not know it yet
	for _, p := range g.parts {
		needed += max(p.need, p.last.Need)
	}
	least, stable := g.units(g.want.floor), t.stable
	for _, m := range g.fromTheTop(t.pending) {
		if g.size-n <= least || m != nil && m.Fixed {
			break
		}
		if m != nil && g.alive(m) {
			if g.stable(m) {
				stable -= m.There
			}
			if stable < g.want.most || float64(stable) < needed {
				break
			}
		}
		if n++; m != nil {
			who = append(who, m)
		}
	}
	return who, n
}

// fromTheTop are those that may go, in the order in which they do; nil: one that was never seen. Of
// a StatefulSet the highest ordinals. Else first what does not serve, then the highest names.
func (g *Group) fromTheTop(pending int) (out []*member) {
	stay := slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return m.leaving })
	slices.Reverse(stay)
	if g.ordered {
		for ordinal := g.size - 1; ordinal >= 0; ordinal-- {
			for len(stay) > 0 && stay[0].ordinal > ordinal { // beyond what the scaler granted
				stay = stay[1:]
			}
			if len(stay) > 0 && stay[0].ordinal == ordinal {
				out, stay = append(out, stay[0]), stay[1:]
			} else {
				out = append(out, nil)
			}
		}
		return out
	}
	out = make([]*member, pending)
	for _, alive := range [...]bool{false, true} {
		for _, m := range stay {
			if g.alive(m) == alive {
				out = append(out, m)
			}
		}
	}
	return out
}

// drain waits until what is to go has nothing left, and calls off what is needed again.
func (g *Group) drain(t *tally, out *Effects) {
	if missing := g.want.least - t.gpus; missing > 0 && g.callOff(missing, out) {
		return
	}
	g.finish(g.now.Sub(g.draining) >= g.cfg.Drain, out)
}

// callOff has replicas serve on, the lowest first. It tells whether none is left to go.
func (g *Group) callOff(gpus int, out *Effects) (all bool) {
	n, left := 0, 0
	for _, m := range g.members {
		switch {
		case !m.leaving || m.removed:
		case gpus > 0 && m.There > 0:
			gpus -= m.There
			g.back(m)
			n++
		default:
			left++
		}
	}
	if n > 0 {
		g.changed = g.now
		g.leave(out)
		out.Notes = append(out.Notes, backText(g, n, "needed again"))
	}
	if left == 0 {
		g.draining = mono.Never
	}
	return left == 0
}

// back has a replica stay.
func (g *Group) back(m *member) {
	m.leaving = false
	if g.ordered {
		g.target = max(g.target, m.ordinal+1)
	} else {
		g.target++
	}
}

// finish asks the scaler to remove what has drained: all of it, or, where that is late, as much of it
// from the top as has. The rest serves on.
func (g *Group) finish(late bool, out *Effects) {
	var going []*member // the highest first
	waits := false
	for i := len(g.members) - 1; i >= 0; i-- {
		if m := g.members[i]; m.leaving && !m.removed {
			going, waits = append(going, m), waits || m.Left > 0
		}
	}
	if waits && !late {
		return
	}
	kept := 0
	for _, m := range going {
		if m.Left > 0 || kept > 0 && g.ordered {
			g.back(m)
			kept++
			continue
		}
		m.removed = true
	}
	g.draining = mono.Never
	if kept > 0 {
		g.changed = g.now
		out.Warnings = append(out.Warnings, backText(g, kept, "not drained within "+span(g.cfg.Drain)))
	}
	g.leave(out)
	if g.target < g.size {
		g.size, g.changed = g.target, g.now
		t := g.tally()
		g.ask(out, Order{Size: g.size, Try: 1, Why: g.reason(&t)})
	}
	g.forget()
}
