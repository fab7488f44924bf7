package rdma

import "sync"

// Window bounds the bytes that all READs in flight will bring to this host.
// Answers to many READs at once meet in the last switch's buffer (incast); with
// RoCE a full buffer stops the sender's port, and with it traffic that has
// nothing to do with us. What is in flight need not exceed bandwidth times round
// trip by much: at 100 Gb/s and 20 us that is 250 KB.
//
// First come, first served: who needs much is not passed by those who need little.
type Window struct {
	limit int64 // Immutable.

	mu      sync.Mutex // Guards what follows.
	used    int64
	waiting []waiter
}

// waiter is who came when there was no room.
type waiter struct {
	n       int64
	granted func()
}

func newWindow(limit int64) *Window { return &Window{limit: limit} }

// Take takes n bytes of the window, or else (false) takes them later, and then calls
// granted, once, from another goroutine. It must not block. A READ larger than the
// window is let through alone.
func (w *Window) Take(n int64, granted func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 || !w.fits(n) {
		w.waiting = append(w.waiting, waiter{n, granted})
		return false
	}
	w.used += n
	return true
}

func (w *Window) fits(n int64) bool { return w.used == 0 || w.used+n <= w.limit }

// Give gives n bytes back.
func (w *Window) Give(n int64) {
	w.mu.Lock()
	w.used -= n
	w.mu.Unlock()
	for {
		w.mu.Lock()
		if len(w.waiting) == 0 || !w.fits(w.waiting[0].n) {
			w.mu.Unlock()
			return
		}
		first := w.waiting[0]
		w.waiting = w.waiting[:copy(w.waiting, w.waiting[1:])]
		w.used += first.n
		w.mu.Unlock()
		first.granted()
	}
}

// Used is how many bytes are in flight.
func (w *Window) Used() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}
