package onnxfile

import "math"

// ToHalf is the float16 nearest to v, as its bits; ties go to the even one. What is
// beyond 65504 becomes infinite.
func ToHalf(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, exponent, fraction := uint16(bits>>16&0x8000), int(bits>>23&0xff)-127, bits&0x7fffff
	switch {
	case exponent == 128 && fraction != 0: // not a number
		return sign | 0x7e00
	case exponent > 15:
		return sign | 0x7c00
	case exponent >= -14:
		// A carry out of the fraction raises the exponent: up to infinity, as it should.
		return sign + uint16(roundShift(uint32(exponent+15)<<23|fraction, 13))
	case exponent >= -25: // subnormal, in units of 2^-24
		return sign + uint16(roundShift(fraction|0x800000, uint(-exponent-1)))
	default:
		return sign
	}
}

// roundShift is v >> n to the nearest, ties to even.
func roundShift(v uint32, n uint) uint32 {
	kept, rest, half := v>>n, v&(1<<n-1), uint32(1)<<(n-1)
	if rest > half || rest == half && kept&1 == 1 {
		kept++
	}
	return kept
}
