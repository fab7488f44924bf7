package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// By deadline, and first in first out among equals.
func TestQueueOrder(t *testing.T) {
	var q Queue
	for i, deadline := range []mono.Time{30, 10, 20, 10, 30, 20} {
		q.Push(batching.Request{ID: wire.RequestID(i), Deadline: deadline})
	}
	for t0, want := range map[mono.Time]int{0: 0, 10: 0, 11: 2, 20: 2, 30: 4, mono.Never: 6} {
		if got := q.Below(t0); got != want {
			t.Errorf("%d are due before %d, want %d", got, int64(t0), want)
		}
	}
	for i, want := range []wire.RequestID{1, 3, 2, 5, 0, 4} {
		if got := q.At(i); got.ID != want || got.Deadline != q.Deadline(i) {
			t.Errorf("at %d: request %d due %d, want %d; Deadline says %d", i, got.ID, int64(got.Deadline), want, int64(q.Deadline(i)))
		}
	}
	for _, want := range []wire.RequestID{1, 3, 2, 5, 0, 4} {
		if got := q.Pop(); got.ID != want {
			t.Errorf("request %d comes out, want %d", got.ID, want)
		}
	}
	if q.Len() != 0 {
		t.Errorf("%d are left", q.Len())
	}
}

// A random queue against a sorted slice: places are used again and requests
// come out as they went in.
func TestQueueRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var q Queue
		var want []batching.Request
		longest := 0
		for i := range 2000 {
			if len(want) > 0 && r.IntN(2) == 0 {
				if got := q.Pop(); got != want[0] {
					t.Fatalf("seed %d: %+v comes out, want %+v", seed, got, want[0])
				}
				want = want[1:]
			} else {
				k := batching.Request{ID: wire.RequestID(i), Frontend: wire.FrontendID(r.IntN(9)), Deadline: mono.Time(r.IntN(50))}
				q.Push(k)
				at := slices.IndexFunc(want, func(o batching.Request) bool { return o.Deadline > k.Deadline })
				if at < 0 {
					at = len(want)
				}
				want = slices.Insert(want, at, k)
			}
			longest = max(longest, len(want))
			if q.Len() != len(want) || len(q.slots) != longest {
				t.Fatalf("seed %d: length %d in %d places, want %d in %d", seed, q.Len(), len(q.slots), len(want), longest)
			}
		}
	}
}

// What is popped stays as it was when its place is used again.
func TestPoppedRequestIsACopy(t *testing.T) {
	var q Queue
	q.Push(batching.Request{ID: 1, Deadline: 1})
	got := q.Pop()
	q.Push(batching.Request{ID: 2, Deadline: 2})
	if got.ID != 1 || q.At(0).ID != 2 {
		t.Errorf("popped %d, waiting %d, want 1 and 2", got.ID, q.At(0).ID)
	}
}

func TestPopOfNothingPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Pop of an empty queue did not panic")
		}
	}()
	var q Queue
	q.Pop()
}

func TestQueueAllocatesNothing(t *testing.T) {
	var q Queue
	turn := func() {
		for i := range 8 {
			q.Push(batching.Request{Deadline: mono.Time(i * 3 % 8)})
		}
		for range 8 {
			q.Pop()
		}
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
}
