package cuda

import "slices"

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
