package pq

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// The heap against a slice that is sorted anew each time.
func TestHeapAgainstSorting(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	var h Heap
	model := map[uint32]int64{}
	for step := range 20000 {
		id := uint32(r.IntN(50))
		if r.IntN(3) == 0 {
			h.Remove(id)
			delete(model, id)
		} else {
			key := int64(r.IntN(20))
			h.Set(id, key)
			model[id] = key
		}
		if h.Len() != len(model) || h.Has(id) != (func() bool { _, ok := model[id]; return ok })() {
			t.Fatalf("seed %d step %d: %d ids, want %d", seed, step, h.Len(), len(model))
		}
		if len(model) == 0 {
			continue
		}
		best := node{1 << 40, 0}
		for id, key := range model {
			if n := (node{key, id}); n.less(best) {
				best = n
			}
		}
		if id, key := h.Min(); id != best.id || key != best.key {
			t.Fatalf("seed %d step %d: min is %d at %d, want %d at %d", seed, step, id, key, best.id, best.key)
		}
	}
}

// The queue against a stable insertion into a slice.
func TestSortedAgainstSlice(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	var s Sorted
	var model []Entry
	for step := range 20000 {
		if r.IntN(5) < 3 {
			e := Entry{Key: int64(step + r.IntN(40)), Value: uint32(step)}
			s.Insert(e)
			i, _ := slices.BinarySearchFunc(model, e, func(a, b Entry) int {
				if a.Key <= b.Key {
					return -1
				}
				return 1
			})
			model = slices.Insert(model, i, e)
		} else if len(model) > 0 {
			if got := s.Pop(); got != model[0] {
				t.Fatalf("seed %d step %d: popped %v, want %v", seed, step, got, model[0])
			}
			model = model[1:]
			if i := r.IntN(max(1, len(model))); step%3 == 0 && len(model) > 0 {
				if got := s.Remove(i); got != model[i] {
					t.Fatalf("seed %d step %d: removed %v, want %v", seed, step, got, model[i])
				}
				model = slices.Delete(model, i, i+1)
			}
		}
		if step%97 == 0 && !slices.Equal(s.Entries(), model) {
			t.Fatalf("seed %d step %d:\n%v\nwant\n%v", seed, step, s.Entries(), model)
		}
		key := int64(step + 20)
		want := 0
		for _, e := range model {
			if e.Key < key {
				want++
			}
		}
		if got := s.Below(key); got != want {
			t.Fatalf("seed %d step %d: %d below, want %d", seed, step, got, want)
		}
	}
}

// Of equal keys the smaller Then goes first, and of those whoever came first: as a stable sort has it,
// with many equals, in and out at random.
func TestSortedByTwoKeys(t *testing.T) {
	const seed = 13
	r := rand.New(rand.NewPCG(seed, 0))
	var s Sorted
	var model []Entry
	for step := range 20000 {
		if r.IntN(5) < 3 {
			e := Entry{Key: int64(step/50 + r.IntN(4)), Then: uint8(r.IntN(4)), Value: uint32(step)}
			s.Insert(e)
			model = append(model, e)
			slices.SortStableFunc(model, func(a, b Entry) int {
				return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Then, b.Then))
			})
		} else if len(model) > 0 {
			if got := s.Pop(); got != model[0] {
				t.Fatalf("seed %d step %d: popped %v, want %v", seed, step, got, model[0])
			}
			model = model[1:]
		}
		if step%97 == 0 && !slices.Equal(s.Entries(), model) {
			t.Fatalf("seed %d step %d:\n%v\nwant\n%v", seed, step, s.Entries(), model)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var h Heap
	var s Sorted
	s.Grow(64)
	for i := range uint32(64) {
		h.Set(i, int64(i))
	}
	key := int64(0)
	n := testing.AllocsPerRun(1000, func() {
		key++
		h.Set(uint32(key)%64, key)
		s.Insert(Entry{Key: key, Value: 1})
		s.Pop()
	})
	if n != 0 {
		t.Fatalf("%v allocations a step, want 0", n)
	}
}
