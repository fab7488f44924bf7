package pq

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A walk visits the first ids in the order in which they would be taken out, and leaves the heap as it was.
func TestWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var h Heap
		for id := range uint32(r.IntN(60)) {
			h.Set(id, int64(r.IntN(20)))
		}
		type visit struct {
			id  uint32
			key int64
		}
		var got, want []visit
		w := h.Walk()
		for {
			id, key, ok := w.Next()
			if !ok {
				break
			}
			got = append(got, visit{id, key})
		}
		for h.Len() > 0 && len(want) < WalkMax {
			id, key := h.Min()
			h.Remove(id)
			want = append(want, visit{id, key})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("visited %v, want %v", got, want)
		}
	}
}

func TestWalkAllocatesNothing(t *testing.T) {
	var h Heap
	for id := range uint32(100) {
		h.Set(id, int64(id*7919%101))
	}
	sum := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		w := h.Walk()
		for _, key, ok := w.Next(); ok; _, key, ok = w.Next() {
			sum += key
		}
	}); n != 0 || sum == 0 {
		t.Errorf("%v allocations a walk, want 0", n)
	}
}
