package frontend

import (
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
	if t.Type == catalog.Bytes {
		return badInput(model, "input %q is BYTES (text), which is not served: models here take numbers", want.Name)
	}
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
	if int64(len(t.Data)) != want.ByteSize() {
		return badInput(model, "input %q has %d bytes, its shape says %d", want.Name, len(t.Data), want.ByteSize())
	}
	return nil
}

// unserved is why no model with these tensors can be asked for; nil where all is well.
func (m *model) unserved() *Error {
	if m.inputs >= 0 && m.outputs >= 0 {
		return nil
	}
	spec := &m.entry.Spec
	side, tensors := "input", spec.Inputs
	if m.inputs >= 0 {
		side, tensors = "output", spec.Outputs
	}
	i := slices.IndexFunc(tensors, func(t catalog.TensorSpec) bool { return t.ByteSize() < 0 })
	return badInput(spec.Name, "its %s %q is %s, which is not served: tensors here are numbers, of a fixed size", side, tensors[i].Name, tensors[i].Type)
}

// write lays the tensors out in the slab.
func (m *model) write(slab []byte, tensors []*Tensor) {
	for _, t := range tensors {
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
		if int64(len(rest)) < n {
			return false
		}
		r.Outputs = append(r.Outputs, Tensor{Name: specs[i].Name, Type: specs[i].Type, Shape: specs[i].Shape, Data: rest[:n:n]})
		rest = rest[n:]
	}
	return len(rest) == 0
}
