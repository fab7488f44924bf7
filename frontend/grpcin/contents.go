package grpcin

import (
	"encoding/binary"
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// list is the field of InferTensorContents that has a type's elements; 0: there is none.
func list(t catalog.DataType) (field protowire.Number, name string) {
	switch t {
	case catalog.Bool:
		return 1, "bool_contents"
	case catalog.Int8, catalog.Int16, catalog.Int32:
		return 2, "int_contents"
	case catalog.Int64:
		return 3, "int64_contents"
	case catalog.Uint8, catalog.Uint16, catalog.Uint32:
		return 4, "uint_contents"
	case catalog.Uint64:
		return 5, "uint64_contents"
	case catalog.FP32:
		return 6, "fp32_contents"
	case catalog.FP64:
		return 7, "fp64_contents"
	}
	return 0, ""
}

// decode writes the typed contents to dst, which they must fill.
func (t *input) decode(dst []byte, i int, of catalog.DataType) error {
	field, name := list(of)
	at := func() string { return oip.Field("inputs", i, "contents") }
	if field == 0 {
		return oip.Errorf(at(), "%s has none: send it as raw_input_contents", of)
	}
	size, all := of.Size(), len(dst)
	count := 0
	one := func(v uint64) error {
		if len(dst) == 0 {
			return oip.Errorf(at(), "more than the %d elements that the shape says", all/size)
		}
		if !put(dst, of, v) {
			return oip.Errorf(at(), "%s[%d] does not fit %s", name, count, of)
		}
		dst, count = dst[size:], count+1
		return nil
	}
	err := t.elements(i, of, one)
	if err == nil && len(dst) > 0 {
		return oip.Errorf(at(), "%d elements in %s, the shape says %d", count, name, all/size)
	}
	return err
}

// enough refuses typed contents that are too short for the shape, before memory is taken for what the
// shape says: a few bytes may have the shape of many megabytes.
func (t *input) enough(i int, want *catalog.TensorSpec, items int) error {
	field, name := list(want.Type)
	if field == 0 {
		return oip.Errorf(oip.Field("inputs", i, "contents"), "%s has none: send it as raw_input_contents", want.Type)
	}
	all := int64(items) * want.Elements()
	if int64(len(t.contents)) >= all*int64(max(1, width(want.Type))) {
		return nil
	}
	count := 0
	if err := t.elements(i, want.Type, func(uint64) error { count++; return nil }); err != nil {
		return err
	}
	return oip.Errorf(oip.Field("inputs", i, "contents"), "%d elements in %s, the shape says %d", count, name, all)
}

// elements calls one for each element of the typed contents.
func (t *input) elements(i int, of catalog.DataType, one func(uint64) error) error {
	field, name := list(of)
	at := func() string { return oip.Field("inputs", i, "contents") }
	err := fields(t.contents, func(number protowire.Number, kind protowire.Type, v uint64, b []byte) error {
		switch {
		case number != field && number <= 8:
			return oip.Errorf(at(), "has another list than %s, which is that of %s", name, of)
		case number != field:
			return nil
		case kind == protowire.VarintType:
			return one(v)
		case kind != protowire.BytesType:
			return one(fixed(b))
		}
		return packed(b, of, one)
	})
	var bad *oip.Error
	if err != nil && !errors.As(err, &bad) {
		return oip.Errorf(at(), "%v", err)
	}
	return err
}

// width is the bytes of an element in typed contents; 0: a varint.
func width(of catalog.DataType) int {
	switch of {
	case catalog.FP32:
		return 4
	case catalog.FP64:
		return 8
	}
	return 0
}

// packed calls one for each element of a packed list.
func packed(b []byte, of catalog.DataType, one func(uint64) error) error {
	step := width(of)
	for len(b) > 0 {
		v, n := uint64(0), step
		switch {
		case step == 0:
			v, n = protowire.ConsumeVarint(b)
		case step > len(b):
			n = -1
		default:
			v = fixed(b[:step])
		}
		if n < 0 {
			return errCut
		}
		if err := one(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func fixed(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// put writes an element; false where it does not fit the type.
func put(dst []byte, of catalog.DataType, v uint64) bool {
	signed := int64(int32(v)) // int_contents are int32, of which varints have 64 bits
	switch of {
	case catalog.Bool:
		if dst[0] = 0; v != 0 {
			dst[0] = 1
		}
	case catalog.Int8:
		dst[0] = byte(v)
		return signed >= math.MinInt8 && signed <= math.MaxInt8
	case catalog.Uint8:
		dst[0] = byte(v)
		return v <= math.MaxUint8
	case catalog.Int16:
		binary.LittleEndian.PutUint16(dst, uint16(v))
		return signed >= math.MinInt16 && signed <= math.MaxInt16
	case catalog.Uint16:
		binary.LittleEndian.PutUint16(dst, uint16(v))
		return v <= math.MaxUint16
	case catalog.Int32, catalog.Uint32, catalog.FP32:
		binary.LittleEndian.PutUint32(dst, uint32(v))
	default:
		binary.LittleEndian.PutUint64(dst, v)
	}
	return true
}
