package fakeverbs

import (
	"fmt"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// state of a QP.
type state string

const (
	stateReset state = "RESET"
	stateInit  state = "INIT"
	stateRTR   state = "RTR"
	stateRTS   state = "RTS"
	stateErr   state = "ERR"
)

// queuePair is a QP.
type queuePair struct {
	// Immutable.
	d              *device
	number         uint32
	c              rdma.QPConfig
	sendCQ, recvCQ *cq

	postsSends, postsReceives string // Immutable: how errors begin

	// Guarded by the fabric's lock.
	state   state
	access  rdma.Access
	peering rdma.Peering
	sending rdma.Sending
	sends   []work // the first is the one that executes
	recvs   []rdma.RecvWR
	quiet   int // unsignalled sends since the last that made an entry
	closed  bool

	sendsTaken, recvsTaken int // slots of the queues

	// Of the first send, while it cannot be executed.
	resume mono.Time // not before
	pauses int       // for want of a receive at the peer
	lost   bool      // the peer is out of reach
	timer  *time.Timer
}

// work is a posted send.
type work struct {
	rdma.SendWR
	due mono.Time
}

// NewQP makes a QP. See rdma.Device.
func (d *device) NewQP(c rdma.QPConfig) (rdma.QP, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	const what = "make QP"
	if err := d.usable(what); err != nil {
		return nil, err
	}
	sends, ok := c.SendCQ.(*cq)
	recvs, ok2 := c.RecvCQ.(*cq)
	a := d.f.c.Attr
	most := min(a.SGEs, len(rdma.SendWR{}.SGEs))
	switch {
	case !ok || !ok2 || sends.d != d || recvs.d != d || sends.closed || recvs.closed:
		return nil, d.fail(what, "its CQs are not open ones of this device", syscall.EINVAL)
	case c.SendDepth < 1 || c.RecvDepth < 1 || c.SendDepth > a.QPDepth || c.RecvDepth > a.QPDepth:
		return nil, d.fail(what, fmt.Sprintf("depths of %d and %d are not in 1..%d", c.SendDepth, c.RecvDepth, a.QPDepth), syscall.EINVAL)
	case c.SGEs < 1 || c.SGEs > most:
		return nil, d.fail(what, fmt.Sprintf("%d SGEs are not in 1..%d", c.SGEs, most), syscall.EINVAL)
	case len(d.nic.qps) >= a.QPs:
		return nil, d.fail(what, fmt.Sprintf("there are %d already", a.QPs), syscall.ENOMEM)
	}
	q := &queuePair{d: d, number: d.nic.freeQPN(), c: c, sendCQ: sends, recvCQ: recvs, state: stateReset}
	q.postsSends, q.postsReceives = fmt.Sprintf("post send to QP %#x", q.number), fmt.Sprintf("post receive to QP %#x", q.number)
	d.nic.qps[q.number] = q
	sends.qps++
	recvs.qps++
	d.open.QPs++
	return q, nil
}

// freeQPN gives the number that was unused longest: 24 bits, 0 and 1 are special.
func (n *NIC) freeQPN() uint32 {
	for {
		n.lastQPN = max((n.lastQPN+1)&0xffffff, firstQPN)
		if n.qps[n.lastQPN] == nil {
			return n.lastQPN
		}
	}
}

// Number: see rdma.QP.
func (q *queuePair) Number() uint32 { return q.number }

// Init, ReadyToReceive, ReadyToSend, Fail: see rdma.QP.
func (q *queuePair) Init(port int, access rdma.Access) error {
	return q.move(stateReset, stateInit, func() error {
		if port != 1 {
			return fmt.Errorf("there is no port %d: %w", port, syscall.EINVAL)
		}
		q.access = access
		return nil
	})
}

// ReadyToReceive checks what a kernel checks of the peering.
func (q *queuePair) ReadyToReceive(c rdma.Peering) error {
	return q.move(stateInit, stateRTR, func() error {
		f := q.d.f
		switch {
		case c.PSN > 0xffffff || c.QPN > 0xffffff:
			return fmt.Errorf("PSN %#x and QPN %#x have 24 bits: %w", c.PSN, c.QPN, syscall.EINVAL)
		case c.Port != 1 || c.GID != rdma.GID{} && (c.GIDIndex < 0 || c.GIDIndex >= len(q.d.nic.gids)):
			return fmt.Errorf("port %d has no GID %d: %w", c.Port, c.GIDIndex, syscall.EINVAL)
		case c.MTU < rdma.MTU256 || c.MTU > f.c.MTU:
			return fmt.Errorf("MTU %d is not in 1..%d: %w", c.MTU, f.c.MTU, syscall.EINVAL)
		case int(c.MaxReads) > f.c.Attr.ReadsServed:
			return fmt.Errorf("%d READs served are more than %d: %w", c.MaxReads, f.c.Attr.ReadsServed, syscall.EINVAL)
		case c.GID == (rdma.GID{}) && (c.LID == 0 || !f.c.InfiniBand):
			return fmt.Errorf("the peer's GID is zero: %w", syscall.EINVAL)
		}
		q.peering = c
		return nil
	})
}

// ReadyToSend checks what a kernel checks.
func (q *queuePair) ReadyToSend(c rdma.Sending) error {
	return q.move(stateRTR, stateRTS, func() error {
		most := q.d.f.c.Attr.ReadsStarted
		switch {
		case c.PSN > 0xffffff:
			return fmt.Errorf("PSN %#x has 24 bits: %w", c.PSN, syscall.EINVAL)
		case c.Timeout > 31 || c.Retry > 7 || c.RNRRetry > 7:
			return fmt.Errorf("timeout %d, retry %d, RNR retry %d exceed 31, 7, 7: %w", c.Timeout, c.Retry, c.RNRRetry, syscall.EINVAL)
		case int(c.MaxReads) > most:
			return fmt.Errorf("%d READs started are more than %d: %w", c.MaxReads, most, syscall.EINVAL)
		}
		q.sending = c
		return nil
	})
}

// move goes from one state to the next, if take agrees.
func (q *queuePair) move(from, to state, take func() error) error {
	q.d.f.mu.Lock()
	defer q.d.f.mu.Unlock()
	what := fmt.Sprintf("QP %#x to %s", q.number, to)
	if err := q.usable(what); err != nil {
		return err
	}
	if q.state != from {
		return q.d.fail(what, fmt.Sprintf("it is in %s, not in %s", q.state, from), syscall.EINVAL)
	}
	if err := take(); err != nil {
		return q.d.fail(what, "refused", err)
	}
	q.state = to
	return nil
}

// Fail flushes everything, also while the fabric is frozen.
func (q *queuePair) Fail() error {
	q.d.f.mu.Lock()
	defer q.d.f.mu.Unlock()
	if err := q.usable(fmt.Sprintf("QP %#x to ERR", q.number)); err != nil {
		return err
	}
	q.fail()
	return nil
}

// Close ends the QP and takes its entries out of the CQs. See rdma.QP.
func (q *queuePair) Close() error {
	q.d.f.mu.Lock()
	defer q.d.f.mu.Unlock()
	if q.closed {
		return q.d.fail(fmt.Sprintf("close QP %#x", q.number), "it was closed already", syscall.EINVAL)
	}
	q.closed = true
	q.sends, q.recvs = nil, nil
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, c := range []*cq{q.sendCQ, q.recvCQ} {
		c.forget(q)
		c.qps--
	}
	delete(q.d.nic.qps, q.number)
	delete(q.d.nic.faults, q.number)
	q.d.open.QPs--
	return nil
}

// usable says whether something can be asked of the QP. The lock is held.
func (q *queuePair) usable(what string) error {
	if q.closed {
		return q.d.fail(what, "it was closed", syscall.EINVAL)
	}
	return q.d.usable(what)
}
