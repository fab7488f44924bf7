package clockwork

import (
	"math/bits"
	"sort"

	"github.com/symphony-serving/symphony/transport/mono"
)

// BatchSizes names the sizes that have strategies.
type BatchSizes uint8

const (
	// Arbitrary is every size up to the profile's largest, as Symphony's authors
	// had it for their comparison (section 5); the default.
	Arbitrary BatchSizes = iota
	// PowersOfTwo is Clockwork's own: its engine compiles a kernel per size.
	PowersOfTwo
)

// Heads names the requests that head strategies; doc.go compares them.
type Heads uint8

const (
	// OldestRequest: a model's strategies are headed by its oldest request; the
	// default.
	OldestRequest Heads = iota
	// EveryRequest: each request heads a strategy per size, and a larger batch of
	// younger requests is preferred to an older request, which is shed.
	EveryRequest
)

// Options choose a reading of Clockwork.
type Options struct {
	BatchSizes BatchSizes
	Heads      Heads
}

// strategy is a batch that a GPU could run. Size 0: none.
type strategy struct {
	size int
	skip int       // older requests that it leaves behind
	due  mono.Time // required start: the head's deadline less l(size)
}

// strategyOf is the model's eligible strategy that is due first, for a GPU that
// is free then; it has one if its first request can be served alone there.
//
// Of the strategies with one head the largest is due first, so only the largest
// that is possible is looked at, and no queue of strategies is kept.
func (s *Scheduler) strategyOf(m *model, now, free mono.Time) strategy {
	var k strategy
	if s.opts.Heads == EveryRequest {
		k.size = s.largestAnywhere(m, now, free)
		k.skip = s.skipped(m, k.size, now, free)
	} else {
		k.size = s.largestAtFront(m, now, free)
	}
	if k.size > 0 {
		k.due = m.queue.Deadline(k.skip).Add(-m.profile.Latency(k.size))
	}
	return k
}

// largestAtFront: the largest size that the oldest request can bear and that
// enough requests wait for. O(1) for a linear profile.
func (s *Scheduler) largestAtFront(m *model, now, free mono.Time) int {
	d := m.queue.Deadline(0)
	b := m.profile.Largest(d.Sub(now)-s.cfg.Delay.Ctrl, s.cfg.Delay.Data)
	if free > now {
		b = min(b, m.profile.Largest(d.Sub(free), 0))
	}
	b = min(b, m.queue.Len())
	if s.opts.BatchSizes == PowersOfTwo && b > 0 {
		b = 1 << (bits.Len(uint(b)) - 1)
	}
	return b
}

// largestAnywhere: the largest size that enough of the waiting requests can
// bear. A larger size has a later end and so fewer such requests: a binary
// search over the sizes, with one over the queue for each.
func (s *Scheduler) largestAnywhere(m *model, now, free mono.Time) int {
	sizes, size := min(m.queue.Len(), m.profile.MaxBatch()), func(i int) int { return i + 1 }
	if s.opts.BatchSizes == PowersOfTwo {
		sizes, size = bits.Len(uint(sizes)), func(i int) int { return 1 << i }
	}
	i := sort.Search(sizes, func(i int) bool {
		return m.queue.Len()-s.skipped(m, size(i), now, free) < size(i)
	})
	if i == 0 {
		return 0
	}
	return size(i - 1)
}

// skipped counts the requests that are due before a batch of size b would end.
func (s *Scheduler) skipped(m *model, b int, now, free mono.Time) int {
	return m.queue.Below(s.start(b, now, free).Add(m.profile.Latency(b)))
}
