package oip

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Reply is an infer reply.
type Reply struct {
	Model, Version string
	ID             []byte // nil: none was given
	Parameters     []Parameter
	Outputs        []Result
}

// Parameter is a number told beside the outputs, or a text where there is one, or true.
type Parameter struct {
	Name  string
	Value int64
	Text  string
	Yes   bool
}

// Result is one output tensor. Its bytes are those of Parts, one after the
// other: the items of a batch, each from another inference.
type Result struct {
	Name   string
	Type   catalog.DataType
	Shape  []int64
	Parts  [][]byte
	Binary bool
	Region *Region // where the tensor was written to; nil: it is in the reply
}

// Size is the bytes of the tensor.
func (o *Result) Size() int {
	n := 0
	for _, p := range o.Parts {
		n += len(p)
	}
	return n
}

// HasBinary reports whether an output follows the header as bytes.
func (r *Reply) HasBinary() bool {
	for i := range r.Outputs {
		if r.Outputs[i].Binary {
			return true
		}
	}
	return false
}

// AppendHeader appends the JSON. The error is an *Error that says which output
// has no JSON form.
func (r *Reply) AppendHeader(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	if r.ID != nil {
		dst = append(AppendString(append(dst, `"id":`...), r.ID), ',')
	}
	dst = appendKey(dst, "model_name", r.Model)
	dst = appendKey(append(dst, ','), "model_version", r.Version)
	if len(r.Parameters) > 0 {
		dst = append(dst, `,"parameters":`...)
		for i, p := range r.Parameters {
			dst = append(dst, ",{"[b2i(i == 0)])
			dst = append(AppendString(dst, []byte(p.Name)), ':')
			switch {
			case p.Yes:
				dst = append(dst, "true"...)
			case p.Text != "":
				dst = AppendString(dst, []byte(p.Text))
			default:
				dst = strconv.AppendInt(dst, p.Value, 10)
			}
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"outputs":[`...)
	for i := range r.Outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = r.Outputs[i].append(dst, i); err != nil {
			return dst, err
		}
	}
	return append(dst, "]}"...), nil
}

// AppendBinary appends the binary outputs, which follow the header.
func (r *Reply) AppendBinary(dst []byte) []byte {
	for i := range r.Outputs {
		if r.Outputs[i].Binary {
			for _, p := range r.Outputs[i].Parts {
				dst = append(dst, p...)
			}
		}
	}
	return dst
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func appendKey(dst []byte, key, value string) []byte {
	dst = append(AppendString(dst, []byte(key)), ':')
	return AppendString(dst, []byte(value))
}

func (o *Result) append(dst []byte, index int) ([]byte, error) {
	dst = appendKey(append(dst, '{'), "name", o.Name)
	dst = appendKey(append(dst, ','), "datatype", string(o.Type))
	dst = append(dst, `,"shape":[`...)
	for i, d := range o.Shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, d, 10)
	}
	dst = append(dst, ']')
	if r := o.Region; r != nil {
		dst = append(AppendString(append(dst, `,"parameters":{"shared_memory_region":`...), r.Name), `,"shared_memory_byte_size":`...)
		dst = strconv.AppendInt(dst, int64(o.Size()), 10)
		if r.Offset > 0 {
			dst = strconv.AppendInt(append(dst, `,"shared_memory_offset":`...), r.Offset, 10)
		}
		// Triton's client for C++, which is in perf_analyzer, takes no parameters without this one.
		return append(dst, `,"binary_data_size":0}}`...), nil
	}
	if o.Binary {
		dst = append(dst, `,"parameters":{"binary_data_size":`...)
		return append(strconv.AppendInt(dst, int64(o.Size()), 10), "}}"...), nil
	}
	dst = append(dst, `,"data":[`...)
	for _, p := range o.Parts {
		var err error
		if dst, err = appendData(dst, o.Type, p, Field("outputs", index, o.Name)); err != nil {
			return dst, err
		}
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, "]}"...), nil
}

// appendData writes elements, each followed by a comma.
func appendData(dst []byte, t catalog.DataType, b []byte, field string) ([]byte, error) {
	if t == catalog.Bytes {
		return appendTexts(dst, b, field)
	}
	size := t.Size()
	if size <= 0 || t == catalog.FP16 {
		return dst, Errorf(field, "%s has no JSON form: ask for binary_data", t)
	}
	for ; len(b) >= size; b = b[size:] {
		dst = append(AppendElement(dst, t, b), ',')
	}
	return dst, nil
}

// elementLength is the bytes of b's first BYTES element: a uint32 of its length, and it.
func elementLength(b []byte) (int, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(b)) + 4
	return int(n), n <= int64(len(b))
}

// appendTexts writes BYTES, which only the classification extension makes.
func appendTexts(dst, b []byte, field string) ([]byte, error) {
	for len(b) > 0 {
		n, ok := elementLength(b)
		if !ok {
			return dst, Errorf(field, "its BYTES elements are cut")
		}
		if !utf8.Valid(b[4:n]) {
			return dst, Errorf(field, "it is not UTF-8 and has no JSON form: ask for binary_data")
		}
		dst = append(AppendString(dst, b[4:n]), ',')
		b = b[n:]
	}
	return dst, nil
}

// AppendElement writes the first element of b, of a type with a fixed size.
// Numbers that JSON does not have (NaN, infinity) are written as null.
func AppendElement(dst []byte, t catalog.DataType, b []byte) []byte {
	switch t {
	case catalog.FP32:
		return appendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
	case catalog.FP64:
		return appendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
	case catalog.Bool:
		return strconv.AppendBool(dst, b[0] != 0)
	case catalog.Uint8:
		return strconv.AppendUint(dst, uint64(b[0]), 10)
	case catalog.Uint16:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint16(b)), 10)
	case catalog.Uint32:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b)), 10)
	case catalog.Uint64:
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(b), 10)
	case catalog.Int8:
		return strconv.AppendInt(dst, int64(int8(b[0])), 10)
	case catalog.Int16:
		return strconv.AppendInt(dst, int64(int16(binary.LittleEndian.Uint16(b))), 10)
	case catalog.Int32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(b))), 10)
	}
	return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(b)), 10)
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// AppendString writes b as a JSON string. What is not UTF-8 becomes U+FFFD.
func AppendString(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(b) > 0 {
		n := 0
		for n < len(b) && b[n] >= 0x20 && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
			n++
		}
		dst, b = append(dst, b[:n]...), b[n:]
		if len(b) == 0 {
			break
		}
		switch c := b[0]; {
		case c == '"' || c == '\\':
			dst, b = append(dst, '\\', c), b[1:]
		case c < 0x20:
			dst, b = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15]), b[1:]
		default:
			r, size := utf8.DecodeRune(b)
			dst, b = utf8.AppendRune(dst, r), b[size:]
		}
	}
	return append(dst, '"')
}
