package inflight

import (
	"math/rand/v2"
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
