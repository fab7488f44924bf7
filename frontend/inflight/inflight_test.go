package inflight

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Each id leaves exactly once, whatever the order of answers and expiries.
func TestEachLeavesOnce(t *testing.T) {
	const seed = 9
	r := rand.New(rand.NewPCG(seed, 0))
	table := New(64, r.Uint64())
	open := map[wire.RequestID]mono.Time{}
	bySlot := map[uint32]wire.RequestID{}
	leave := func(slot uint32) {
		id := bySlot[slot]
		if _, ok := open[id]; !ok {
			t.Fatalf("seed %d: id %x left twice", seed, id)
		}
		delete(open, id)
	}
	var answered []wire.RequestID
	for now := mono.Time(0); now < 30000; now++ {
		if id, slot, ok := table.Add(now.Add(mono.Dur(r.IntN(200)))); ok {
			if _, again := open[id]; again {
				t.Fatalf("seed %d: id %x given twice", seed, id)
			}
			open[id], bySlot[slot] = now, id
			answered = append(answered, id)
		} else if len(open) != 64 {
			t.Fatalf("seed %d: full with %d open", seed, len(open))
		}
		if id := answered[r.IntN(len(answered))]; r.IntN(2) == 0 {
			_, was := open[id]
			slot, ok := table.Take(id)
			if ok != was {
				t.Fatalf("seed %d: Take %x: %v, open %v", seed, id, ok, was)
			}
			if ok {
				leave(slot)
			}
		}
		for _, slot := range table.Expire(now, nil) {
			leave(slot)
		}
		if table.Len() != len(open) || table.Next() <= now {
			t.Fatalf("seed %d: %d open, want %d; next expiry %v at %v", seed, table.Len(), len(open), table.Next(), now)
		}
	}
	for _, slot := range table.All(nil) {
		leave(slot)
	}
	if len(open) != 0 || table.Next() != mono.Never {
		t.Fatalf("seed %d: %d left over", seed, len(open))
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	table := New(16, 1)
	slots := make([]uint32, 0, 16)
	now := mono.Time(0)
	if n := testing.AllocsPerRun(1000, func() {
		now++
		id, _, _ := table.Add(now.Add(5))
		table.Take(id)
		table.Add(now)
		slots = table.Expire(now, slots[:0])
	}); n != 0 {
		t.Fatalf("%v allocations, want 0", n)
	}
}

// Span visits each open request once, part by part, and ends where no slot was ever used.
func TestSpan(t *testing.T) {
	table := New(100, 1)
	want := map[uint32]wire.RequestID{}
	for i := range 10 {
		id, slot, _ := table.Add(mono.Time(100 + i))
		if want[slot] = id; i%3 == 0 {
			table.Take(id)
			delete(want, slot)
			table.free = append([]uint32{slot}, table.free[:len(table.free)-1]...) // not used again at once
		}
	}
	got := map[uint32]wire.RequestID{}
	parts := 0
	for from, more := uint32(0), true; more; from += 4 {
		more = table.Span(from, from+4, func(slot uint32, id wire.RequestID) { got[slot] = id })
		parts++
	}
	if !maps.Equal(got, want) || parts != 3 {
		t.Errorf("%v in %d parts, want %v in 3", got, parts, want)
	}
	if New(8, 1).Span(0, 8, func(uint32, wire.RequestID) { t.Error("a request in an empty table") }) {
		t.Error("more of an empty table")
	}
}

// Those closes what it is asked to, and nothing else: the others keep slot and deadline.
func TestThose(t *testing.T) {
	table := New(8, 1)
	ids := map[uint32]wire.RequestID{}
	for i := range 6 {
		id, slot, _ := table.Add(mono.Time(100 + i))
		ids[slot] = id
	}
	odd := func(slot uint32) bool { return slot%2 == 1 }
	if got := table.Those(odd, nil); !slices.Equal(got, []uint32{1, 3, 5}) || table.Len() != 3 {
		t.Fatalf("closed %v, %d are open", got, table.Len())
	}
	for slot, id := range ids {
		if _, open := table.Find(id); open == odd(slot) {
			t.Errorf("slot %d: open %v", slot, open)
		}
	}
	if got := table.Those(odd, nil); got != nil {
		t.Errorf("closed again: %v", got)
	}
	if got := table.Expire(102, nil); !slices.Equal(got, []uint32{0, 2}) || table.Next() != 104 {
		t.Errorf("expired %v, next %v", got, table.Next())
	}
}
