package fakeverbs

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/symphony-serving/symphony/rdma"
)

// cq is a completion queue.
type cq struct {
	// Immutable.
	d     *device
	ch    *channel // nil: none
	depth int

	ready atomic.Int64 // len(entries), for a Poll that finds nothing. Written under the lock.

	// Guarded by the fabric's lock.
	entries []entry
	armed   bool
	overrun bool // entries were lost, and all further are
	qps     int  // uses by QPs: one for each of their queues
	closed  bool
}

// entry is a completion and the slots that it frees when it is polled.
type entry struct {
	rdma.Completion
	q     *queuePair
	taken *int
	slots int
}

// nonsense is what an entry in error says where nothing is defined.
const nonsense = 0xdeadbeef

// NewCQ makes a CQ of exactly depth entries; ch may be nil. See rdma.Device.
func (d *device) NewCQ(depth int, ch rdma.Channel) (rdma.CQ, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	const what = "make CQ"
	if err := d.usable(what); err != nil {
		return nil, err
	}
	if depth < 1 || depth > d.f.c.Attr.CQDepth {
		return nil, d.fail(what, fmt.Sprintf("a depth of %d is not in 1..%d", depth, d.f.c.Attr.CQDepth), syscall.EINVAL)
	}
	c := &cq{d: d, depth: depth}
	if ch != nil {
		own, ok := ch.(*channel)
		if !ok || own.d != d || own.closed {
			return nil, d.fail(what, "the channel is not an open one of this device", syscall.EINVAL)
		}
		c.ch = own
	}
	if d.nic.cqs() >= d.f.c.Attr.CQs {
		return nil, d.fail(what, fmt.Sprintf("there are %d already", d.f.c.Attr.CQs), syscall.ENOMEM)
	}
	if c.ch != nil {
		c.ch.cqs++
	}
	d.open.CQs++
	return c, nil
}

func (n *NIC) cqs() int {
	sum := 0
	for _, d := range n.devices {
		sum += d.open.CQs
	}
	return sum
}

// Poll takes completions. See rdma.CQ.
func (c *cq) Poll(dst []rdma.Completion, turns int) (int, error) {
	for ; turns > 1 && c.ready.Load() == 0; turns-- {
		runtime.Gosched()
	}
	if c.ready.Load() == 0 {
		return 0, nil
	}
	c.d.f.mu.Lock()
	defer c.d.f.mu.Unlock()
	if c.closed {
		return 0, c.d.fail("poll", "the CQ was closed", syscall.EINVAL)
	}
	n := min(len(dst), len(c.entries))
	for i, e := range c.entries[:n] {
		dst[i] = e.Completion
		*e.taken -= e.slots
	}
	c.entries = slices.Delete(c.entries, 0, n)
	c.ready.Store(int64(len(c.entries)))
	return n, nil
}

// Arm asks for an event with the next entry; those that are there bring none.
// See rdma.CQ.
func (c *cq) Arm() error {
	c.d.f.mu.Lock()
	defer c.d.f.mu.Unlock()
	switch {
	case c.closed:
		return c.d.fail("arm", "the CQ was closed", syscall.EINVAL)
	case c.ch == nil:
		return c.d.fail("arm", "the CQ has no channel", syscall.EINVAL)
	}
	c.armed = true
	return nil
}

// Close gives the CQ up. An event that is under way stays so. See rdma.CQ.
func (c *cq) Close() error {
	c.d.f.mu.Lock()
	defer c.d.f.mu.Unlock()
	switch {
	case c.closed:
		return c.d.fail("close CQ", "it was closed already", syscall.EINVAL)
	case c.qps > 0:
		return c.d.fail("close CQ", "QPs still use it", syscall.EBUSY)
	}
	c.closed = true
	c.ready.Store(1) // so that Poll looks, and says so
	if c.ch != nil {
		c.ch.cqs--
	}
	c.d.open.CQs--
	return nil
}

// push adds an entry. The lock is held.
func (c *cq) push(e entry) {
	if c.overrun {
		return
	}
	if len(c.entries) == c.depth {
		c.overrun = true
		c.d.report(rdma.Event{Kind: rdma.EventCQError})
		c.d.nic.each(func(q *queuePair) {
			if q.sendCQ == c || q.recvCQ == c {
				q.fail()
			}
		})
		return
	}
	c.entries = append(c.entries, e)
	c.ready.Store(int64(len(c.entries)))
	if c.armed {
		c.armed = false
		c.ch.events++
		c.ch.ring()
	}
}

// forget takes out what is of q. The lock is held.
func (c *cq) forget(q *queuePair) {
	c.entries = slices.DeleteFunc(c.entries, func(e entry) bool { return e.q == q })
	c.ready.Store(int64(len(c.entries)))
}
