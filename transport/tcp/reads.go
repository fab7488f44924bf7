package tcp

import (
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reads is the table of READs in flight: bounded, with a free list; a
// sequence number is a slot's index and its generation, so an answer given
// twice is noticed.
//
// Invariant: each op that got into the table leaves it once, and whoever took
// it out calls its Done, outside the lock.
type reads struct {
	most, payloadMax int // Immutable.

	mu      sync.Mutex // Guards what follows; held while the outbox is asked.
	slots   []readSlot
	free    []uint32
	closed  error
	scratch []byte
}

type readSlot struct {
	op         transport.ReadOp
	generation uint32
	busy       bool
}

// send queues ops as READ frames: all of them or none. On error every Done
// was called.
func (t *reads) send(ops []transport.ReadOp, out *transport.Outbox) error {
	if err := transport.CheckReads(ops, t.payloadMax); err != nil {
		return transport.RefuseReads(ops, err)
	}
	t.mu.Lock()
	err := t.sendLocked(ops, out)
	t.mu.Unlock()
	if err != nil {
		return transport.RefuseReads(ops, err)
	}
	out.Flush() // without the lock, which who takes a reply wants
	return nil
}

func (t *reads) sendLocked(ops []transport.ReadOp, out *transport.Outbox) error {
	if t.closed != nil {
		return t.closed
	}
	if len(t.slots)-len(t.free)+len(ops) > t.most {
		return transport.ErrFull
	}
	t.scratch = t.scratch[:0]
	for i := range ops {
		if len(t.free) == 0 {
			t.slots = append(t.slots, readSlot{})
			t.free = append(t.free, uint32(len(t.slots)-1))
		}
		at := t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		s := &t.slots[at]
		s.op, s.busy = ops[i], true
		s.generation++
		m := wire.Read{Sequence: uint64(s.generation)<<32 | uint64(at), Request: ops[i].Request, Input: ops[i].Input}
		t.scratch = m.Append(t.scratch)
	}
	if len(ops) == 0 {
		return nil
	}
	err := out.Later(t.scratch)
	if err != nil {
		for b := t.scratch; len(b) > 0; b = b[readFrame:] {
			var m wire.Read
			if m.Decode(b[wire.HeaderSize:readFrame]) == nil {
				t.leaveLocked(m.Sequence)
			}
		}
	}
	return err
}

// readFrame is the length of a READ frame.
const readFrame = wire.HeaderSize + 8 + 8 + 24

// take removes the op that a reply answers.
func (t *reads) take(sequence uint64) (transport.ReadOp, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leaveLocked(sequence)
}

func (t *reads) leaveLocked(sequence uint64) (transport.ReadOp, error) {
	at, generation := uint32(sequence), uint32(sequence>>32)
	if int(at) >= len(t.slots) || !t.slots[at].busy || t.slots[at].generation != generation {
		return transport.ReadOp{}, fmt.Errorf("%w: reply to a READ that is not open (sequence %#x)", transport.ErrProtocol, sequence)
	}
	s := &t.slots[at]
	op := s.op
	s.op, s.busy = transport.ReadOp{}, false
	t.free = append(t.free, at)
	return op, nil
}

// close answers everything that is open with err and refuses the rest.
func (t *reads) close(err error) {
	t.mu.Lock()
	t.closed = err
	slots := t.slots
	t.slots, t.free = nil, nil
	t.mu.Unlock()
	for i := range slots {
		if slots[i].busy {
			slots[i].op.Done(slots[i].op.Token, err)
		}
	}
}
