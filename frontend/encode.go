package frontend

import (
	"encoding/binary"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// order checks the request's tensors against the model and puts them in the
// model's order; the errors name the tensor.
func (m *model) order(inputs []Tensor, out []*Tensor) ([]*Tensor, *Error) {
	spec := &m.entry.Spec
	if len(inputs) != len(spec.Inputs) {
		return nil, badInput(spec.Name, "%d inputs, the model has %d", len(inputs), len(spec.Inputs))
	}
	for i := range spec.Inputs {
		want := &spec.Inputs[i]
		at := slices.IndexFunc(inputs, func(t Tensor) bool { return t.Name == want.Name })
		if at < 0 && len(inputs) == 1 && inputs[0].Name == "" {
			at = 0 // one nameless tensor can only mean the one input
		}
		if at < 0 {
			return nil, badInput(spec.Name, "input %q is missing", want.Name)
		}
		if err := checkTensor(spec.Name, &inputs[at], want); err != nil {
			return nil, err
		}
		out = append(out, &inputs[at])
	}
	return out, nil
}

func checkTensor(model string, t *Tensor, want *catalog.TensorSpec) *Error {
	if t.Type != want.Type {
		return badInput(model, "input %q is %s, the model takes %s", want.Name, t.Type, want.Type)
	}
	shape := t.Shape
	if len(shape) == len(want.Shape)+1 && shape[0] == 1 {
		shape = shape[1:]
	}
	if !slices.Equal(shape, want.Shape) {
		return badInput(model, "input %q has shape %v, the model takes %v", want.Name, t.Shape, want.Shape)
	}
	if want.Type == catalog.Bytes {
		if n := countBytes(t.Data); int64(n) != want.Elements() {
			return badInput(model, "input %q has %d BYTES elements, its shape says %d", want.Name, n, want.Elements())
		}
		return nil
	}
	if int64(len(t.Data)) != want.ByteSize() {
		return badInput(model, "input %q has %d bytes, its shape says %d", want.Name, len(t.Data), want.ByteSize())
	}
	return nil
}

// countBytes counts the elements of a BYTES tensor; -1 when it is cut.
func countBytes(b []byte) int {
	n := 0
	for ; len(b) > 0; n++ {
		if len(b) < 4 {
			return -1
		}
		length := int64(binary.LittleEndian.Uint32(b))
		if length > int64(len(b)-4) {
			return -1
		}
		b = b[4+length:]
	}
	return n
}

// size is the bytes that the tensors take in a slab (catalog.ModelSpec).
func (m *model) size(tensors []*Tensor) int {
	if m.inputs >= 0 {
		return m.inputs
	}
	n := 0
	for _, t := range tensors {
		n += 4 + len(t.Data)
	}
	return n
}

// write lays the tensors out in the slab.
func (m *model) write(slab []byte, tensors []*Tensor) {
	for _, t := range tensors {
		if m.inputs < 0 {
			binary.LittleEndian.PutUint32(slab, uint32(len(t.Data)))
			slab = slab[4:]
		}
		slab = slab[copy(slab, t.Data):]
	}
}

// read cuts an item's output payload into r's tensors; false when it does not
// fit the model.
func (m *model) read(payload []byte, r *Response) bool {
	if len(payload) > 0 && (len(r.data) != len(payload) || &r.data[0] != &payload[0]) {
		copy(r.room(len(payload)), payload) // it lies in the link's own buffer
	}
	rest := r.data[:len(payload)]
	specs := m.entry.Spec.Outputs
	r.Outputs = r.few[:0]
	for i := range specs {
		n := specs[i].ByteSize()
		if m.outputs < 0 {
			if len(rest) < 4 {
				return false
			}
			n = int64(binary.LittleEndian.Uint32(rest))
			rest = rest[4:]
		}
		if int64(len(rest)) < n {
			return false
		}
		r.Outputs = append(r.Outputs, Tensor{Name: specs[i].Name, Type: specs[i].Type, Shape: specs[i].Shape, Data: rest[:n:n]})
		rest = rest[n:]
	}
	return len(rest) == 0
}
