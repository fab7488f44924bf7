package httpbench

import (
	"math/bits"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

// histogram counts spans to three percent, from all connections at once: sixteen
// buckets for each doubling.
type histogram struct {
	buckets [64 << 4]atomic.Int64
}

func (h *histogram) add(d mono.Dur) {
	v := uint64(max(d, 16))
	n := bits.Len64(v) - 1
	h.buckets[n<<4|int(v>>(n-4)&15)].Add(1)
}

// at is a quantile in ms: the middle of its bucket.
func (h *histogram) at(q float64) float64 {
	total := int64(0)
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	rank := int64(q * float64(total))
	for i := range h.buckets {
		if rank -= h.buckets[i].Load(); rank < 0 {
			n, part := i>>4, i&15
			return (float64(part) + 16.5) / 16 * float64(uint64(1)<<n) / 1e6
		}
	}
	return 0
}
