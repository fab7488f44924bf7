package netprobe

import "github.com/symphony-serving/symphony/transport/mono"

// Stats are the kernel's round-trip times of one connection over the recent
// window. Spans are bucket edges: at most 1/16 from the truth, always on the
// side that makes the bound larger.
type Stats struct {
	Samples        int      // acknowledgements that say something about the network
	AckP50, AckP99 mono.Dur // their round trips
	Least          mono.Dur // the shortest of them
	SmoothedP99    mono.Dur // of the kernel's srtt: all acknowledgements, so it also holds the peer's waiting
	Answers        int      // set aside: acknowledgements that came on data (the peer's own time is in them)
	Delayed        int      // set aside: those of 40 ms and more (the peer's timer may be in them)
	Repeated       int      // set aside: those right after a retransmission (it calls forth what the timer still held)
}

// DelayBound is the bound on the one-way delay: the 99th percentile less half
// of the least round trip, for the way back takes at least that. As in
// transport.Heart this takes the two ways as alike when nothing else delays.
// 0: nothing is known.
func (s Stats) DelayBound() mono.Dur { return s.AckP99 - s.Least/2 }

// readings is how many readings a window remembers; it covers between
// 1-1/readings and all of its span.
const readings = 4

// window makes growing counters into statistics of the recent past: it keeps
// readings some time apart and takes the difference to the oldest that is
// still young enough. Not concurrent.
type window struct {
	span  mono.Dur
	bases [readings]counters
	at    [readings]mono.Time // when bases was read
	next  int                 // the one to overwrite; the newest is before it
}

// begin starts with all counters at zero.
func (w *window) begin(now mono.Time) {
	for i := range w.at {
		w.at[i] = now
	}
}

// observe takes a reading. The caller reads every few hundred milliseconds; a
// reading after a pause longer than the span covers the pause.
func (w *window) observe(now mono.Time, c *counters) Stats {
	newest := (w.next + readings - 1) % readings
	base := newest
	for i, at := range w.at {
		if at < w.at[base] && now.Sub(at) <= w.span {
			base = i
		}
	}
	st := summary(&w.bases[base], c)
	if now.Sub(w.at[newest]) >= w.span/readings {
		w.bases[w.next], w.at[w.next] = *c, now
		w.next = (w.next + 1) % readings
	}
	return st
}

// summary is what happened from base to now.
func summary(base, now *counters) Stats {
	ack, samples := between(base, now, ackAt)
	smoothed, all := between(base, now, smoothedAt)
	return Stats{
		Samples:     samples,
		AckP50:      ack.high(samples, 50),
		AckP99:      ack.high(samples, 99),
		Least:       ack.least(),
		SmoothedP99: smoothed.high(all, 99),
		Answers:     int(now[answersAt] - base[answersAt]),
		Delayed:     int(now[delayedAt] - base[delayedAt]),
		Repeated:    int(now[repeatedAt] - base[repeatedAt]),
	}
}
