package workload

import "math/rand/v2"

// random is a stream of random numbers. The generator is held by value and
// asked directly: rand.Rand would call it through an interface.
type random struct{ pcg rand.PCG }

// newRandom is the stream of that number; streams of one seed look independent.
func newRandom(seed, stream uint64) random {
	var r random
	r.pcg.Seed(scramble(seed), scramble(stream^scramble(seed)))
	return r
}

// scramble is the finaliser of SplitMix64: near arguments, far results.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// bits are 64 random ones.
func (r *random) bits() uint64 { return r.pcg.Uint64() }

// uniform is in [0, 1): 53 random bits.
func (r *random) uniform() float64 { return float64(r.pcg.Uint64()>>11) * 0x1p-53 }

// positive is in (0, 1]: its logarithm is finite.
func (r *random) positive() float64 { return float64(r.pcg.Uint64()>>11+1) * 0x1p-53 }

// exponential is of mean 1.
func (r *random) exponential() float64 { return -ln(r.positive()) }

// whole is one of the two whole numbers next to x >= 0, of mean x.
func (r *random) whole(x float64) int64 {
	n := int64(x)
	if rest := x - float64(n); rest > 0 && r.uniform() < rest {
		n++
	}
	return n
}
