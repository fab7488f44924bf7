// Package ring joins the loops: bounded queues of values between threads, and
// a Waiter that ends a wait at an instant or as soon as something was pushed.
//
// Queue is for many producers and one consumer. Producers claim cells with one
// compare-and-swap, for one value or for several, and never wait for each
// other; each cell says by a sequence number that it is filled. The consumer
// looks at values where they lie, and gives the cells back once for all that it
// took (Release): what the two sides write lies on lines of their own, and
// the consumer's is written once a burst.
// Entries are copied in; no pointer travels, nothing is allocated.
//
// Full is an answer: Push returns false, the caller sheds and counts.
//
// # Rejected
//
// D. Vyukov's queue, which gives each cell back by itself: two locked stores a
// value on the consumer's side, and as many lines that move between cores
// (BenchmarkQueue).
package ring

import "sync/atomic"

// sealed in tail: nobody claims a cell any more.
const sealed = 1 << 63

// lineSize separates what different threads write: two lines of 64 bytes,
// since processors fetch them in pairs.
const lineSize = 128

// Queue is a bounded queue of T for many producers and one consumer. A T without
// pointers costs least: cells are not cleared behind the consumer.
type Queue[T any] struct {
	cells []cell[T]
	mask  uint64
	_     [lineSize]byte
	tail  atomic.Uint64 // next cell to claim; producers
	seen  atomic.Uint64 // freed as producers saw it last: they rarely look at the consumer's line
	_     [lineSize]byte
	freed atomic.Uint64 // cells below it may be claimed anew; the consumer writes, producers look
	_     [lineSize]byte
	head  uint64 // next cell to read; the consumer's alone
	_     [lineSize]byte
}

type cell[T any] struct {
	turn  atomic.Uint64 // index of the value in here, plus 1
	value T
}

// NewQueue makes a queue for at least n values (rounded up to a power of two).
func NewQueue[T any](n int) *Queue[T] {
	q := &Queue[T]{}
	q.make(n)
	return q
}

func (q *Queue[T]) make(n int) {
	size := 2
	for size < n {
		size *= 2
	}
	q.cells, q.mask = make([]cell[T], size), uint64(size-1)
}

// Cap is how many values fit.
func (q *Queue[T]) Cap() int { return len(q.cells) }

// Len is how many values wait, those included that the consumer took since
// its last Release and those that a producer is just filling in.
// Others see about that.
func (q *Queue[T]) Len() int {
	freed := q.freed.Load() // first: it never passes a tail that is read later
	return int(q.tail.Load()&^sealed - freed)
}

// Seal makes every later Push refuse. The consumer then takes until Len is 0:
// a producer that claimed its cell before still fills it.
func (q *Queue[T]) Seal() { q.tail.Or(sealed) }

// Push copies v in; false when the queue is full or sealed. Any goroutine.
func (q *Queue[T]) Push(v *T) bool {
	at, n := q.claim(1)
	if n == 0 {
		return false
	}
	q.fill(at, v)
	return true
}

// PushAll copies as many of vs in as there is room for, in order and side by
// side, and says how many. Any goroutine.
func (q *Queue[T]) PushAll(vs []T) int {
	at, n := q.claim(uint64(len(vs)))
	for i := range n {
		q.fill(at+i, &vs[i])
	}
	return int(n)
}

// claim takes up to n cells.
func (q *Queue[T]) claim(n uint64) (at, got uint64) {
	for {
		at = q.tail.Load()
		if at&sealed != 0 {
			return 0, 0
		}
		room := q.room(at, q.seen.Load())
		if room < int64(n) {
			freed := q.freed.Load()
			q.seen.Store(freed)
			room = max(0, q.room(at, freed))
		}
		got = uint64(min(int64(n), room))
		if got == 0 || q.tail.CompareAndSwap(at, at+got) {
			return at, got
		}
	}
}

// room is how many cells from at on may be claimed, if those below freed are free.
// freed only rises, so what there is room for now is still free after the swap; an
// old value of it may make room negative, and one that is younger than at makes it
// too large, but then the swap fails.
func (q *Queue[T]) room(at, freed uint64) int64 { return int64(uint64(len(q.cells)) + freed - at) }

func (q *Queue[T]) fill(at uint64, v *T) {
	c := &q.cells[at&q.mask]
	c.value = *v
	c.turn.Store(at + 1)
}

// Next is the oldest value that was not taken yet, in its cell, and takes it;
// nil when there is none. It is valid until Release. Consumer only.
func (q *Queue[T]) Next() *T {
	c := &q.cells[q.head&q.mask]
	if c.turn.Load() != q.head+1 {
		return nil
	}
	q.head++
	return &c.value
}

// Release gives back the cells of all values that were taken. Consumer only.
func (q *Queue[T]) Release() {
	if q.freed.Load() != q.head {
		q.freed.Store(q.head)
	}
}

// Pop copies the oldest value out, clears its cell and gives it back; false when
// there is none. For values with pointers, which must not stay. Consumer only.
func (q *Queue[T]) Pop(v *T) bool {
	from := q.Next()
	if from == nil {
		return false
	}
	var zero T
	*v, *from = *from, zero
	q.Release()
	return true
}

// Ready reports whether Next would find a value. Consumer only.
func (q *Queue[T]) Ready() bool { return q.cells[q.head&q.mask].turn.Load() == q.head+1 }
