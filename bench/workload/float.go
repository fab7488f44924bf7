package workload

import "math"

// The logarithm and the exponential of package math are assembly on some
// machines and fuse multiplications with additions on others: their last bit
// differs. These do not: each product is rounded by an explicit conversion
// (the language forbids to fuse across it), so that one seed makes the same
// arrivals everywhere, to the nanosecond. Only sums, products, quotients,
// math.Sqrt and math.Floor are used, which are exact or correctly rounded.
//
// The polynomials are Chebyshev fits, computed with 40 digits. Pairs of terms
// are summed on their own, so that the processor works on several at a time.

// ln2Hi + ln2Lo is ln 2; n*ln2Hi is exact for every exponent n.
const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// ln is the natural logarithm of a normal x > 0, good to 1e-15 of its value or
// 1e-16, whichever is more.
//
// x = 2^n * f with f between the roots of 1/2 and of 2; ln f = 2 atanh(s) for
// s = (f-1)/(f+1), and atanh(s) = s + s*q*P(q) for q = s*s, q <= 0.0295.
func ln(x float64) float64 {
	const rootHalf = 0x3fe6a09e667f3bcd // bits of the root of 1/2, rounded up
	b := math.Float64bits(x)
	n := int64(b-rootHalf) >> 52
	f := math.Float64frombits(b - uint64(n)<<52)

	s := (f - 1) / (f + 1)
	q := float64(s * s)
	q2 := float64(q * q)
	p01 := 0.33333333333333333232 + float64(q*0.20000000000000438782)
	p23 := 0.14285714285401627672 + float64(q*0.11111111195897363755)
	p45 := 0.090908978157491218016 + float64(q*0.076931200862239184491)
	p67 := 0.06634380281018362715 + float64(q*0.065433788334760356335)
	low, high := p01+float64(q2*p23), p45+float64(q2*p67)
	p := low + float64(float64(q2*q2)*high)

	tail := float64(float64(2*s)*float64(q*p)) + float64(float64(n)*ln2Lo)
	return float64(float64(n)*ln2Hi) + (float64(2*s) + tail)
}

// exp is e to the x, for x up to 700; 0 below -708, where results would lose
// digits.
//
// x = n ln 2 + r with |r| <= 0.347; e^r = 1 + r + r*r*P(r).
func exp(x float64) float64 {
	if x < -708 {
		return 0
	}
	n := math.Floor(float64(x*math.Log2E) + 0.5)
	r := (x - float64(n*ln2Hi)) - float64(n*ln2Lo)

	r2 := float64(r * r)
	r4 := float64(r2 * r2)
	p01 := 0.50000000000000184039 + float64(r*0.1666666666666668082)
	p23 := 0.04166666666648795252 + float64(r*0.0083333333333195896163)
	p45 := 0.0013888888952352862866 + float64(r*0.00019841269890076402829)
	p67 := 0.000024801485441561312966 + float64(r*2.7557240887229868596e-6)
	p89 := 2.763265472252779189e-7 + float64(r*2.5110049204818659793e-8)
	low, high := p01+float64(r2*p23), p45+float64(r2*p67)
	p := low + float64(r4*(high+float64(r4*p89)))

	scale := math.Float64frombits(uint64(int64(n)+1023) << 52) // 2^n; a product with it is exact
	return float64((1 + (r + float64(r2*p))) * scale)
}
