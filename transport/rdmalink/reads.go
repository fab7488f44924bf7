package rdmalink

import (
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// reads is the table of a link's READs: those that the lane makes, those that wait
// until it may, and those that go over TCP.
//
// Invariants:
//  1. Each op that got in leaves once, and whoever took it out calls its Done,
//     outside the lock.
//  2. An op that a lost lane leaves is given to TCP; its Dst is written by one of
//     them at a time.
type reads struct {
	l    *link                    // Immutable.
	done func(id uint64, e error) // tcpDone, bound once

	mu      sync.Mutex // Guards what follows.
	slots   []readSlot
	free    []uint32
	queue   []uint32 // for the lane, first come first served
	lane    *lane    // nil: everything goes over TCP
	closed  error
	clock   transport.ReadClock
	scratch []transport.ReadOp
}

type readSlot struct {
	op    transport.ReadOp
	from  mono.Time
	busy  bool
	atTCP bool // the TCP link has it, and will call tcpDone
}

func (t *reads) init(l *link) { t.l, t.done = l, t.tcpDone }

// read takes ops in: all of them or none.
func (t *reads) read(ops []transport.ReadOp) error {
	if err := transport.CheckReads(ops, t.l.o.PayloadMax); err != nil {
		return transport.RefuseReads(ops, err)
	}
	if len(ops) == 0 {
		return nil
	}
	t.mu.Lock()
	err := t.closed
	if err == nil && len(t.slots)-len(t.free)+len(ops) > t.l.o.ReadsMax {
		err = transport.ErrFull
	}
	if err != nil {
		t.mu.Unlock()
		return transport.RefuseReads(ops, err)
	}
	byTCP := t.scratch[:0]
	t.scratch = nil // another's Read meanwhile makes its own
	now := mono.Now()
	for i := range ops {
		at := t.enter(ops[i], now)
		if t.lane != nil && t.lane.reaches(&ops[i]) {
			t.queue = append(t.queue, at)
		} else {
			byTCP = append(byTCP, t.overTCP(at))
		}
	}
	ln := t.lane
	t.mu.Unlock()
	if ln != nil {
		ln.flights.pump()
	}
	if len(byTCP) > 0 {
		err = t.l.tcp.Read(byTCP) // every Done is called in either case
		if len(byTCP) < len(ops) {
			err = nil // some are under way
		}
	}
	clear(byTCP)
	t.mu.Lock()
	t.scratch = byTCP
	t.mu.Unlock()
	return err
}

// enter takes a place. Caller holds mu.
func (t *reads) enter(op transport.ReadOp, now mono.Time) uint32 {
	if len(t.free) == 0 {
		t.slots = append(t.slots, readSlot{})
		t.free = append(t.free, uint32(len(t.slots)-1))
	}
	at := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.slots[at] = readSlot{op: op, from: now, busy: true}
	return at
}

// leave gives the place of an op that is over back. Caller holds mu.
func (t *reads) leave(at uint32, err error) transport.ReadOp {
	s := &t.slots[at]
	op := s.op
	if err == nil {
		t.clock.Add(len(op.Dst), mono.Now().Sub(s.from))
	}
	*s = readSlot{}
	t.free = append(t.free, at)
	return op
}

// overTCP is the op at a place, for the TCP link. Caller holds mu.
func (t *reads) overTCP(at uint32) transport.ReadOp {
	t.slots[at].atTCP = true
	op := t.slots[at].op
	op.Done, op.Token = t.done, uint64(at)
	return op
}

// tcpDone is the Done of what went over TCP.
func (t *reads) tcpDone(at uint64, err error) {
	t.mu.Lock()
	op := t.leave(uint32(at), err)
	t.mu.Unlock()
	if err == nil {
		t.l.n.counters.readsTCP.Add(1)
		t.l.n.counters.readBytesTCP.Add(uint64(len(op.Dst)))
	}
	op.Done(op.Token, err)
}

// use makes a lane the way of READs.
func (t *reads) use(ln *lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lane = ln
}

// reroute gives what a closed lane left to TCP.
func (t *reads) reroute(ln *lane) {
	t.mu.Lock()
	if t.lane == ln {
		t.lane = nil
	}
	left := ln.flights.left()
	left = append(left, t.queue...)
	t.queue = nil
	var ops []transport.ReadOp
	for _, at := range left {
		ops = append(ops, t.overTCP(at))
	}
	t.mu.Unlock()
	if len(ops) > 0 {
		t.l.n.counters.readsMoved.Add(uint64(len(ops)))
		_ = t.l.tcp.Read(ops) // every Done is called
	}
}

// close answers what still waits for a lane, and refuses the rest. What the TCP
// link has, or is just being given, it answers by itself: so the table stays.
func (t *reads) close(err error) {
	t.mu.Lock()
	t.closed = err
	var open []transport.ReadOp
	for i := range t.slots {
		if s := &t.slots[i]; s.busy && !s.atTCP {
			open = append(open, t.leave(uint32(i), err))
		}
	}
	t.queue = nil
	t.mu.Unlock()
	for i := range open {
		open[i].Done(open[i].Token, err)
	}
}

// reaches reports whether the lane can make the READ: from slabs that the peer
// offered, into memory that our device knows. A reference to anything else is not
// even tried: it would cost the lane.
func (ln *lane) reaches(op *transport.ReadOp) bool {
	s, in := &ln.peer.Slabs, &op.Input
	if s.Size == 0 || in.RKey != s.RKey || in.Handle.Index() >= ln.peer.Headers ||
		in.Address < s.Address || in.Address-s.Address > s.Size || uint64(in.Length) > s.Size-(in.Address-s.Address) ||
		pieces(len(op.Dst))+1 > ln.flights.depth {
		return false
	}
	_, ok := ln.l.n.cfg.NIC.LocalKey(op.Dst)
	return ok || len(op.Dst) == 0
}

// pieceMax is the largest single READ: devices have limits, and SENDs of the same
// queue pair get their turn between pieces.
const pieceMax = 1 << 20

func pieces(n int) int { return (n + pieceMax - 1) / pieceMax }
