package backend

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ranKept is how many runs of a model are kept for the next look (stock.learn); of more, the last ones.
const ranKept = 32

// ran is what ran of a model since the last look. Devices write; one goroutine reads. (A write that is
// under way while it reads leaves the run that had its place before: one of many.)
type ran struct {
	n    atomic.Uint64
	last [ranKept]atomic.Uint64 // size<<48 | ns
}

// ranBits are those of a length: 78 hours.
const ranBits = 48

func (r *ran) add(size int, took mono.Dur) {
	r.last[(r.n.Add(1)-1)%ranKept].Store(uint64(size)<<ranBits | uint64(max(0, took))&(1<<ranBits-1))
}

// since calls do with the runs from the from-th one on that are still there, and returns where to go on.
func (r *ran) since(from uint64, do func(size int, took mono.Dur)) uint64 {
	n := r.n.Load()
	for i := max(from, n-min(n, ranKept)); i < n; i++ {
		v := r.last[i%ranKept].Load()
		do(int(v>>ranBits), mono.Dur(v&(1<<ranBits-1)))
	}
	return n
}
