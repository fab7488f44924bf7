package rank

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// priced is a rank with one GPU that is busy until 10, and four models that have answered once: their requests take 4, 1 and 1 ms, and of
// the last one nothing is known. Candidates wait that are due at 40, 80, 60 and 99.
func priced(cheap bool) *Rank {
	r := New(Config{})
	r.SetCheap(cheap)
	r.AddGPU(0, 0)
	for id, each := range []mono.Dur{4 * ms, ms, ms} {
		r.SetCandidate(wire.ModelID(id), candidate(0, mono.Never))
		step(r, 0)
		r.Answer(Answer{Grant: grantOf(r, id, 0), Batch: 1, Exec: 0, Until: 0, Each: each})
		r.Done(0, r.gpus.Life(0), 1, 0)
	}
	r.SetCandidate(4, candidate(0, 50))
	step(r, 0)
	r.Answer(Answer{Grant: grantOf(r, 4, 0), Batch: 9, Exec: 0, Until: 10})
	for id, latest := range []mono.Time{40, 80, 60, 99} {
		r.SetCandidate(wire.ModelID(id), candidate(1, latest))
	}
	return r
}

// A GPU that becomes free goes to the candidate that is due first, and under SetCheap to the one whose requests take least, of those
// alike to the one that is due first.
func TestCheapestFirst(t *testing.T) {
	for cheap, order := range map[bool][]int{false: {0, 2, 1, 3}, true: {3, 2, 1, 0}} {
		r := priced(cheap)
		expect(t, r, 9)
		for i, id := range order {
			now := mono.Time(10 + i)
			r.Done(0, r.gpus.Life(0), wire.BatchID(9+i), now)
			expect(t, r, now, [2]int{id, 0})
			r.Answer(Answer{Grant: grantOf(r, id, 0), Batch: wire.BatchID(10 + i), Exec: now, Until: now + 1})
		}
	}
}

// Those that wait get their keys anew, one way and the other.
func TestCheapIsSetWhileSomeWait(t *testing.T) {
	for _, cheap := range []bool{false, true} {
		r := priced(!cheap)
		expect(t, r, 9) // all wait
		r.SetCheap(cheap)
		expect(t, r, 9)
		expect(t, r, 10, [2]int{map[bool]int{false: 0, true: 3}[cheap], 0})
	}
}

// A model that ran nothing for long goes first, whatever its requests take, and only once.
func TestNobodyIsStarvedWhole(t *testing.T) {
	r := New(Config{})
	r.SetCheap(true)
	r.AddGPU(0, 0)
	ran := make([]int, 2)
	last := 0
	const second = 1000 * ms
	for i := range 300 { // a batch of 100 ms at a time, and both always wait
		now := mono.Time(mono.Dur(i) * 100 * ms)
		for id := range ran {
			r.SetCandidate(wire.ModelID(id), candidate(now-2, now+mono.Time(second)))
		}
		if i > 0 {
			expect(t, r, now-1)
		}
		r.Done(0, r.gpus.Life(0), wire.BatchID(i), now)
		pairs := step(r, now)
		if len(pairs) != 1 {
			t.Fatalf("at %v: granted %v, want one", now, pairs)
		}
		id := pairs[0][0]
		ran[id]++
		if id == 1 {
			last = i
		}
		if id == 0 && i-last > 10*(starvedSpans+2) {
			t.Fatalf("batch %d: the dear model ran nothing for %d batches", i, i-last)
		}
		r.Answer(Answer{Grant: grantOf(r, id, 0), Batch: wire.BatchID(i + 1), Exec: now, Until: now.Add(100 * ms), Each: []mono.Dur{ms, 4 * ms}[id]})
	}
	if ran[1] < 3 || ran[1] > 6 {
		t.Errorf("in 30 s the cheap model ran %d batches, the dear one %d; want one in %d s", ran[0], ran[1], starvedSpans+1)
	}
}
