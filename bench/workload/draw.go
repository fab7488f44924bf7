package workload

import (
	"math"
	"math/rand/v2"
)

// draw draws gaps of mean 1 for one arrival process.
type draw struct {
	process Process
	shape   float64 // of Gamma
}

// gap is the next gap, of mean 1.
func (d draw) gap(r *rand.Rand) float64 {
	switch d.process {
	case Constant:
		return 1
	case Uniform:
		return 2 * r.Float64()
	case Gamma:
		return gamma(r, d.shape)
	}
	return exponential(r)
}

// exponential: 1 - Float64 is never 0.
func exponential(r *rand.Rand) float64 { return -ln(1 - r.Float64()) }

// gamma draws from the Gamma distribution of that shape and mean 1 (Marsaglia
// and Tsang; below shape 1 a draw of shape + 1 is scaled by a power of a
// uniform one).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return exponential(r)
	}
	boost, k := 1.0, shape
	if shape < 1 {
		boost, k = exp(ln(1-r.Float64())/shape), shape+1
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := normal(r)
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		if ln(1-r.Float64()) < float64(float64(x*x)/2)+d-float64(d*v)+float64(d*ln(v)) {
			return float64(float64(d*v)*boost) / shape
		}
	}
}

// normal draws from the standard normal distribution (Marsaglia's polar
// method).
func normal(r *rand.Rand) float64 {
	for {
		u, v := float64(2*r.Float64())-1, float64(2*r.Float64())-1
		s := float64(u*u) + float64(v*v)
		if s > 0 && s < 1 {
			return float64(u * math.Sqrt(-2*ln(s)/s))
		}
	}
}
