// Package sampled bounds how many lines a log gets of what strangers can cause at will:
// connections that are refused, peers that break the protocol.
//
//	v --Add--> the first at once, then the latest of each span --> write(v, left out)
//
// Invariants: of n Adds, the written lines and the numbers of those that they left out
// sum up to n, once a span has passed, or with Close; write is called by one goroutine at
// a time, at most once in a span.
package sampled

import (
	"sync"
	"time"
)

// Span is between two lines of one Log.
const Span = 5 * time.Second

// Log lets a value through at most once in a span.
type Log[T any] struct {
	span  time.Duration
	write func(v T, left int)

	mu     sync.Mutex // Guards what follows; held while write is called.
	next   time.Time  // when the next one may be written
	latest T
	left   int         // came since the last line
	timer  *time.Timer // nil: nothing waits for the end of the span
	closed bool
}

// New makes a Log that hands what passes to write, with the number of values that were
// left out since the last one.
func New[T any](span time.Duration, write func(v T, left int)) *Log[T] {
	return &Log[T]{span: span, write: write}
}

// Add writes v, or keeps it until the span is over. Any goroutine.
func (l *Log[T]) Add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	now := time.Now()
	if l.timer == nil && !now.Before(l.next) {
		l.next = now.Add(l.span)
		l.write(v, 0)
		return
	}
	l.latest = v
	l.left++
	if l.timer == nil {
		l.timer = time.AfterFunc(l.next.Sub(now), l.tell)
	}
}

// tell writes what came in a span that is over.
func (l *Log[T]) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 && !l.closed {
		l.flush()
	}
}

// flush writes the latest value. Caller holds mu.
func (l *Log[T]) flush() {
	v, left := l.latest, l.left-1
	var none T
	l.latest, l.left, l.timer, l.next = none, 0, nil, time.Now().Add(l.span)
	l.write(v, left)
}

// Close writes what was kept; later Adds do nothing. nil is closed.
func (l *Log[T]) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.left > 0 {
		l.flush()
	}
	l.closed = true
}
