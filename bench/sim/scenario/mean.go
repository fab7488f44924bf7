package scenario

import "math"

// Mean is the mean of some results, and half the width of its 95 % confidence
// interval by Student's t: infinitely wide for one result.
func Mean(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		return mean, math.Inf(1)
	}
	squares := 0.0
	for _, v := range values {
		squares += float64((v - mean) * (v - mean))
	}
	deviation := math.Sqrt(squares / (n - 1))
	return mean, studentT(len(values)-1) * deviation / math.Sqrt(n)
}

// studentT is the 97.5 % quantile of Student's t with that many degrees of
// freedom. Past the table the first terms of its expansion around the normal
// quantile are right to three digits.
func studentT(freedom int) float64 {
	table := [...]float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	const z = 1.959964
	n := float64(freedom)
	return z + (z*z*z+z)/(4*n) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*n*n)
}
