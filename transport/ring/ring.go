// Package ring joins the loops: bounded queues of values between threads, and
// a Waiter that ends a wait at an instant or as soon as something was pushed.
//
// Queue is D. Vyukov's bounded queue: each cell carries a sequence number that
// says whose turn it is, so that producers claim cells with one
// compare-and-swap and never wait for each other. Many producers, one consumer.
// Entries are copied in and out: no pointer travels, nothing is allocated.
//
// Full is an answer: Push returns false, the caller sheds and counts.
package ring

import "sync/atomic"

// sealed in tail: nobody claims a cell any more.
const sealed = 1 << 63

// lineSize separates what different threads write.
const lineSize = 64

// Queue is a bounded queue of T for many producers and one consumer.
type Queue[T any] struct {
	cells []cell[T]
	mask  uint64
	_     [lineSize]byte
	tail  atomic.Uint64 // next cell to write; producers
	_     [lineSize]byte
	head  atomic.Uint64 // next cell to read; the consumer writes, others look
	_     [lineSize]byte
}

type cell[T any] struct {
	turn  atomic.Uint64
	value T
}

// NewQueue makes a queue for at least n values (rounded up to a power of two).
func NewQueue[T any](n int) *Queue[T] {
	size := 2
	for size < n {
		size *= 2
	}
	q := &Queue[T]{cells: make([]cell[T], size), mask: uint64(size - 1)}
	for i := range q.cells {
		q.cells[i].turn.Store(uint64(i))
	}
	return q
}

// Cap is how many values fit.
func (q *Queue[T]) Cap() int { return len(q.cells) }

// Len is about how many values wait; exact for the consumer when nobody pushes.
func (q *Queue[T]) Len() int { return int(q.tail.Load()&^sealed - q.head.Load()) }

// Seal makes every later Push refuse. The consumer then pops until Len is 0:
// a producer that claimed its cell before still fills it.
func (q *Queue[T]) Seal() { q.tail.Or(sealed) }

// Push copies v in; false when the queue is full or sealed. Any goroutine.
func (q *Queue[T]) Push(v *T) bool {
	at := q.tail.Load()
	for {
		if at&sealed != 0 {
			return false
		}
		c := &q.cells[at&q.mask]
		switch turn := c.turn.Load(); {
		case turn == at:
			if q.tail.CompareAndSwap(at, at+1) {
				c.value = *v
				c.turn.Store(at + 1)
				return true
			}
			at = q.tail.Load()
		case turn < at: // the reader is a whole round behind
			return false
		default: // another producer was faster
			at = q.tail.Load()
		}
	}
}

// Pop copies the oldest value out; false when there is none. Consumer only.
func (q *Queue[T]) Pop(v *T) bool {
	at := q.head.Load()
	c := &q.cells[at&q.mask]
	if c.turn.Load() != at+1 {
		return false
	}
	*v = c.value
	var zero T
	c.value = zero // drop what pointers it holds
	c.turn.Store(at + uint64(len(q.cells)))
	q.head.Store(at + 1)
	return true
}

// Ready reports whether Pop would find a value. Consumer only.
func (q *Queue[T]) Ready() bool {
	at := q.head.Load()
	return q.cells[at&q.mask].turn.Load() == at+1
}
