package frontend

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/sampled"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A call whose context is cancelled, or that Cancel names, is answered at once, and its slab is free. The scheduler is told, so
// that it gives the place in a batch to somebody who waits. (A context's deadline it knows already: it
// is the request's.)
//
// A Cancel must not overtake its Submit, which would be queued for nobody. So a call is watched once it
// was sent; where somebody else sends it later (its image is decoded first), he looks again
// afterwards (sent). What is sent anew while another scheduler takes over, or while its model moves, may
// be overtaken: it is a place in a batch, no wrong answer, since the slab's generation has moved on.

// Cancel ends a request that nobody waits for any more, as the end of its context does: for those who find
// out by themselves, and would make a context for each request to no use. id is what Request.ID was told; one that was
// answered is none of a later request's.
func (c *Client) Cancel(id wire.RequestID) {
	if k, ok := c.take(id); ok {
		c.tellCancelled(id, &k)
		c.answerError(&k, wire.ReasonCancelled, id)
	}
}

// watch tells who may cancel the call which it is, and ends it when its context ends.
func (c *Client) watch(ctx context.Context, told *atomic.Uint64, id wire.RequestID) {
	if told != nil {
		told.Store(uint64(id))
	}
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.fail(id, wire.ReasonExpired)
			return
		}
		c.Cancel(id)
	})
	c.mu.Lock()
	if slot, open := c.table.Find(id); open {
		c.open[slot].stopCtx = stop
		stop = nil
	}
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// sent looks after a call that was watched before it was sent.
func (c *Client) sent(id wire.RequestID, k *call) {
	c.mu.Lock()
	_, open := c.table.Find(id)
	c.mu.Unlock()
	if !open && k.deadline > mono.Now() {
		c.tellCancelled(id, k)
	}
}

// tellCancelled tells the scheduler that the call was sent to, if it was and can be told. Where the link
// is full the request runs, and its answer is discarded; that is counted. A link that has ended ends its requests itself.
func (c *Client) tellCancelled(id wire.RequestID, k *call) {
	if k.submitted == 0 {
		return
	}
	a := k.model.uplink.admitted.Load()
	if k.model.uplink.group.only == nil {
		if k.at == nil {
			return
		}
		a = k.at.a
	}
	if a == nil || a.link.Peer().Features&wire.FeatureCancel == 0 {
		return
	}
	f, _ := c.frames.Get().(*submitFrame)
	if f == nil {
		f = new(submitFrame)
	}
	m := wire.Cancel{Request: id, Model: k.model.entry.ID, Deadline: k.deadline.Add(-c.margin)}
	err := a.link.Send(m.Append(f[:0]))
	c.frames.Put(f)
	if errors.Is(err, transport.ErrFull) {
		c.metrics.cancels.Inc()
		c.cancels.Add(k.model.uplink.address)
	}
}

// newCancels logs the schedulers that could not be told.
func newCancels(log zerolog.Logger) *sampled.Log[string] {
	return sampled.New(sampled.Span, func(scheduler string, left int) {
		log.Warn().Str("scheduler", scheduler).Int("and_others", left).Msg("the link to the scheduler is full, and did not take that a request was cancelled: the request runs, and its answer is discarded")
	})
}
