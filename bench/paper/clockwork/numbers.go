package clockwork

// scaled is each count times by.
func scaled(list []int64, by float64) []float64 {
	out := make([]float64, len(list))
	for i, n := range list {
		out[i] = float64(n) * by
	}
	return out
}

// add is the sums of two lists of one length.
func add(a, b []int64) []int64 {
	out := make([]int64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

// average is the mean; 0 of nothing.
func average(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(max(1, len(list)))
}
