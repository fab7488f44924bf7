package devices

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What is idle, and how many others are free by an instant, is what a look at each GPU says.
func TestIdleAgainstEach(t *testing.T) {
	const gpus = 150
	r := rand.New(rand.NewPCG(3, 4))
	table := New(Config{})
	lives, batches := make([]Life, gpus), make([]wire.BatchID, gpus)
	next := wire.BatchID(0)
	for step := range 20_000 {
		now := mono.Time(step)
		id := wire.GPUID(r.IntN(gpus))
		switch g := uint32(id); {
		case !table.Present(id):
			lives[id], batches[id] = table.Add(id, now), 0
		case r.IntN(20) == 0:
			table.Remove(id)
		case batches[id] != 0:
			table.Done(id, lives[id], batches[id], now)
			batches[id] = 0
		default:
			life, free := table.Lend(g)
			if life != lives[id] || free > now || table.FreeAt(g) != mono.Never {
				t.Fatalf("GPU %d is lent in life %d, free at %v and %v", id, life, free, table.FreeAt(g))
			}
			if r.IntN(3) == 0 {
				table.Lent(id, life, 0, 0, 0)
				break
			}
			next++
			if batches[id] = next; !table.Lent(id, life, next, now, now.Add(mono.Dur(r.IntN(100)))) {
				t.Fatal("a GPU that was lent is gone")
			}
		}
		below := uint32(r.IntN(gpus + 20))
		last, ok, idle := uint32(0), false, 0
		for i := range uint32(gpus) {
			if table.Present(wire.GPUID(i)) && batches[i] == 0 {
				if idle++; i < below {
					last, ok = i, true
				}
			}
		}
		if got, _, is := table.LastIdle(below); is != ok || got != last || table.Idle() != idle {
			t.Fatalf("step %d: below %d GPU %d (%v), %d idle; want %d (%v), %d", step, below, got, is, table.Idle(), last, ok, idle)
		}
		when, beside, others := now.Add(mono.Dur(r.IntN(60))), uint32(r.IntN(gpus)), 0
		for i := range uint32(gpus) {
			if i != beside && int(i) < table.Len() && table.FreeAt(i) <= when {
				others++
			}
		}
		if beside >= uint32(table.Len()) {
			continue
		}
		if k := 1 + r.IntN(gpus); table.Spare(k, when, beside) != (others >= k) {
			t.Fatalf("step %d: %d others are free by %v; Spare(%d) is %v", step, others, when, k, others < k)
		}
	}
}

// What was lent in an earlier life counts for nothing, and what is lent is in no demand.
func TestLentIsNobodys(t *testing.T) {
	table := New(Config{})
	life := table.Add(0, 0)
	table.Lend(0)
	table.Remove(0)
	if table.Lent(0, life, 1, 0, 10) {
		t.Error("a GPU that is gone has taken a batch")
	}
	life = table.Add(0, 20)
	table.Lend(0)
	if !table.Lent(0, life, 2, 20, 30) || table.FreeAt(0) != 30 || table.demand.recent(0).all() != 0 {
		t.Errorf("free at %v, demand %v; want 30 and none", table.FreeAt(0), table.demand.recent(0).all())
	}
	if table.Done(0, life, 1, 25) || !table.Done(0, life, 2, 28) || table.FreeAt(0) != 28 {
		t.Errorf("free at %v after its report, want 28", table.FreeAt(0))
	}
}
