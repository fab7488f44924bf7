package oip

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// run reads up to n floats, each plain enough for short and followed by a
// comma. It stops before the first that is not; it never fails.
func (d *decoder) run(dst []byte, n int64) ([]byte, int64) {
	single := d.t.Type == catalog.FP32
	for k := int64(0); ; k++ {
		if k >= n {
			return dst, k
		}
		d.ws()
		v, end, ok := short(d.b, d.i, single)
		if !ok || end >= len(d.b) || d.b[end] != ',' {
			return dst, k
		}
		if single {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
		} else {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
		d.i = end + 1
	}
}

// short reads a number of at most 15 digits without an exponent. Its digits
// and its power of ten are exact as FP64, so one division rounds right. Rounded
// again, to FP32, it is still right unless the first rounding fell on the
// middle between two FP32 values, where the side is lost: then, and for all
// that is not plain, ok is false.
func short(b []byte, i int, single bool) (v float64, end int, ok bool) {
	negative := i < len(b) && b[i] == '-'
	if negative {
		i++
	}
	from, mantissa, point := i, uint64(0), -1
	for ; i < len(b) && i-from <= 16; i++ {
		if c := b[i] - '0'; c < 10 {
			mantissa = mantissa*10 + uint64(c)
		} else if b[i] == '.' && point < 0 {
			point = i
		} else {
			break
		}
	}
	digits, after := i-from, 0
	if point >= 0 {
		digits, after = digits-1, i-point-1
	}
	switch {
	case digits == 0 || digits > 15 || point == from || point >= 0 && after == 0:
		return 0, 0, false
	case b[from] == '0' && digits > 1 && point != from+1:
		return 0, 0, false // a number must not begin with 0
	case i < len(b) && b[i]|0x20 == 'e':
		return 0, 0, false
	}
	v = float64(mantissa) / power(after)
	if single && mantissa != 0 {
		const low = 1<<29 - 1 // the bits that FP32 has no room for
		if math.Float64bits(v)&low == 1<<28 || v < 0x1p-126 {
			return 0, 0, false
		}
	}
	if negative {
		v = -v
	}
	return v, i, true
}

// power is ten to the n.
func power(n int) float64 {
	return [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}[n]
}

// float reads a number, rounded once, to the nearest of the type.
func (d *decoder) float(bits int) (float64, error) {
	d.ws()
	if v, end, ok := short(d.b, d.i, bits == 32); ok {
		d.i = end
		return v, nil
	}
	text, err := d.text10(d.i, "a number (NaN and infinity have no JSON form: send binary data)")
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(text), bits)
	if err != nil {
		return 0, d.wrong("%s is out of the range of %s", text, d.t.Type)
	}
	return v, nil
}
