// Package histogram counts spans of time in buckets that widen with the span: cheap
// enough to stay on in a loop that makes millions of them a second.
//
// One goroutine adds, any may look. A bucket is at most an eighth wider than its
// lower bound, so a quantile is at most that much too large, never too small.
package histogram

import (
	"math/bits"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	partBits = 3 // parts of each power of two: 8
	parts    = 1 << partBits
	// buckets reach to 2^36 ns, over a minute; the last one holds what is longer.
	buckets = (36 - partBits + 1) * parts
)

// Histogram counts spans; the zero value is empty. Negative spans count as 0.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64
}

// Add counts a span. One goroutine only: the sums are not read again before
// they are written.
func (h *Histogram) Add(d mono.Dur) {
	d = max(0, d)
	c := &h.counts[bucketOf(d)]
	c.Store(c.Load() + 1)
	h.sum.Store(h.sum.Load() + int64(d))
}

// bucketOf is the span's bucket: below 8 ns each has one of its own, beyond
// that each power of two has 8.
func bucketOf(d mono.Dur) int {
	v := uint64(d)
	if v < parts {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - partBits
	return min(shift<<partBits+int(v>>shift), buckets-1)
}

// upper is the least span beyond bucket i.
func upper(i int) mono.Dur {
	if i < parts {
		return mono.Dur(i + 1)
	}
	shift := i>>partBits - 1
	return mono.Dur(i-shift<<partBits+1) << shift
}

// Counts is a snapshot, which can be added to others and taken apart.
type Counts struct {
	Count   uint64
	Sum     mono.Dur
	Buckets [buckets]uint64
}

// Snapshot copies the counts.
func (h *Histogram) Snapshot() Counts {
	var c Counts
	for i := range h.counts {
		c.Buckets[i] = h.counts[i].Load()
		c.Count += c.Buckets[i]
	}
	c.Sum = mono.Dur(h.sum.Load())
	return c
}

// Plus is the counts of both.
func (c Counts) Plus(d Counts) Counts {
	for i := range c.Buckets {
		c.Buckets[i] += d.Buckets[i]
	}
	c.Count += d.Count
	c.Sum += d.Sum
	return c
}

// Minus is what came since d, an earlier snapshot of the same histogram.
func (c Counts) Minus(d Counts) Counts {
	for i := range c.Buckets {
		c.Buckets[i] -= d.Buckets[i]
	}
	c.Count -= d.Count
	c.Sum -= d.Sum
	return c
}

// Mean is the mean span; 0 when there is none.
func (c *Counts) Mean() mono.Dur {
	if c.Count == 0 {
		return 0
	}
	return c.Sum / mono.Dur(c.Count)
}

// Quantile is the span that the part q of all do not exceed (0.99 for p99), up to
// the width of a bucket; 0 when there is none.
func (c *Counts) Quantile(q float64) mono.Dur {
	if c.Count == 0 {
		return 0
	}
	rank, seen := uint64(float64(c.Count)*q), uint64(0)
	for i, n := range c.Buckets {
		if seen += n; seen > rank || seen == c.Count {
			return upper(i) - 1
		}
	}
	return upper(buckets-1) - 1
}

// Each calls f for every bucket that is not empty, in order of span, with the
// bounds from (included) and to (not included).
func (c *Counts) Each(f func(from, to mono.Dur, count uint64)) {
	from := mono.Dur(0)
	for i, n := range c.Buckets {
		to := upper(i)
		if n > 0 {
			f(from, to, n)
		}
		from = to
	}
}

// Cumulative is how many spans are below each of the bounds, in ascending order, by
// whole buckets: for metrics. A bucket that a bound cuts counts as above it.
func (c *Counts) Cumulative(bounds []mono.Dur) []uint64 {
	out := make([]uint64, len(bounds))
	seen, k := uint64(0), 0
	for i, n := range c.Buckets {
		for k < len(bounds) && upper(i) > bounds[k] {
			out[k] = seen
			k++
		}
		seen += n
	}
	for ; k < len(bounds); k++ {
		out[k] = seen
	}
	return out
}
