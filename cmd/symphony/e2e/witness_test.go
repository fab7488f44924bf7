package e2e

import (
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pauseLeast is the shortest oversleep that a witness takes for the machine's.
const pauseLeast = 10 * time.Millisecond

// pardonMost bounds what is pardoned: beyond it a test could not fail any more.
const pardonMost = 0.2

// witness is a thread that only sleeps: what it oversleeps, the machine took from
// everything that ran beside it.
type witness struct {
	since  time.Time
	end    chan struct{}
	pauses chan []time.Duration

	mu    sync.Mutex // Guards overs.
	overs []oversleep
}

// oversleep is by how much a nap was too long, and when it ended.
type oversleep struct {
	at   time.Time
	over time.Duration
}

// longest is the longest oversleep within a span; it is kept from a millisecond on.
func (w *witness) longest(from, to time.Time) (most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.overs {
		if o.at.After(from) && o.at.Before(to) {
			most = max(most, o.over)
		}
	}
	return most
}

// watch starts one, until the test ends or pardon asks it.
func watch(t *testing.T) *witness {
	w := &witness{since: time.Now(), end: make(chan struct{}), pauses: make(chan []time.Duration)}
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		const nap = 2 * time.Millisecond
		interval := syscall.NsecToTimespec(int64(nap))
		var seen []time.Duration
		for {
			before := time.Now()
			syscall.Nanosleep(&interval, nil)
			over := time.Since(before) - nap
			if over >= pauseLeast {
				seen = append(seen, over)
			}
			if over >= time.Millisecond {
				w.mu.Lock()
				w.overs = append(w.overs, oversleep{time.Now(), over})
				w.mu.Unlock()
			}
			select {
			case <-w.end:
				return
			case w.pauses <- seen:
			default:
			}
		}
	}()
	t.Cleanup(func() { close(w.end) })
	return w
}

// pardon is the share of requests that may be bad by what the witness saw. A claim of the
// full run has no pardon.
func (w *witness) pardon(t *testing.T, latency time.Duration) float64 {
	t.Helper()
	return w.lost(t, latency) / time.Since(w.since).Seconds()
}

// lost is for how many seconds requests may be bad: a pause takes those that come in it
// and those that wait, for latency at most, when it begins.
func (w *witness) lost(t *testing.T, latency time.Duration) float64 {
	t.Helper()
	return w.lostBeyond(t, 0, latency)
}

// lostBeyond is lost where requests have slack: shorter pauses take none.
func (w *witness) lostBeyond(t *testing.T, slack, latency time.Duration) float64 {
	t.Helper()
	if full() {
		return 0
	}
	lost, seen := time.Duration(0), <-w.pauses
	seen = slices.DeleteFunc(slices.Clone(seen), func(pause time.Duration) bool { return pause < slack })
	for _, pause := range seen {
		lost += pause + latency
	}
	span := time.Since(w.since)
	lost = min(lost, time.Duration(pardonMost*float64(span)))
	if len(seen) > 0 {
		t.Logf("the machine paused %d times in %v, for %v at most: requests of %v may be bad by that", len(seen),
			span.Round(time.Millisecond), longest(seen).Round(time.Millisecond), lost.Round(time.Millisecond))
	}
	return lost.Seconds()
}

func longest(spans []time.Duration) (most time.Duration) {
	for _, s := range spans {
		most = max(most, s)
	}
	return most
}
