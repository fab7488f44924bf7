package frontend

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What a group's loop does when another scheduler leads: the open requests of the group are sent to
// it, the earliest deadline first, in batches, each bound to the new leader's id of its model.
// Client.mu is held for a part of the table, or a batch, at a time: answers do not wait for it.
//
// Rejected: a list of what waits. It would need an entry taken out with each answer, on the path
// of every request; a look at the table costs some tens of microseconds, at a take-over.

const (
	// resendBatch is how many requests share a Send.
	resendBatch = 64
	// tablePart is how many slots are looked at under one lock.
	tablePart = 4096
	// fullPause is how long the loop waits where the link takes no more.
	fullPause = mono.Millisecond
	// lackPause is how long it waits where the leader does not serve all yet.
	lackPause = 10 * mono.Millisecond
)

// takeover is the loop's memory.
type takeover struct {
	seen    *reign // that was told in the log; nil: nobody led
	unsent  []unsent
	batch   []resent
	frames  []byte
	lacking []wire.RequestID
}

// unsent is a call that the reign does not have.
type unsent struct {
	deadline mono.Time
	id       wire.RequestID
}

// resent is a call that goes to it now, and what it was before.
type resent struct {
	id   wire.RequestID
	call call
	at   *reign
}

// outcome of a look at the table.
type resends struct {
	again int  // requests that had been sent before
	first int  // requests that had waited
	wait  int  // that wait on
	full  bool // the link takes no more now
}

// loop sends requests again until the client closes.
func (g *group) loop() {
	defer g.client.loops.Done()
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(g.pass().Std())
		select {
		case <-g.kick:
		case <-t.C:
		case <-g.client.stop:
			return
		}
	}
}

// pass does what there is to do, and says when to look again unless woken.
func (g *group) pass() mono.Dur {
	r := g.leads.Load()
	if r == nil {
		if g.seen != nil && !g.client.stopped() {
			g.client.log.Warn().Str("group", g.name).Msg("no scheduler of the group leads: its requests wait, up to their deadlines, for one that does")
		}
		g.seen = nil
		return 3600 * mono.Second
	}
	settled := r.settled() // see restsLater
	g.settle(r)
	var done resends
	if g.parked.Swap(false) || r != g.seen {
		done = g.resend(r)
		g.again.Add(float64(done.again))
	}
	if r != g.seen {
		g.client.log.Info().Str("group", g.name).Str("scheduler", r.uplink.address).Uint64("reign", uint64(r.epoch)).
			Int("sent_again", done.again).Int("had_waited", done.first).Int("wait", done.wait).Msg("a scheduler leads its group")
		g.seen = r
	}
	switch {
	case done.full:
		return fullPause
	case done.wait > 0 || g.held.Load() != nil || !settled:
		return lackPause
	}
	return 3600 * mono.Second
}

// settle lets the reign's own catalogue answer, once it serves what was served before, or the time
// for that is over.
func (g *group) settle(r *reign) {
	held, s := g.held.Load(), r.uplink.models.Load()
	if held == nil || s == nil {
		return
	}
	whole := s.covers(held)
	if !whole && !r.settled() {
		return
	}
	if !whole {
		now := mono.Now()
		g.before.Store(&earlier{held.names(now), now})
	}
	g.mu.Lock()
	if g.leads.Load() == r {
		g.held.Store(nil)
	}
	g.mu.Unlock()
	g.client.signal()
}

// covers reports whether s serves all that o does.
func (s *snapshot) covers(o *snapshot) bool {
	for _, shard := range o.shards {
		for name, v := range shard {
			now := s.of(name)
			for _, m := range v.all {
				if !m.ready() {
					continue
				}
				if now == nil {
					return false
				}
				if n := now.find(m.entry.Spec.Version); n == nil || !n.ready() {
					return false
				}
			}
		}
	}
	return true
}

