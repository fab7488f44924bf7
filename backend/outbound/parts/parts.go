// Package parts decides which part of which output a link gets next.
//
// A core: what waits for one link, in the order of deadlines. Outputs are handed over in parts of at
// most Size bytes, of which the link has about Window bytes at a time: so an output that is urgent
// waits for a window and not for the whole of a large one that came before it.
//
//	Add --> waits --Next--> the link has a part --Left--> ... --> over
//	          |  ^             |
//	          |  +---Handed----+ (the link refused it)
//	          +--Drop--> over, once the link has nothing of it any more
//
// Invariants:
//  1. The parts of an output are handed over in their order, without a gap.
//  2. A slot is free again when its output waits no more and the link has nothing of it.
//  3. The link has at most Window bytes, or one part; outputs of at most Small bytes may be handed
//     over up to twice the Window, for waiting would gain nothing by them.
//
// Rejected: turns for all outputs that wait (each of n large ones would take n times as long, and most
// would miss their deadlines where the first ones could have met them).
package parts

import (
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Bounds of a queue. At 1 Gbit/s a window takes 4 ms, at 100 Gbit/s a part 20 us.
const (
	Size   = 256 << 10 // bytes of a part, at most
	Window = 2 * Size
	Small  = 16 << 10
	Max    = 1 << 16 // outputs that wait
)

// Queue is what waits for one link. The zero Queue is empty.
type Queue struct {
	waiting pq.Heap // slots with parts that are to be handed over, by deadline
	slots   []slot
	free    []uint32
	flying  int // bytes that the link has
}

// slot is an output.
type slot struct {
	deadline mono.Time
	size     int  // bytes of it; 0: a frame without payload
	next     int  // bytes that were handed over
	parts    int  // parts of it that the link has
	handing  bool // one is being handed over: see Handed
}

// Part is bytes From to To of the output in Slot.
type Part struct {
	Slot     uint32
	From, To int
}

// Len is how many outputs wait or are with the link.
func (q *Queue) Len() int { return len(q.slots) - len(q.free) }

// Flying is how many bytes the link has.
func (q *Queue) Flying() int { return q.flying }

// Add takes an output of size bytes; false: Max of them are there.
func (q *Queue) Add(size int, deadline mono.Time) (uint32, bool) {
	if q.Len() >= Max {
		return 0, false
	}
	var id uint32
	if n := len(q.free); n > 0 {
		id, q.free = q.free[n-1], q.free[:n-1]
	} else {
		id = uint32(len(q.slots))
		q.slots = append(q.slots, slot{})
	}
	q.slots[id] = slot{deadline: deadline, size: size}
	q.waiting.Set(id, int64(deadline))
	return id, true
}

// Next hands the next part over; false: nothing waits, or the link has enough.
func (q *Queue) Next() (p Part, ok bool) {
	if q.waiting.Len() == 0 {
		return Part{}, false
	}
	id, _ := q.waiting.Min()
	s := &q.slots[id]
	n := min(s.size-s.next, Size)
	room := Window
	if s.size <= Small {
		room = 2 * Window
	}
	if q.flying > 0 && q.flying+n > room {
		return Part{}, false
	}
	p = Part{id, s.next, s.next + n}
	s.next += n
	q.flying += n
	s.parts++
	s.handing = true
	if s.next == s.size {
		q.waiting.Remove(id)
	}
	return p, true
}

// Handed follows each Next: whether the link took the part. One that it refused waits again; Left was called for it.
// Until then the output is not over: Left may be called before the link has returned.
func (q *Queue) Handed(p Part, taken bool) (over bool) {
	s := &q.slots[p.Slot]
	s.handing = false
	if !taken {
		s.next = p.From
		q.waiting.Set(p.Slot, int64(s.deadline))
	}
	return q.settle(p.Slot)
}

// Left says that the link has a part of the output no more, its last part or another one, and reports whether the
// output is over.
func (q *Queue) Left(id uint32, last bool) (over bool) {
	s := &q.slots[id]
	n := Size
	if last {
		n = s.size - Last(s.size)
	}
	q.flying -= n
	s.parts--
	return q.settle(id)
}

// Last is where the last part of an output of size bytes begins.
func Last(size int) int { return max(0, size-1) / Size * Size }

// Drop gives an output up. begun: parts of it were handed over. It is over once the link has none.
func (q *Queue) Drop(id uint32) (begun, over bool) {
	q.waiting.Remove(id)
	begun = q.slots[id].next > 0
	return begun, q.settle(id)
}

// settle frees a slot whose output is over.
func (q *Queue) settle(id uint32) bool {
	if s := &q.slots[id]; q.waiting.Has(id) || s.parts > 0 || s.handing {
		return false
	}
	q.free = append(q.free, id)
	return true
}

// First is the output with the earliest deadline of those with parts to be handed over; false: there is none.
func (q *Queue) First() (id uint32, deadline mono.Time, ok bool) {
	if q.waiting.Len() == 0 {
		return 0, 0, false
	}
	id, at := q.waiting.Min()
	return id, mono.Time(at), true
}
