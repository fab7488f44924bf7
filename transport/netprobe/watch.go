package netprobe

import (
	"net"
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Watch is one connection under the probe. Its methods may be called from any
// goroutine.
type Watch struct {
	probe  *Probe // Immutable.
	cookie uint64 // Immutable.

	mu      sync.Mutex // Guards what follows.
	window  window
	reading counters // scratch
	read    mono.Time
	last    Stats
	closed  bool
}

// freshDiv: Stats reads the kernel again when its last reading is older than
// the window divided by this (100 ms of 10 s).
const freshDiv = 100

// Stats are the round trips of the recent window. Call it every second or so:
// old samples only leave when a new reading is taken.
func (w *Watch) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := mono.Now()
	if w.closed || (w.read != 0 && now.Sub(w.read) < w.window.span/freshDiv) {
		return w.last
	}
	if w.probe.read(&w.cookie, &w.reading) {
		w.last, w.read = w.window.observe(now, &w.reading), now
	}
	return w.last
}

// Close ends the watching; Stats stays as it was. Idempotent.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.probe.forget(w.cookie)
	}
}

// Follow is Watch in the words of transport/tcp.Prober: fill adds the kernel's
// numbers to a link's, stop ends the watching.
func (p *Probe) Follow(conn *net.TCPConn) (fill func(*transport.LinkStats), stop func(), err error) {
	w, err := p.Watch(conn)
	if err != nil {
		return nil, nil, err
	}
	return w.fill, w.Close, nil
}

// fill leaves the joining with the heartbeats to the link.
func (w *Watch) fill(st *transport.LinkStats) {
	s := w.Stats()
	st.KernelSamples = s.Samples
	st.KernelRTT = s.AckP50
	st.KernelSmoothed = s.SmoothedP99
	st.KernelBound = s.DelayBound()
}