// resend sends the reign what it does not have.
func (g *group) resend(r *reign) (done resends) {
	g.find(r)
	g.lacking = g.lacking[:0]
	for from := 0; from < len(g.unsent) && g.leads.Load() == r && !done.full; from += resendBatch {
		g.bind(r, g.unsent[from:min(from+resendBatch, len(g.unsent))])
		g.transmit(r, &done)
	}
	done.wait = len(g.unsent) - done.again - done.first
	if done.full || len(g.lacking) > 0 {
		g.parked.Store(true)
	}
	if r.settled() {
		for _, id := range g.lacking {
			g.client.elsewhere(id)
		}
	}
	return done
}

// find notes the group's calls that can go out and have not gone to the reign.
func (g *group) find(r *reign) {
	c, now := g.client, mono.Now()
	g.unsent = g.unsent[:0]
	for from, more := uint32(0), true; more; from += tablePart {
		c.mu.Lock()
		more = c.table.Span(from, from+tablePart, func(slot uint32, id wire.RequestID) {
			k := &c.open[slot]
			if k.at != r && k.model.uplink.group == g && k.submitted != 0 && k.deadline > now {
				g.unsent = append(g.unsent, unsent{k.deadline, id})
			}
		})
		c.mu.Unlock()
	}
	slices.SortFunc(g.unsent, func(a, b unsent) int { return cmp.Compare(a.deadline, b.deadline) })
}

// bind gives calls to the reign, under its ids of their models.
func (g *group) bind(r *reign, part []unsent) {
	c := g.client
	g.batch = g.batch[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range part {
		slot, open := c.table.Find(w.id)
		if !open || c.open[slot].at == r {
			continue // answered, or sent meanwhile
		}
		k := &c.open[slot]
		if k.model.uplink.group != g {
			continue
		}
		m := r.counterpart(k)
		if m == nil {
			g.lacking = append(g.lacking, w.id)
			continue
		}
		before := k.at
		k.again = k.again || before != nil
		k.model, k.at = m, r
		g.batch = append(g.batch, resent{w.id, *k, before})
	}
}

// transmit sends the batch; what the link does not take is put down again.
func (g *group) transmit(r *reign, done *resends) {
	c := g.client
	g.frames = g.frames[:0]
	for i := range g.batch {
		k := &g.batch[i]
		if data := c.arena.Bytes(k.call.slab); data != nil { // else it is answered
			g.frames = c.appendSubmit(g.frames, k.id, &k.call, data)
		}
	}
	if len(g.frames) == 0 {
		return
	}
	if err := r.a.link.Send(g.frames); errors.Is(err, transport.ErrFull) {
		g.putDown(r)
		done.full = true
		return
	}
	for i := range g.batch { // of a link that has just ended, too: then another reign follows
		if g.batch[i].call.again {
			done.again++
		} else {
			done.first++
		}
	}
}

func (g *group) putDown(r *reign) {
	c := g.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range g.batch {
		if slot, open := c.table.Find(g.batch[i].id); open && c.open[slot].at == r {
			c.open[slot].at = g.batch[i].at
		}
	}
}

// waiting is how many calls no reign has, for the metrics.
func (g *group) waiting() (n int) {
	c, r := g.client, g.leads.Load()
	for from, more := uint32(0), true; more; from += tablePart {
		c.mu.Lock()
		more = c.table.Span(from, from+tablePart, func(slot uint32, _ wire.RequestID) {
			if k := &c.open[slot]; (r == nil || k.at != r) && k.model.uplink.group == g && k.submitted != 0 {
				n++
			}
		})
		c.mu.Unlock()
	}
	return n
}

// elsewhere sends a call on that its group's leader does not serve, to another group or, where any
// version may answer, as another version; else it is answered.
func (c *Client) elsewhere(id wire.RequestID) {
	k, open := c.lookAt(id)
	if !open {
		return
	}
	if r := k.model.uplink.group.leads.Load(); r != nil && k.at == r {
		return // it is sent meanwhile
	}
	k.again = k.again || k.at != nil
	next, data := c.instead(&k), c.arena.Bytes(k.slab)
	if next == nil || data == nil {
		c.fail(id, wire.ReasonUnavailable)
		return
	}
	if a, waits := c.rebind(id, &k, next); a != nil {
		c.send(id, &k, a, data)
	} else if !waits {
		c.fail(id, wire.ReasonUnavailable)
	}
}
