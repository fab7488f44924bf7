// Package inflight is the frontend's memory of open requests: which ids are
// open, until when, and which reply belongs to which.
//
// A core: `now` is handed in. Each id that Add gave is taken out exactly once:
// by Take (an answer came), Expire (its time is over), Those or All (a link is
// gone). A late or second answer finds nothing.
//
// An id is its slot in the low bits and a serial above them, so that an answer
// finds its slot without a map and a slot's next life has another id.
package inflight

import (
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// slotBits bounds the table: 16 M open requests.
const slotBits = 24

// SlotsMax is the largest table.
const SlotsMax = 1 << slotBits

// Table is a bounded table of open requests. The caller keeps what belongs to
// a request in an array of its own, by slot.
type Table struct {
	ids    []wire.RequestID // 0: free
	free   []uint32
	used   uint32  // slots from here on never had a request
	expiry pq.Heap // slot -> deadline
	serial uint64
}

// New makes a table for n requests. start makes the ids of this process unlike
// those of its forerunner.
func New(n int, start uint64) *Table {
	t := &Table{ids: make([]wire.RequestID, n), free: make([]uint32, 0, n), serial: start << slotBits >> slotBits}
	for i := n - 1; i >= 0; i-- {
		t.free = append(t.free, uint32(i))
	}
	return t
}

// Len is the number of open requests.
func (t *Table) Len() int { return len(t.ids) - len(t.free) }

// Add opens a request that expires at deadline; false when the table is full.
func (t *Table) Add(deadline mono.Time) (id wire.RequestID, slot uint32, ok bool) {
	if len(t.free) == 0 {
		return 0, 0, false
	}
	slot = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.serial++
	id = wire.RequestID(t.serial<<slotBits | uint64(slot))
	if id == 0 {
		t.serial++
		id = wire.RequestID(t.serial<<slotBits | uint64(slot))
	}
	t.ids[slot] = id
	t.used = max(t.used, slot+1)
	t.expiry.Set(slot, int64(deadline))
	return id, slot, true
}

// Find is the request's slot, if it is open.
func (t *Table) Find(id wire.RequestID) (slot uint32, ok bool) {
	slot = uint32(id & (SlotsMax - 1))
	return slot, id != 0 && int(slot) < len(t.ids) && t.ids[slot] == id
}

// Take closes a request; false when it is not open (any more).
func (t *Table) Take(id wire.RequestID) (slot uint32, ok bool) {
	slot, ok = t.Find(id)
	if ok {
		t.close(slot)
	}
	return slot, ok
}

func (t *Table) close(slot uint32) {
	t.ids[slot] = 0
	t.expiry.Remove(slot)
	t.free = append(t.free, slot)
}

// Expire closes the requests whose time is over and appends their slots.
func (t *Table) Expire(now mono.Time, slots []uint32) []uint32 {
	for t.expiry.Len() > 0 {
		slot, at := t.expiry.Min()
		if at > int64(now) {
			break
		}
		t.close(slot)
		slots = append(slots, slot)
	}
	return slots
}

// All closes every request and appends the slots, the earliest deadline first.
func (t *Table) All(slots []uint32) []uint32 { return t.Expire(mono.Never, slots) }

// Those closes the requests of the slots that is says, and appends these.
func (t *Table) Those(is func(slot uint32) bool, slots []uint32) []uint32 {
	for i, id := range t.ids {
		if slot := uint32(i); id != 0 && is(slot) {
			t.close(slot)
			slots = append(slots, slot)
		}
	}
	return slots
}

// Span calls f for the open requests of the slots from up to to, and reports whether there may be
// any beyond.
func (t *Table) Span(from, to uint32, f func(slot uint32, id wire.RequestID)) bool {
	end := min(to, t.used)
	for slot := from; slot < end; slot++ {
		if id := t.ids[slot]; id != 0 {
			f(slot, id)
		}
	}
	return to < t.used
}

// Next is when the next request expires; Never when none is open.
func (t *Table) Next() mono.Time {
	if t.expiry.Len() == 0 {
		return mono.Never
	}
	_, at := t.expiry.Min()
	return mono.Time(at)
}
