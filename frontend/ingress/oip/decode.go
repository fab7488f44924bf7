package oip

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Decode appends the tensor's JSON data to dst, little-endian and row-major.
// The caller has made sure that type and shape are the model's: they bound
// what is appended. index is the input's, for errors.
func (t *Input) Decode(dst []byte, index int) ([]byte, error) {
	d := decoder{t: t, scanner: scanner{b: t.JSON, from: t.from, at: place{section: "inputs", index: index, key: "data", element: -1}}}
	switch t.Type {
	case catalog.FP16:
		return dst, d.fail("FP16 has no JSON form: send it as binary data (binary_data_size)")
	case catalog.Bool, catalog.FP32, catalog.FP64:
	case catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64:
		d.bits = uint(8 * t.Type.Size())
	default:
		d.bits, d.signed = uint(8*t.Type.Size()), true
	}
	return d.level(dst, 0)
}

// decoder reads one tensor's data.
type decoder struct {
	scanner
	t      *Input
	count  int64 // elements so far
	bits   uint  // of integers
	signed bool
}

// level reads one array: of arrays while the data is nested, else of
// elements. Nested, its length must be the shape's; where elements stand, all
// that is left of the shape lies flat.
func (d *decoder) level(dst []byte, k int) ([]byte, error) {
	if err := d.open('[', "an array"); err != nil {
		return dst, err
	}
	if d.peek() != '[' {
		return d.flat(dst, k)
	}
	if k+1 >= len(d.t.Shape) {
		return dst, d.fail("nested deeper than its shape %v", d.t.Shape)
	}
	for n := int64(1); ; n++ {
		if n > d.t.Shape[k] {
			return dst, d.fail("more than %d arrays at level %d, its shape is %v", d.t.Shape[k], k, d.t.Shape)
		}
		var err error
		if dst, err = d.level(dst, k+1); err != nil {
			return dst, err
		}
		again, err := d.more(']', "',' or ']'")
		if err != nil {
			return dst, err
		}
		if !again {
			if n != d.t.Shape[k] {
				return dst, d.fail("%d arrays at level %d, its shape is %v", n, k, d.t.Shape)
			}
			return dst, nil
		}
	}
}

// flat reads the elements of one array up to its end.
func (d *decoder) flat(dst []byte, k int) ([]byte, error) {
	want, _ := Elements(d.t.Shape[min(k, len(d.t.Shape)):])
	n := int64(0)
	floats := d.t.Type == catalog.FP32 || d.t.Type == catalog.FP64
	if d.peek() == ']' {
		d.i++
		d.depth--
	} else {
		for again := true; again; n++ {
			if floats { // all errors, and the last element, are left to what follows
				var k int64
				dst, k = d.run(dst, want-1-n)
				n, d.count = n+k, d.count+k
			}
			if n == want {
				return dst, d.fail("more than %d elements in an array at level %d, its shape is %v", want, k, d.t.Shape)
			}
			var err error
			if dst, err = d.element(dst); err != nil {
				return dst, err
			}
			d.count++
			if again, err = d.more(']', "',' or ']'"); err != nil {
				return dst, err
			}
		}
	}
	if n != want {
		return dst, d.fail("%d elements in an array at level %d, its shape %v says %d", n, k, d.t.Shape, want)
	}
	return dst, nil
}

// element reads one element.
func (d *decoder) element(dst []byte) ([]byte, error) {
	switch {
	case d.t.Type == catalog.FP32:
		v, err := d.float(32)
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v))), err
	case d.t.Type == catalog.FP64:
		v, err := d.float(64)
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v)), err
	case d.t.Type == catalog.Bool:
		return d.bool(dst)
	}
	v, err := d.integer()
	switch d.bits {
	case 8:
		return append(dst, byte(v)), err
	case 16:
		return binary.LittleEndian.AppendUint16(dst, uint16(v)), err
	case 32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v)), err
	}
	return binary.LittleEndian.AppendUint64(dst, v), err
}

// wrong names the element.
func (d *decoder) wrong(format string, args ...any) error {
	d.at.element = int(d.count)
	return d.fail(format, args...)
}

func (d *decoder) bool(dst []byte) ([]byte, error) {
	switch c := d.peek(); c {
	case 't', 'f':
		v, err := d.boolean()
		if v {
			return append(dst, 1), err
		}
		return append(dst, 0), err
	case '0', '1':
		d.i++
		return append(dst, c-'0'), nil
	}
	return dst, d.wrong("true or false expected, for BOOL")
}

// text10 reads a number's text, which begins at from; errors name the element.
func (d *decoder) text10(from int, want string) ([]byte, error) {
	d.at.element = int(d.count)
	text, err := d.number()
	if err != nil && d.i == from {
		return nil, d.unexpected(want)
	}
	d.at.element = -1
	return text, err
}

// integer reads an integer of the type's range, as its two's complement.
func (d *decoder) integer() (uint64, error) {
	d.ws()
	from := d.i
	text, err := d.text10(from, "a number")
	if err != nil {
		return 0, err
	}
	if d.signed {
		v, err := strconv.ParseInt(string(text), 10, int(d.bits))
		if err != nil {
			return 0, d.notInteger(text)
		}
		return uint64(v), nil
	}
	v, err := strconv.ParseUint(string(text), 10, int(d.bits))
	if err != nil {
		return 0, d.notInteger(text)
	}
	return v, nil
}

func (d *decoder) notInteger(text []byte) error {
	for _, c := range text {
		if c == '.' || c|0x20 == 'e' {
			return d.wrong("%s is not an integer, for %s", text, d.t.Type)
		}
	}
	return d.wrong("%s is out of the range of %s", text, d.t.Type)
}
