package ring

import (
	"sync"
	"sync/atomic"
)

// Growing is a Queue that gets larger: behind the Queue in use another one is put, values
// are pushed there from then on, and the consumer goes on to it when it has taken all of
// the first. So each producer's values stay in their order, and nobody waits. It does not
// get smaller.
type Growing[T any] struct {
	last  atomic.Pointer[part[T]] // producers push here
	_     [lineSize]byte
	first *part[T] // the consumer's alone
	_     [lineSize]byte

	mu     sync.Mutex // Guards Grow and Seal.
	sealed bool
}

// part is one Queue of the row.
type part[T any] struct {
	Queue[T]
	next   atomic.Pointer[part[T]] // the one that follows; nil: this is the last
	before atomic.Pointer[part[T]] // the one that the consumer must empty first; nil: none
}

// NewGrowing makes a queue for at least n values.
func NewGrowing[T any](n int) *Growing[T] {
	g := &Growing[T]{first: newPart[T](n)}
	g.last.Store(g.first)
	return g
}

func newPart[T any](n int) *part[T] {
	p := &part[T]{}
	p.Queue.make(n)
	return p
}

// Grow makes room for at least n values that come from now on. Any goroutine.
func (g *Growing[T]) Grow(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.last.Load()
	if g.sealed || old.Cap() >= n {
		return
	}
	p := newPart[T](n)
	p.before.Store(old)
	old.next.Store(p)
	g.last.Store(p)
	old.Seal() // last: who finds it sealed finds the next one
}

// Seal makes every later Push refuse.
func (g *Growing[T]) Seal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
	g.last.Load().Seal()
}

// Cap is how many values fit.
func (g *Growing[T]) Cap() int { return g.last.Load().Cap() }

// Len is Queue.Len over all that the consumer has not emptied.
func (g *Growing[T]) Len() (n int) {
	for p := g.last.Load(); p != nil; p = p.before.Load() {
		n += p.Queue.Len()
	}
	return n
}

// Push copies v in; false when the queue is full or sealed. Any goroutine.
func (g *Growing[T]) Push(v *T) bool {
	for {
		p := g.last.Load()
		if p.Push(v) {
			return true
		}
		if p == g.last.Load() {
			return false
		}
	}
}

// PushAll is Queue.PushAll.
func (g *Growing[T]) PushAll(vs []T) (n int) {
	for {
		p := g.last.Load()
		if n += p.PushAll(vs[n:]); n == len(vs) || p == g.last.Load() {
			return n
		}
	}
}

// Next is Queue.Next. Consumer only.
func (g *Growing[T]) Next() *T {
	for {
		if v := g.first.Next(); v != nil || !g.advance() {
			return v
		}
	}
}

// advance goes on to the next part, once nothing comes in this one any more.
func (g *Growing[T]) advance() bool {
	next := g.first.next.Load()
	if next == nil || !g.first.over() {
		return false
	}
	g.first.Release()
	g.first = next
	next.before.Store(nil)
	return true
}

// over tells that the queue is sealed and all of it taken. Consumer only.
func (q *Queue[T]) over() bool { return q.tail.Load() == q.head|sealed }

// Release is Queue.Release. What was taken before the queue grew has its cells given back already.
// Consumer only.
func (g *Growing[T]) Release() { g.first.Release() }

// Pop is Queue.Pop. Consumer only.
func (g *Growing[T]) Pop(v *T) bool {
	from := g.Next()
	if from == nil {
		return false
	}
	var zero T
	*v, *from = *from, zero
	g.first.Release()
	return true
}

// Ready reports whether Next would find a value, or is about to. Consumer only.
func (g *Growing[T]) Ready() bool {
	for !g.first.Ready() {
		if g.first.next.Load() == nil {
			return false
		}
		if !g.advance() {
			return true // a producer is just filling what it claimed here
		}
	}
	return true
}
