package oip

import (
	"encoding/binary"
	"math"
	"math/bits"
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
	from := i
	mantissa, i := digits(b, i, 0)
	whole, after := i-from, 0
	if i < len(b) && b[i] == '.' {
		point := i + 1
		mantissa, i = fraction(b, point, mantissa)
		if after = i - point; after == 0 {
			return 0, 0, false
		}
	}
	switch {
	case whole == 0 || whole+after > 15:
		return 0, 0, false
	case b[from] == '0' && whole > 1:
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

// digits reads decimal digits behind those of v, whose number is then end less i; with
// more than 16, v is of no use.
func digits(b []byte, i int, v uint64) (mantissa uint64, end int) {
	for most := i + 17; i < len(b) && i < most && b[i]-'0' < 10; i++ {
		v = v*10 + uint64(b[i]-'0')
	}
	return v, i
}

// fraction is digits for what stands behind a point: seven to nine digits mostly, and no
// way to predict how many. So it takes sixteen at once without a branch on their number:
// a loop over them was mispredicted where each ended, and that cost more than the digits.
func fraction(b []byte, i int, v uint64) (mantissa uint64, end int) {
	if i+16 > len(b) {
		return digits(b, i, v)
	}
	head, n := leading(binary.LittleEndian.Uint64(b[i:]))
	tail, m := leading(binary.LittleEndian.Uint64(b[i+8:]))
	if n < 8 { // a conditional move
		m = 0
	}
	v = v*ten(n) + eight(head<<(64-8*n))
	v = v*ten(m) + eight(tail<<(64-8*m))
	return v, i + int(n+m)
}

// leading is the digits' values, the first in the lowest byte, and how many there are
// before something else.
func leading(w uint64) (values uint64, n uint) {
	w ^= 0x3030303030303030
	other := (w + 0x7676767676767676 | w) & 0x8080808080808080 // behind the first that is none may be false ones
	return w, uint(bits.TrailingZeros64(other)) / 8
}

// eight joins eight digits, the first in the lowest byte, pairwise.
func eight(w uint64) uint64 {
	w = (w * (1 + 10<<8)) >> 8 & 0x00ff00ff00ff00ff
	w = (w * (1 + 100<<16)) >> 16 & 0x0000ffff0000ffff
	return (w * (1 + 10000<<32)) >> 32
}

// ten is ten to the n, as an integer.
func ten(n uint) uint64 {
	return [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}[n]
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
