package rdma

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Retries and timeouts of every Conn: see doc.go.
const (
	ackTimeout = 14
	ackRetry   = 5
	rnrRetry   = 6
	minRNR     = 12 // 0.64 ms
)

// flushMax is how long Close waits for the device to flush what was posted.
const flushMax = 500 * time.Millisecond

// ErrDepth: more was posted than the send queue holds. Its user counts, so it is a bug.
var ErrDepth = errors.New("RDMA send queue is full")

// StatusError is a work request that ended in error.
type StatusError struct {
	Status Status
	Vendor uint32
}

// Error names the status.
func (e *StatusError) Error() string {
	if e.Vendor != 0 {
		return fmt.Sprintf("RDMA: %v (vendor code %#x)", e.Status, e.Vendor)
	}
	return "RDMA: " + e.Status.String()
}

// Handler takes what a Conn brings. See doc.go for who calls when.
type Handler interface {
	// Sent: the send with this ID is done. Its memory is free again.
	Sent(id uint32, err error)
	// Received: the posted receive with this ID is used up, n bytes came; where
	// written, n bytes were WRITten elsewhere and imm says where. On err: flushed.
	Received(id uint32, n int, imm uint32, written bool, err error)
	// Failed comes once, when the Conn has become unusable. Close it, from another goroutine.
	Failed(err error)
	// Turn ends a burst of the above.
	Turn()
}

// ConnConfig are a Conn's depths, in work requests.
type ConnConfig struct {
	SendDepth, RecvDepth int
	Access               Access // what the peer may do, by regions that allow it too
}

// Endpoint is what the other side must know to connect.
type Endpoint struct {
	QPN, PSN uint32
	GID      GID
	LID      uint16
	MTU      MTU
	MaxReads uint8 // READs that this side serves at a time
}

// Conn is a queue pair and the ledger of what was posted to it.
type Conn struct {
	// Immutable.
	nic     *NIC
	cfg     ConnConfig
	qp      QP
	queue   *queue
	handler Handler
	serial  uint32 // in the upper half of each ID: an old QP's entries are told from a new one's
	psn     uint32
	at      place

	touched  bool       // Owned by the poller.
	handling sync.Mutex // Held while handler is called.

	closing    sync.Once
	closeError error // what Close says

	mu       sync.Mutex // Guards what follows.
	sends    ledger
	refused  int   // at the end of sends: the device did not take them
	receives int   // posted, not completed
	failure  error // why nothing can be posted any more
	told     bool  // Failed was called
	closed   bool
	flushed  chan struct{} // not nil: Close waits; closed when nothing is outstanding
}

