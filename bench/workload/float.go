package workload

import "math"

// The logarithm and the exponential of package math are assembly on some
// machines and fuse multiplications with additions on others: their last bit
// differs. These do not: each product is rounded by an explicit conversion
// (the language forbids to fuse across it), so that one seed makes the same
// arrivals everywhere, to the nanosecond.

// ln2Hi + ln2Lo is ln 2; n*ln2Hi is exact for every exponent n.
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// ln is the natural logarithm of a finite x > 0, good to 1e-15 of its value or
// 1e-16, whichever is more.
func ln(x float64) float64 {
	f, n := math.Frexp(x) // exact
	if f < math.Sqrt2/2 {
		f, n = 2*f, n-1
	}
	s := (f - 1) / (f + 1) // |s| <= 0.172
	q := float64(s * s)
	sum := 0.0
	for k := 21; k >= 3; k -= 2 { // atanh's series
		sum = float64(q * (sum + 1/float64(k)))
	}
	return float64(float64(n)*ln2Hi) + (float64(2*s) + (float64(float64(2*s)*sum) + float64(float64(n)*ln2Lo)))
}

// exp is e to the x; 0 below the smallest normal number.
func exp(x float64) float64 {
	if x < -708 {
		return 0
	}
	n := math.Floor(float64(x/math.Ln2) + 0.5)
	r := (x - float64(n*ln2Hi)) - float64(n*ln2Lo) // |r| <= 0.35
	sum := 1.0
	for k := 18; k >= 1; k-- {
		sum = 1 + float64(float64(r*sum)/float64(k))
	}
	return math.Ldexp(sum, int(n)) // exact
}
