package soak

import (
	"sync"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Window is a fault and the recovery from it.
type Window struct {
	Kind   Kind    `json:"kind"`
	Target string  `json:"target"`
	Start  float64 `json:"start_s"` // since the load began
	Healed float64 `json:"healed_s"`
	End    float64 `json:"end_s"` // some settling later
	// BreaksHTTP: HTTP clients may see broken connections.
	BreaksHTTP bool   `json:"breaks_http,omitempty"`
	Note       string `json:"note,omitempty"`

	start, end mono.Time // end: mono.Never while it is open
}

// windows is the log of faults. They are opened before anything is done, so a
// request that was answered while none was open cannot have met one.
type windows struct {
	begin mono.Time // of the load

	mu  sync.Mutex // Guards all. In the order of their starts; they do not overlap.
	all []Window
}

func (w *windows) open(k Kind, target string, breaksHTTP bool, now mono.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, Window{Kind: k, Target: target, BreaksHTTP: breaksHTTP, Start: now.Sub(w.begin).Seconds(), start: now, end: mono.Never})
}

// shut ends the open one.
func (w *windows) shut(healed, now mono.Time, note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := &w.all[len(w.all)-1]
	last.Healed, last.End, last.end, last.Note = healed.Sub(w.begin).Seconds(), now.Sub(w.begin).Seconds(), now, note
}

// during is the last window that [from, to] touches.
func (w *windows) during(from, to mono.Time) (win Window, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.all) - 1; i >= 0 && w.all[i].end >= from; i-- {
		if w.all[i].start <= to {
			return w.all[i], true
		}
	}
	return Window{}, false
}

// breaksHTTP is whether any window that [from, to] touches breaks connections.
func (w *windows) breaksHTTP(from, to mono.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.all) - 1; i >= 0 && w.all[i].end >= from; i-- {
		if w.all[i].start <= to && w.all[i].BreaksHTTP {
			return true
		}
	}
	return false
}

func (w *windows) list() []Window {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Window(nil), w.all...)
}

// now is the open window.
func (w *windows) now() (win Window, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.all); n > 0 && w.all[n-1].end == mono.Never {
		return w.all[n-1], true
	}
	return Window{}, false
}
