package netprobe

import "github.com/symphony-serving/symphony/transport/mono"

// counters are what the kernel counts for one connection, word for word as
// struct counters in bpf/probe.c. They only grow (and wrap), so that what
// happened in a window is a difference.
type counters [smoothedAt + buckets]uint32

// Words of counters. The first seven are the program's own memory.
const (
	answersAt  = 7
	delayedAt  = 8
	repeatedAt = 9
	ackAt      = 10
	smoothedAt = ackAt + buckets
)

// Buckets: one for each of 0..15 us, then 16 an octave below 2^20 us. So a
// bucket's upper edge lies at most 1/16 above what fell into it.
const (
	steps    = 16
	stepLog2 = 4
	spanLog2 = 20
	buckets  = (spanLog2 - stepLog2 + 1) * steps
)

// edges are the least span of bucket i and the least one beyond it. The last
// bucket also holds all that is longer.
func edges(i int) (low, high mono.Dur) {
	if i < steps {
		return mono.Dur(i) * mono.Microsecond, mono.Dur(i+1) * mono.Microsecond
	}
	octave := i/steps - 1
	width := mono.Microsecond << octave
	low = mono.Dur(steps+i%steps) * width
	return low, low + width
}

// histogram is a part of the difference of two counters.
type histogram [buckets]uint32

// between counts, from at on, what came after base.
func between(base, now *counters, at int) (h histogram, total int) {
	for i := range h {
		h[i] = now[at+i] - base[at+i]
		total += int(h[i])
	}
	return h, total
}

// high is the span that a share of percent of the total does not exceed:
// rounded up to the bucket's edge, because it feeds a bound.
func (h *histogram) high(total, percent int) mono.Dur {
	rank := (total*percent + 99) / 100
	for i, n := range h {
		rank -= int(n)
		if rank <= 0 && total > 0 {
			_, high := edges(i)
			return high
		}
	}
	return 0
}

// least is the shortest span, rounded down.
func (h *histogram) least() mono.Dur {
	for i, n := range h {
		if n > 0 {
			low, _ := edges(i)
			return low
		}
	}
	return 0
}
