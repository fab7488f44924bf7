package scaling

import "github.com/symphony-serving/symphony/transport/mono"

// Step ends the epoch if it is due, and decides. Call it after each Observe.
func (g *Group) Step(now mono.Time, out *Effects) {
	g.now = max(g.now, now)
	if g.begun == mono.Never {
		return
	}
	if g.now >= g.ends {
		g.close()
	}
	if g.stale {
		g.leave(out)
	}
	if !g.want.known || g.order.Try == 0 && g.now.Sub(g.begun) < g.cfg.CoolUp || g.cfg.Absolute && !g.settled() {
		return // those that are there come one by one
	}
	if g.cfg.Advises {
		return
	}
	t := g.tally()
	lingers := g.lingers()
	switch {
	case g.draining != mono.Never:
		g.drain(&t, out)
		return
	case g.short(&t) > 0:
		g.grow(&t, out)
	default:
		g.shrink(&t, out)
	}
	switch {
	case g.failed != "":
	case lingers != "":
		g.warn(stillText(lingers, g.order.Try), out)
	case t.pending > 0 && g.short(&t) > 0:
		if g.again == mono.Never {
			g.again = max(g.now, g.asked.Add(g.cfg.Lead))
		}
		g.warn(lateText(g, &t), out)
	default:
		g.again = mono.Never // all that was ordered is there, or not needed
		return
	}
	g.retry(&t, out)
}

// short is how many GPUs are missing and not expected, where those that the scaler was asked for
// count as long as they are not late.
func (g *Group) short(t *tally) int {
	coming := t.waited
	if g.punctual() {
		coming += t.pending
	}
	return g.want.least - t.gpus - coming*g.unit()
}

// settled: what was on its way when a controller began, by whosever order, has had its time to come.
// Until then the size leaves it out, and would end it where it is taken at its word.
func (g *Group) settled() bool {
	return g.begun != mono.Never && g.now.Sub(g.begun) >= max(g.cfg.CoolUp, g.cfg.Lead)
}

// punctual: what the scaler was asked for may still come in time.
func (g *Group) punctual() bool { return g.order.Try > 0 && g.now.Sub(g.first) < g.cfg.Lead }

// cool reports whether a change may follow the last one.
func (g *Group) cool(d mono.Dur) bool { return g.changed == mono.Never || g.now.Sub(g.changed) >= d }

// grow orders what is missing. Replicas that have died and do not come back take up room in the
// size, so others are ordered in their place; those that never came are part of the size already,
// and are asked for again (retry).
func (g *Group) grow(t *tally, out *Effects) {
	size := t.alive + t.dead + g.units(g.want.least-t.gpus-t.waited*g.unit())
	if size = min(size, g.cfg.Max/g.unit()); size <= g.size || g.awaited || !g.cool(g.cfg.CoolUp) {
		return
	}
	g.size, g.changed = size, g.now
	back := false
	for _, m := range g.members {
		if m.removed && g.ordered && m.ordinal < size { // it is to be there again
			m.removed, m.leaving, back = false, false, true
		}
	}
	if back {
		g.leave(out)
	}
	g.ask(out, Order{Size: size, Try: 1, Why: g.reason(t)})
}

// lingers is a replica that was to be removed and is still there; "": none.
func (g *Group) lingers() string {
	for _, m := range g.members {
		if m.removed && m.There > 0 {
			return m.Name
		}
	}
	return ""
}

// warn says once for each try that what was ordered has not come about.
func (g *Group) warn(text string, out *Effects) {
	if !g.awaited && g.now >= g.again && g.said < g.order.Try {
		g.said = g.order.Try
		out.Warnings = append(out.Warnings, text)
	}
}

// retry repeats the last order when it is time.
func (g *Group) retry(t *tally, out *Effects) {
	if g.awaited || g.now < g.again {
		return
	}
	o := g.order
	if o.Size != g.size { // it is of before this controller, or of others
		o = Order{Size: g.size, Why: g.reason(t)}
	}
	o.Try++
	g.ask(out, o)
}

// ask hands an order out.
func (g *Group) ask(out *Effects, o Order) {
	o.GPUs, o.Remove = o.Size*g.unit(), g.toRemove()
	if o.Try == 1 {
		g.first, g.said = g.now, 0
	}
	g.order, g.asked, g.awaited, g.failed = o, g.now, true, ""
	g.again = g.now.Add(g.backOff(g.cfg.Lead, o.Try))
	out.Scale = &o
}

// backOff doubles with each try.
func (g *Group) backOff(d mono.Dur, try int) mono.Dur {
	for range min(try-1, 20) {
		d = min(2*d, g.cfg.RetryMax)
	}
	return d
}

// failedFirst is before the first repetition of an order that failed at once.
const failedFirst = 10 * mono.Second

// Asked takes what came of an order. granted is the size that the scaler says there will be; 0: it does
// not say. failed is why it was not carried out.
func (g *Group) Asked(now mono.Time, o Order, granted int, failed string) {
	g.now = max(g.now, now)
	if !g.awaited || o.Size != g.order.Size || o.Try != g.order.Try {
		return
	}
	g.awaited, g.failed = false, failed
	if failed == "" && g.unmet { // so it is only now that something changes
		g.changed = g.now
	}
	g.unmet = failed != ""
	switch {
	case failed != "":
		g.again = g.now.Add(g.backOff(failedFirst, o.Try))
	case granted > 0 && granted != g.size:
		g.size, g.order.Size = granted, granted
	}
}

// leave tells who gets nothing new.
func (g *Group) leave(out *Effects) {
	out.Changed, out.Leave, g.stale = true, nil, false
	for _, m := range g.members {
		if m.leaving {
			out.Leave = append(out.Leave, m.Name)
		}
	}
}

// toRemove are the replicas that the scaler may remove, the highest first.
func (g *Group) toRemove() (names []string) {
	for i := len(g.members) - 1; i >= 0; i-- {
		if m := g.members[i]; m.removed {
			names = append(names, m.Name)
		}
	}
	return names
}

// Waiting reports whether an order's outcome is: Asked is to bring it.
func (g *Group) Waiting() bool { return g.awaited }
