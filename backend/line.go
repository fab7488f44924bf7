package backend

import "sync"

// line is work that many goroutines have at a time. One of them does it for all, a few pieces at
// a time: so one goroutine, not all, is in the way of who else wants what the work locks.
type line[T any] struct {
	mu      sync.Mutex // Guards what follows.
	waiting []T
	busy    bool // one is at it
}

// lineSome is how many pieces are done at a time.
const lineSome = 16

// add has a piece done: by whoever is at it, or by the caller, who stays for what others add
// meanwhile.
func (l *line[T]) add(piece T, do func([]T)) {
	l.mu.Lock()
	l.waiting = append(l.waiting, piece)
	mine := !l.busy
	l.busy = true
	l.mu.Unlock()
	for mine {
		some := l.take()
		if mine = len(some) > 0; mine {
			do(some)
		}
	}
}

// take is the next pieces; of none, nobody is at it any more.
func (l *line[T]) take() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), lineSome)
	if n == 0 {
		l.waiting, l.busy = nil, false
		return nil
	}
	some := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return some
}
