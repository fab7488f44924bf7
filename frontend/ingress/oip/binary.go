package oip

import (
	"encoding/binary"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// cutBinary gives each input with a binary_data_size its bytes, in the order
// of the inputs, and checks that they are all of them and fit the shapes.
func (r *Request) cutBinary(rest []byte) error {
	for i := range r.Inputs {
		t := &r.Inputs[i]
		if t.size < 0 {
			continue
		}
		if rest == nil {
			return Errorf(Field("inputs", i, "parameters.binary_data_size"),
				"%d bytes announced, but the header Inference-Header-Content-Length is missing", t.size)
		}
		if t.size > int64(len(rest)) {
			return Errorf(Field("inputs", i, "parameters.binary_data_size"),
				"%d bytes announced, the body has only %d more", t.size, len(rest))
		}
		t.Binary = rest[:t.size:t.size]
		rest = rest[t.size:]
		if err := t.checkBinary(i); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return Errorf("inputs", "the body has %d bytes more than its binary tensors (binary_data_size) account for", len(rest))
	}
	return nil
}

func (t *Input) checkBinary(i int) error {
	elements, _ := Elements(t.Shape) // complete checked for overflow
	if t.Type == catalog.Bytes {
		return CheckBytes(t.Binary, elements, Field("inputs", i, "data"))
	}
	if size := int64(t.Type.Size()); t.size/size != elements || t.size%size != 0 {
		return Errorf(Field("inputs", i, "parameters.binary_data_size"),
			"%d bytes, its shape %v of %s takes %d elements of %d", t.size, t.Shape, t.Type, elements, size)
	}
	return nil
}

// CheckBytes checks that b is so many BYTES elements: uint32 length + bytes.
func CheckBytes(b []byte, elements int64, field string) error {
	n := int64(0)
	for at := 0; at < len(b); n++ {
		length, ok := elementLength(b[at:])
		if !ok {
			return Errorf(field, "BYTES element %d, at byte %d, is longer than what is left of the tensor", n, at)
		}
		if n == elements {
			return Errorf(field, "more than the %d BYTES elements of its shape", elements)
		}
		at += length
	}
	if n != elements {
		return Errorf(field, "%d BYTES elements, its shape says %d", n, elements)
	}
	return nil
}

// elementLength is the bytes of b's first BYTES element, length field included.
func elementLength(b []byte) (int, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(b)) + 4
	return int(n), n <= int64(len(b))
}

// SkipBytes cuts the first n elements off a checked BYTES tensor.
func SkipBytes(b []byte, n int64) (head, rest []byte) {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		length, ok := elementLength(b[at:])
		if !ok {
			break
		}
		at += length
	}
	return b[:at:at], b[at:]
}