// NewConn makes a queue pair in INIT: receives can be posted.
func (n *NIC) NewConn(c ConnConfig, h Handler) (*Conn, error) {
	if most := n.attr.QPDepth; c.SendDepth > most || c.RecvDepth > most {
		return nil, fmt.Errorf("RDMA device %s: queues hold %d work requests, %d and %d are asked for: configure smaller depths", n.Name(), most, c.SendDepth, c.RecvDepth)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	if n.broken.Load() {
		return nil, fmt.Errorf("RDMA device %s has failed: start this process anew when it is back", n.Name())
	}
	at, err := n.locate(false)
	if err != nil {
		return nil, fmt.Errorf("RDMA device %s: %w", n.Name(), err)
	}
	n.at = at
	if open := len(*n.conns.Load()); open >= n.attr.QPs {
		return nil, fmt.Errorf("RDMA device %s: all of its %d queue pairs are in use", n.Name(), n.attr.QPs)
	}
	q, err := n.reserve(c.SendDepth + c.RecvDepth)
	if err != nil {
		return nil, err
	}
	qp, err := n.device.NewQP(QPConfig{SendCQ: q.cq, RecvCQ: q.cq, SendDepth: c.SendDepth, RecvDepth: c.RecvDepth, SGEs: 2})
	if err == nil {
		if err = qp.Init(n.cfg.Port, c.Access); err != nil {
			qp.Close()
		}
	}
	if err != nil {
		q.granted -= c.SendDepth + c.RecvDepth
		return nil, fmt.Errorf("RDMA device %s: queue pair: %w", n.Name(), err)
	}
	n.serial++
	conn := &Conn{nic: n, cfg: c, qp: qp, queue: q, handler: h, serial: n.serial, at: at, psn: rand.Uint32() & 0xffffff, sends: newLedger(c.SendDepth)}
	n.change(func(m map[uint32]*Conn) { m[qp.Number()] = conn })
	return conn, nil
}

// change replaces the table of Conns. Caller holds mu.
func (n *NIC) change(f func(map[uint32]*Conn)) {
	next := maps.Clone(*n.conns.Load())
	f(next)
	n.conns.Store(&next)
	n.channel.Wake() // the length of its sleep may have changed
}

// Local is what to tell the peer.
func (c *Conn) Local() Endpoint {
	return Endpoint{QPN: c.qp.Number(), PSN: c.psn, GID: c.at.gid, LID: c.at.port.LID, MTU: c.at.port.MTU, MaxReads: uint8(c.nic.ReadsAtOnce())}
}

// Connect brings the queue pair to RTS.
func (c *Conn) Connect(peer Endpoint) error {
	err := c.qp.ReadyToReceive(Peering{QPN: peer.QPN, PSN: peer.PSN, GID: peer.GID, LID: peer.LID, MTU: min(c.at.port.MTU, peer.MTU),
		Port: c.nic.cfg.Port, GIDIndex: c.at.index, MaxReads: uint8(c.nic.ReadsAtOnce()), MinRNR: minRNR, Class: c.nic.cfg.TrafficClass})
	if err == nil {
		err = c.qp.ReadyToSend(Sending{PSN: c.psn, Timeout: ackTimeout, Retry: ackRetry, RNRRetry: rnrRetry,
			MaxReads: min(peer.MaxReads, uint8(c.nic.ReadsAtOnce()))})
	}
	if err != nil {
		return fmt.Errorf("RDMA device %s: connecting queue pair %d with %d: %w", c.nic.Name(), c.qp.Number(), peer.QPN, err)
	}
	return nil
}

func (c *Conn) id(user uint32) uint64 { return uint64(c.serial)<<32 | uint64(user) }

// Post posts sends; IDs must fit in 31 bits, and differ from those of all that are
// outstanding. Without a later signal, a send completes at Close. With an error nothing is owed for
// wrs (ErrDepth, or the Conn had failed); nil: each completes once.
func (c *Conn) Post(wrs []SendWR) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure
	}
	if len(wrs) > c.sends.room() {
		return ErrDepth
	}
	now := mono.Now()
	for i := range wrs {
		c.sends.push(sent{id: uint32(wrs[i].ID), at: now})
		wrs[i].ID = c.id(uint32(wrs[i].ID))
	}
	if k, err := c.qp.PostSend(wrs); err != nil {
		// What was not posted stays at the ledger's end until Close completes it.
		c.refused = len(wrs) - k
		c.failLocked(fmt.Errorf("RDMA: post: %w", err))
	}
	return nil
}

// PostReceives posts receives; IDs must fit in 31 bits. nil: each completes, but
// those that the device does not flush when the Conn is closed.
func (c *Conn) PostReceives(wrs []RecvWR) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return c.failure
	}
	for i := range wrs {
		wrs[i].ID = c.id(uint32(wrs[i].ID) | recvBit)
	}
	k, err := c.qp.PostRecv(wrs)
	c.receives += k
	if err != nil {
		c.failLocked(fmt.Errorf("RDMA: post receive: %w", err))
	}
	return err
}

// Room is how many sends can be posted now.
func (c *Conn) Room() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sends.room()
}

// Fail ends the Conn's use: what is outstanding is flushed, the handler is told.
func (c *Conn) Fail(err error) { c.fail(err); c.nic.channel.Wake() }

func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Conn) failLocked(err error) {
	if c.failure == nil {
		c.failure = err
		c.qp.Fail() // an error means that it has failed already
	}
}
