package rdma

import (
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// take handles a run of this Conn's completions. On the polling thread.
func (c *Conn) take(all []Completion) {
	c.handling.Lock()
	defer c.handling.Unlock()
	if c.isClosed() {
		return // Close gave up waiting for these: what they are about may be gone
	}
	for i := range all {
		e := &all[i]
		if uint32(e.ID>>32) != c.serial {
			continue // of an earlier queue pair with the same number
		}
		var err error
		if e.Status != StatusOK {
			err = &StatusError{Status: e.Status, Vendor: e.Vendor}
			c.fail(err)
		}
		if id := uint32(e.ID); id&recvBit != 0 {
			c.received(e, id&^recvBit, err)
		} else {
			c.sentUpTo(id, err)
		}
	}
}

// recvBit tells receives from sends in an ID: entries in error do not say which
// they were.
const recvBit = 1 << 31

func (c *Conn) received(e *Completion, id uint32, err error) {
	c.mu.Lock()
	c.receives--
	c.mu.Unlock()
	c.handler.Received(id, int(e.Bytes), e.Imm, e.Kind == DidRecvImm && err == nil, err)
	c.checkFlushed()
}

// sentUpTo completes the ledger up to id: what was posted before it and has no
// entry of its own succeeded, since a queue pair completes in order.
func (c *Conn) sentUpTo(id uint32, err error) {
	for {
		c.mu.Lock()
		s, ok := c.sends.pop()
		c.mu.Unlock()
		if !ok {
			return // an entry that nobody posted: a device's bug; nothing is owed
		}
		if s.id == id {
			c.handler.Sent(id, err)
			c.checkFlushed()
			return
		}
		c.handler.Sent(s.id, nil)
	}
}

// turn ends a burst. On the polling thread.
func (c *Conn) turn() {
	c.handling.Lock()
	defer c.handling.Unlock()
	c.mu.Lock()
	tell, why, closed := c.failure != nil && !c.told, c.failure, c.closed
	c.told = c.told || tell
	c.mu.Unlock()
	if closed {
		return
	}
	if tell {
		c.handler.Failed(why)
	}
	c.handler.Turn()
}

// checkStuck fails a Conn whose oldest send has been out for too long, and tells a
// failure that came without a completion. On the polling thread.
func (c *Conn) checkStuck(now mono.Time, most mono.Dur) {
	c.mu.Lock()
	s, ok := c.sends.oldest()
	if ok && now.Sub(s.at) > most {
		c.failLocked(fmt.Errorf("RDMA: a send has not completed for %v: the device or the network hangs", most))
	}
	tell := c.failure != nil && !c.told
	c.mu.Unlock()
	if tell {
		c.turn()
	}
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// outstanding reports whether the device owes completions. Caller holds mu.
func (c *Conn) outstanding() bool { return c.sends.len() > c.refused || c.receives > 0 }

// checkFlushed tells Close that nothing is outstanding.
func (c *Conn) checkFlushed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flushed != nil && !c.outstanding() {
		close(c.flushed)
		c.flushed = nil
	}
}

// Close ends the queue pair: what had arrived is still handed out, what was posted
// completes (as flushed), then it is destroyed. Nothing calls the handler after,
// and no DMA comes. Not from the handler. Further calls wait for the first, and
// say the same.
func (c *Conn) Close() error {
	c.closing.Do(func() { c.closeError = c.close() })
	return c.closeError
}

func (c *Conn) close() error {
	c.mu.Lock()
	c.failLocked(ErrClosed)
	flushed := make(chan struct{})
	if !c.outstanding() {
		close(flushed)
	} else {
		c.flushed = flushed
	}
	c.mu.Unlock()
	c.nic.channel.Wake()
	limit := time.NewTimer(flushMax)
	defer limit.Stop()
	select {
	case <-flushed:
	case <-limit.C:
		c.nic.awaitPass() // what the device has handed out is taken, however slow the thread is
	}
	c.handling.Lock() // the polling thread is not in the handler, and will not be
	defer c.handling.Unlock()
	c.mu.Lock()
	c.closed, c.flushed = true, nil
	c.mu.Unlock()
	n := c.nic
	n.mu.Lock() // before the device may give its number to another
	n.change(func(m map[uint32]*Conn) { delete(m, c.qp.Number()) })
	n.mu.Unlock()
	err := c.qp.Close()
	n.mu.Lock()
	c.queue.granted -= c.cfg.SendDepth + c.cfg.RecvDepth
	n.mu.Unlock()
	for {
		c.mu.Lock()
		s, ok := c.sends.pop()
		c.mu.Unlock()
		if !ok {
			break
		}
		c.handler.Sent(s.id, &StatusError{Status: StatusFlushed})
	}
	return err
}
