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
	if k.stopCtx != nil {
		k.stopCtx()
	}
}

// fail answers a call with a reason.
func (c *Client) fail(id wire.RequestID, reason wire.Reason) {
	if k, ok := c.take(id); ok {
		c.answerError(&k, reason)
	}
}

// failWith answers a call with an error.
func (c *Client) failWith(id wire.RequestID, err *Error) {
	if k, ok := c.take(id); ok {
		k.model.metrics.count(err)
		k.done(nil, err)
	}
}

func (c *Client) answerError(k *call, reason wire.Reason) {
	err := reasonError(k.model.entry.Spec.Name, reason)
	k.model.metrics.count(err)
	k.done(nil, err)
}

// failAll answers every open call, when the link or the client ends.
func (c *Client) failAll(reason wire.Reason) {
	c.mu.Lock()
	slots := c.table.All(nil)
	calls := c.collect(slots)
	c.mu.Unlock()
	for i := range calls {
		c.release(&calls[i])
		c.answerError(&calls[i], reason)
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
			c.answerError(&calls[i], wire.ReasonExpired)
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

// destination makes room for a call's output; nil when nobody waits for it.
func (c *Client) destination(id wire.RequestID, n int) []byte {
	c.mu.Lock()
	slot, ok := c.table.Find(id)
	fits := ok && (c.open[slot].model.outputs < 0 || c.open[slot].model.outputs == n)
	c.mu.Unlock()
	if !fits {
		return nil // what lies in the link's own buffer is refused by output
	}
	return make([]byte, n) // becomes the Response's tensors
}

// output answers a call with what its backend sent.
func (c *Client) output(m *wire.Output, payload []byte) {
	k, ok := c.take(m.Request)
	if !ok {
		return // answered already: expired, cancelled, or run twice after a loss
	}
	if m.Reason != wire.ReasonNone {
		c.answerError(&k, m.Reason)
		return
	}
	tensors, fits := k.model.read(payload)
	if !fits {
		err := &Error{Kind: ErrFailed, Reason: wire.ReasonExecution, Model: k.model.entry.Spec.Name, Msg: "the output does not fit the catalogue"}
		k.model.metrics.count(err)
		k.done(nil, err)
		return
	}
	now := mono.Now()
	ended := m.Start.Add(m.Execute)
	r := &Response{Outputs: tensors, BatchSize: int(m.BatchSize), GPU: int(m.Device),
		Preprocess: k.preprocess.Std(), Fetch: m.Fetch.Std(), Execute: m.Execute.Std(),
		Queue: max(0, m.Start.Sub(k.submitted)-m.Fetch).Std(),
		Reply: max(0, now.Sub(ended)).Std(), Total: now.Sub(k.arrival).Std(), Slack: k.deadline.Sub(now).Std()}
	k.model.metrics.served(r)
	k.done(r, nil)
}
