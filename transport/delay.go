package transport

import (
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/transport/mono"
)

// delayWindow is how many samples a DelayWindow remembers: 13 s of heartbeats.
const delayWindow = 128

// DelayWindow keeps a link's latest measurements. The clock offset is that of
// the exchange with the shortest round trip: what was delayed least lies least
// about the clocks. The bound is a high percentile of the one-way delays that
// follow with that offset. Safe for concurrent use.
type DelayWindow struct {
	mu      sync.Mutex
	samples [delayWindow]exchange
	n       int
	best    exchange // shortest round trip of the window
}

// exchange is one ping and its pong.
type exchange struct {
	roundTrip mono.Dur
	offset    mono.Dur // peer's clock minus ours
	out       mono.Dur // raw: received (theirs) - sent (ours)
	back      mono.Dur // raw: now (ours) - replied (theirs)
}

// Exchange takes a ping's four instants: sent and back on our clock, received and
// replied on the peer's.
func (w *DelayWindow) Exchange(sent, received, replied, back mono.Time) {
	e := exchange{out: received.Sub(sent), back: back.Sub(replied)}
	e.roundTrip = e.out + e.back
	e.offset = (e.out - e.back) / 2
	w.mu.Lock()
	defer w.mu.Unlock()
	replaced := w.samples[w.n%delayWindow]
	w.samples[w.n%delayWindow] = e
	w.n++
	if w.n == 1 || e.roundTrip <= w.best.roundTrip {
		w.best = e
	} else if replaced == w.best {
		w.best = slices.MinFunc(w.window(), func(a, b exchange) int { return int(a.roundTrip - b.roundTrip) })
	}
}

// OneWay takes a delay that was measured on one clock, in process.
func (w *DelayWindow) OneWay(d mono.Dur) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples[w.n%delayWindow] = exchange{roundTrip: 2 * d, out: d, back: d}
	w.n++
}

func (w *DelayWindow) window() []exchange { return w.samples[:min(w.n, delayWindow)] }

// Offset is the peer's clock minus ours; 0 before the first exchange.
func (w *DelayWindow) Offset() mono.Dur {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.best.offset
}

// Measure fills in the measured part of s.
func (w *DelayWindow) Measure(s *LinkStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(w.n, delayWindow)
	s.Offset, s.Samples = w.best.offset, n
	if n == 0 {
		return
	}
	var trips, delays [delayWindow]mono.Dur
	for i, e := range w.window() {
		trips[i] = e.roundTrip
		delays[i] = max(e.out-w.best.offset, e.back+w.best.offset)
	}
	slices.Sort(trips[:n])
	slices.Sort(delays[:n])
	s.RTT = trips[n/2]
	s.DelayBound = max(0, delays[n-1-n/64]) // about p98: one pause is no news, three are
}
