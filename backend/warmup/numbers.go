package warmup

import (
	"encoding/binary"
	"math"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// isFloat reports whether a type has fractions.
func isFloat(t catalog.DataType) bool {
	return t == catalog.FP16 || t == catalog.FP32 || t == catalog.FP64
}

// bounds are the least and the largest number of a type that a float64 and the type both have.
func bounds(t catalog.DataType) (lo, hi float64) {
	switch t {
	case catalog.Bool:
		return 0, 1
	case catalog.Uint8, catalog.Uint16, catalog.Uint32:
		return 0, float64(uint64(1)<<(8*t.Size()) - 1)
	case catalog.Uint64, catalog.Int64:
		lo = -(1 << 53)
		if t == catalog.Uint64 {
			lo = 0
		}
		return lo, 1 << 53
	case catalog.Int8, catalog.Int16, catalog.Int32:
		return -float64(uint64(1) << (8*t.Size() - 1)), float64(uint64(1)<<(8*t.Size()-1) - 1)
	case catalog.FP16:
		return -65504, 65504
	case catalog.FP32:
		return -math.MaxFloat32, math.MaxFloat32
	}
	return -math.MaxFloat64 / 4, math.MaxFloat64 / 4 // their difference is finite
}

// between is the number in lo to hi that a draw gives: of integers each of them, hi included.
func between(t catalog.DataType, lo, hi float64, draw uint64) float64 {
	if isFloat(t) {
		return lo + (hi-lo)*(float64(draw>>11)/(1<<53))
	}
	lo, hi = math.Ceil(lo), math.Floor(hi)
	return lo + float64(draw%(uint64(hi-lo)+1))
}

// constant fills dst with one number, or with the nearest that the type has.
func constant(dst []byte, t catalog.DataType, v float64) {
	lo, hi := bounds(t)
	v = min(max(v, lo), hi)
	for n := t.Size(); len(dst) >= n; dst = dst[n:] {
		put(dst, t, v)
	}
}

// put writes a number in its type's bytes.
func put(dst []byte, t catalog.DataType, v float64) {
	switch t {
	case catalog.Bool, catalog.Uint8:
		dst[0] = uint8(v)
	case catalog.Int8:
		dst[0] = uint8(int8(v))
	case catalog.Uint16:
		binary.LittleEndian.PutUint16(dst, uint16(v))
	case catalog.Int16:
		binary.LittleEndian.PutUint16(dst, uint16(int16(v)))
	case catalog.Uint32:
		binary.LittleEndian.PutUint32(dst, uint32(v))
	case catalog.Int32:
		binary.LittleEndian.PutUint32(dst, uint32(int32(v)))
	case catalog.Uint64:
		binary.LittleEndian.PutUint64(dst, uint64(v))
	case catalog.Int64:
		binary.LittleEndian.PutUint64(dst, uint64(int64(v)))
	case catalog.FP16:
		binary.LittleEndian.PutUint16(dst, half(v))
	case catalog.FP32:
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(v)))
	case catalog.FP64:
		binary.LittleEndian.PutUint64(dst, math.Float64bits(v))
	}
}

// half is a number as FP16, cut off towards zero, and zero where it is too small for its
// exponent: warm-up inputs need no more.
func half(v float64) uint16 {
	bits := math.Float64bits(v)
	sign := uint16(bits>>48) & 0x8000
	exponent := int(bits>>52&0x7ff) - 1023 + 15
	switch {
	case exponent <= 0:
		return sign
	case exponent >= 31:
		return sign | 0x7bff // the largest
	}
	return sign | uint16(exponent)<<10 | uint16(bits>>42&0x3ff)
}
