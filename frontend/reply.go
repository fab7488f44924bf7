package frontend

import (
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// take closes an open call; false when another answer was faster.
func (c *Client) take(id wire.RequestID) (call, bool) {
	c.mu.Lock()
	slot, ok := c.table.Take(id)
	var k call
	if ok {
		k, c.open[slot] = c.open[slot], call{}
	}
	c.mu.Unlock()
	if ok {
		c.release(&k)
	}
	return k, ok
}

// release gives back what the call held. The slab's generation moves on, so
// a READ that comes now is refused.
func (c *Client) release(k *call) {
	c.arena.Free(k.slab)
	c.outputs.give(k.room)
	c.letGo(k)
	if k.stopCtx != nil {
		k.stopCtx()
	}
}

// fail answers a call with a reason.
func (c *Client) fail(id wire.RequestID, reason wire.Reason) {
	if k, ok := c.take(id); ok {
		c.answerError(&k, reason, id)
	}
}

// failWith answers a call with an error.
func (c *Client) failWith(id wire.RequestID, err *Error) {
	if k, ok := c.take(id); ok {
		k.model.metrics.count(err)
		k.done(nil, err)
	}
}

// answerError answers with a reason; id 0: it is not at hand.
func (c *Client) answerError(k *call, reason wire.Reason, id wire.RequestID) {
	err := reasonError(k.model.entry.Spec.Name, reason)
	if reason == wire.ReasonUnknownModel {
		if there := c.stillThere(k); there != nil {
			err = there
		}
	}
	if k.submitted != 0 {
		err.Frontend, err.Request = k.frontend(), id
	}
	k.sayInfeasible(err)
	k.sayDecoding(err)
	k.sayVacant(err)
	k.model.metrics.count(err)
	k.done(nil, err)
}

// frontend is the number that the call's scheduler knows this client by.
func (k *call) frontend() wire.FrontendID {
	if a := k.model.uplink.admitted.Load(); a != nil {
		return a.id
	}
	return 0
}

// sayVacant puts it in words when nobody led to whom a call could be sent.
func (k *call) sayVacant(err *Error) {
	if g := k.model.uplink.group; g.only == nil && err.Reason == wire.ReasonExpired && k.submitted != 0 && g.leads.Load() == nil {
		err.Msg += ": no scheduler of the group " + g.name + " leads"
	}
}

// failAll answers every open call, when the client ends.
func (c *Client) failAll(reason wire.Reason) { c.failOf(nil, reason) }

// failOf answers the open calls of a scheduler, when its link ends; nil: of all.
func (c *Client) failOf(u *uplink, reason wire.Reason) {
	c.mu.Lock()
	var slots []uint32
	if u == nil || len(c.uplinks) == 1 {
		slots = c.table.All(nil)
	} else {
		slots = c.table.Those(func(slot uint32) bool { return c.open[slot].model.uplink == u }, nil)
	}
	calls := c.collect(slots)
	c.mu.Unlock()
	for i := range calls {
		c.release(&calls[i])
		c.answerError(&calls[i], reason, 0)
	}
}

// failEffort answers the open calls of best effort, and takes them out of the schedulers' queues.
func (c *Client) failEffort(reason wire.Reason) {
	c.mu.Lock()
	var ids []wire.RequestID
	c.table.Span(0, uint32(len(c.open)), func(slot uint32, id wire.RequestID) {
		if c.open[slot].class == wire.ClassBestEffort {
			ids = append(ids, id)
		}
	})
	c.mu.Unlock()
	for _, id := range ids {
		if k, ok := c.take(id); ok {
			c.tellCancelled(id, &k)
			c.answerError(&k, reason, id)
		}
	}
}

// collect moves the calls of closed slots out. Caller holds mu.
func (c *Client) collect(slots []uint32) []call {
	calls := make([]call, 0, len(slots))
	for _, slot := range slots {
		calls = append(calls, c.open[slot])
		c.open[slot] = call{}
	}
	return calls
}

// wakeExpiry tells the expiry loop of an earlier deadline than it sleeps for.
// Caller holds mu.
func (c *Client) wakeExpiry() {
	if c.table.Next() < c.sleeps {
		c.sleeps = c.table.Next()
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// expireLoop answers calls whose time is over. It sleeps while none is open.
func (c *Client) expireLoop() {
	defer c.loops.Done()
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		now := mono.Now()
		c.mu.Lock()
		c.expired = c.table.Expire(now, c.expired[:0])
		calls := c.collect(c.expired)
		c.sleeps = c.table.Next()
		pause := c.sleeps.Sub(now)
		if c.sleeps == mono.Never {
			pause = 3600 * mono.Second
		}
		c.mu.Unlock()
		for i := range calls {
			c.release(&calls[i])
			c.answerError(&calls[i], calls[i].expiry(), 0)
		}
		t.Reset(pause.Std())
		select {
		case <-t.C:
		case <-c.wake:
		case <-c.stop:
			return
		}
	}
}

// expiry is why a call has no answer at its deadline.
func (k *call) expiry() wire.Reason {
	if k.held {
		return wire.ReasonIsolated
	}
	return wire.ReasonExpired
}

// awaits reports whether a call is open that an output of n bytes fits.
func (c *Client) awaits(id wire.RequestID, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, ok := c.table.Find(id)
	return ok && c.open[slot].model.outputs == n
}

// answer answers a call with what its backend sent; false: r was not used. The
// payload lies in r already, where it is an output that fits.
func (c *Client) answer(m *wire.Output, payload []byte, r *Response) bool {
	k, ok := c.take(m.Request)
	if !ok {
		return false // answered already: expired, cancelled, or run twice after a loss
	}
	if m.Reason == wire.ReasonExecution && m.Flags&wire.OutputAlone != 0 {
		c.failedAlone(&k, m.Request, payload)
		return false
	}
	if m.Reason != wire.ReasonNone {
		c.answerError(&k, m.Reason, m.Request)
		return false
	}
	if !k.model.read(payload, r) {
		err := k.misfit()
		k.model.metrics.count(err)
		k.done(nil, err)
		return false
	}
	now := mono.Now()
	ended := m.Start.Add(m.Execute)
	r.Version = k.model.entry.Spec.Version
	r.Frontend = k.frontend()
	r.Request, r.BatchSize, r.GPU = m.Request, int(m.BatchSize), int(m.Device)
	r.Preprocess, r.Fetch, r.Execute = k.preprocess.Std(), m.Fetch.Std(), m.Execute.Std()
	r.Queue = max(0, m.Start.Sub(k.submitted)-m.Fetch).Std()
	r.Reply = max(0, now.Sub(ended)).Std()
	r.Total, r.Slack = now.Sub(k.arrival).Std(), k.deadline.Sub(now).Std()
	r.Epoch, r.Batch, r.Cold = m.Epoch, m.Batch, m.Flags&wire.OutputCold != 0
	r.exchanged = m.Flags & (wire.OutputBefore | wire.OutputAfter)
	ready := m.Start
	if m.Epoch != 0 {
		ready = m.Ready
	}
	r.Times = Times{k.arrival, k.submitted, ready.Add(-m.Fetch), ready, m.Start, ended, now}
	k.model.metrics.served(r, now, k.trace)
	k.model.metrics.doubts.served(&k.graded)
	k.done(r, nil)
	return true
}
