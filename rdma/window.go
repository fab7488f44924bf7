package rdma

import "sync"

// Window bounds the bytes that all READs in flight will bring to this host.
// Answers to many READs at once meet in the last switch's buffer (incast); with
// RoCE a full buffer stops the sender's port, and with it traffic that has
// nothing to do with us. What is in flight need not exceed bandwidth times round
// trip by much: at 100 Gb/s and 20 us that is 250 KB.
type Window struct {
	limit int64 // Immutable.

	mu      sync.Mutex // Guards what follows.
	used    int64
	waiting []func()
}

func newWindow(limit int64) *Window { return &Window{limit: limit} }

// Take takes n bytes of the window, or else calls wake once, from another
// goroutine, when it is worth trying again. One READ is always let through, so
// that one larger than the window can be made at all. wake must not block.
func (w *Window) Take(n int64, wake func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used > 0 && w.used+n > w.limit {
		w.waiting = append(w.waiting, wake)
		return false
	}
	w.used += n
	return true
}

// Give gives n bytes back.
func (w *Window) Give(n int64) {
	w.mu.Lock()
	w.used -= n
	waiting := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

// Used is how many bytes are in flight.
func (w *Window) Used() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}
