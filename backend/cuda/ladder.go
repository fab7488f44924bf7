package cuda

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Ladder are the batch sizes that a model of at most max items is run with: 1, 2, 3, 4, 6,
// 8, 12, 16, 24, 32, ... and max. Each size has kernels to be chosen for it, bindings and
// perhaps a CUDA graph, so there are few; a batch in between runs as the next larger one, by
// less than half too large (docs/decisions/0036).
func Ladder(max int) []int {
	var out []int
	for p := 1; p < max; p *= 2 {
		out = append(out, p)
		if half := p + p/2; p > 1 && half < max {
			out = append(out, half)
		}
	}
	return append(out, max)
}

// RoundUp is the smallest of the ascending sizes that holds n items; 0: none does.
func RoundUp(sizes []int, n int) int {
	i, _ := slices.BinarySearch(sizes, n)
	if i == len(sizes) {
		return 0
	}
	return sizes[i]
}

// Steps is the profile of a model that was measured at the sizes of its ladder, in ascending
// order: l(b) is that of the size that b runs as. A table, not a line: who plans with it sees
// that another item on the same step costs nothing.
func Steps(samples []profile.Sample) (*profile.Profile, error) {
	var table []mono.Dur
	for _, s := range samples {
		if s.Batch <= len(table) || s.Batch > profile.BatchMax {
			return nil, fmt.Errorf("%w: batch sizes must rise and be 1 to %d; got %d after %d", profile.ErrInvalid, profile.BatchMax, s.Batch, len(table))
		}
		for len(table) < s.Batch {
			table = append(table, s.Latency)
		}
	}
	return profile.Table(table)
}
