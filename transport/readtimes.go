package transport

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ReadClock measures a link's READs. What a batch's inputs take is planned with
// (d_data); these times say where it comes from: which link, which size.
type ReadClock struct {
	mu      sync.Mutex // Guards what follows.
	classes [ReadSizes]*readWindow
}

// readWindow is the last READs of a class. It is made with the first of them, as
// most links see inputs of one or two sizes.
type readWindow struct {
	times [readsKept]mono.Dur
	n     int
}

const readsKept = 256

// ReadClass is the class of n bytes: below 1 << (10 + 2*class) or just that.
func ReadClass(n int) int {
	if n <= 1<<10 {
		return 0
	}
	return min((bits.Len(uint(n-1))-9)/2, ReadSizes-1)
}

// Add takes a READ of n bytes that took d.
func (c *ReadClock) Add(n int, d mono.Dur) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.classes[ReadClass(n)]
	if w == nil {
		w = &readWindow{}
		c.classes[ReadClass(n)] = w
	}
	w.times[w.n%readsKept] = d
	w.n++
}

// Stats fills in the percentiles.
func (c *ReadClock) Stats(st *LinkStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.classes {
		if w == nil {
			continue
		}
		sorted := w.times
		n := min(w.n, readsKept)
		slices.Sort(sorted[:n])
		st.Reads[i] = ReadTimes{Samples: n, P50: sorted[n/2], P99: sorted[n-1-n/100]}
	}
}
