package ingress

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// binding is an input of the request that has been found to fit the model.
type binding struct {
	spec *catalog.TensorSpec
	data []byte // all items, little-endian
	from int    // of data in the exchange's scratch, while that still grows; -1: data is there
}

// wanted is an output that the reply shall have.
type wanted struct {
	spec    *catalog.TensorSpec
	index   int // in the model's outputs
	binary  bool
	classes int
	region  *oip.Region // where it is to be written; nil: into the reply
}

// batch is how many items the request has. batched: its shapes have a leading
// dimension for them.
type batch struct {
	items   int
	batched bool
}

// bind compares the inputs with the model, before any is decoded, and then
// decodes what is JSON.
func (s *Server) bind(x *exchange, spec *catalog.ModelSpec) (batch, error) {
	var b batch
	for i := range x.request.Inputs {
		t := &x.request.Inputs[i]
		want := slices.IndexFunc(spec.Inputs, func(in catalog.TensorSpec) bool { return string(t.Name) == in.Name })
		if want < 0 {
			return b, oip.Errorf(oip.Field("inputs", i, "name"), "%q is no input of model %s, which takes %s", t.Name, spec.Name, names(spec.Inputs))
		}
		own, err := s.fit(t, i, &spec.Inputs[want], spec.MaxBatch > 0)
		if err != nil {
			return b, err
		}
		if i > 0 && own != b {
			return b, oip.Errorf(oip.Field("inputs", i, "shape"), "%v is a batch of %d items, the input before it has %d", t.Shape, own.items, b.items)
		}
		b = own
		x.bound = append(x.bound, binding{spec: &spec.Inputs[want], data: t.Binary, from: -1})
	}
	if len(x.bound) != len(spec.Inputs) {
		return b, oip.Errorf("inputs", "model %s takes %s, the request has %d of them", spec.Name, names(spec.Inputs), len(x.bound))
	}
	return b, s.decode(x)
}

func names(specs []catalog.TensorSpec) string {
	out := ""
	for i, s := range specs {
		if i > 0 {
			out += ", "
		}
		out += strconv.Quote(s.Name)
	}
	return out
}

// fit compares one input's type and shape with the model's.
func (s *Server) fit(t *oip.Input, i int, want *catalog.TensorSpec, batches bool) (batch, error) {
	if t.Type != want.Type {
		return batch{}, oip.Errorf(oip.Field("inputs", i, "datatype"), "%s, the model takes %s", t.Type, want.Type)
	}
	if batches && len(t.Shape) == len(want.Shape)+1 && slices.Equal(t.Shape[1:], want.Shape) {
		if err := s.CheckItems(t.Shape[0], i); err != nil {
			return batch{}, err
		}
		return batch{int(t.Shape[0]), true}, nil
	}
	if slices.Equal(t.Shape, want.Shape) {
		return batch{1, false}, nil
	}
	return batch{}, oip.Errorf(oip.Field("inputs", i, "shape"), "%v, the model takes %v", t.Shape, outer(want.Shape, batches))
}

// outer is a shape as clients see it: -1 stands for the batch.
func outer(shape []int64, batches bool) []int64 {
	if !batches {
		return append([]int64{}, shape...)
	}
	return append([]int64{-1}, shape...)
}

// decode turns JSON data into tensors. Shapes are the model's by now, so the
// sizes are bounded.
func (s *Server) decode(x *exchange) error {
	for i := range x.bound {
		b, t := &x.bound[i], &x.request.Inputs[i]
		if t.JSON == nil && t.Region.Name == nil {
			continue
		}
		elements, _ := oip.Elements(t.Shape)
		size := elements * int64(max(t.Type.Size(), 0))
		if err := s.hold(x, size); err != nil {
			return err
		}
		x.scratch = slices.Grow(x.scratch, int(size))
		b.from = len(x.scratch)
		var err error
		if t.Region.Name != nil {
			err = s.fetch(x, t, i, int(size))
		} else {
			x.scratch, err = t.Decode(x.scratch, i)
		}
		if err != nil {
			return err
		}
	}
	end := len(x.scratch)
	for i := len(x.bound) - 1; i >= 0; i-- {
		if b := &x.bound[i]; b.from >= 0 {
			b.data, end = x.scratch[b.from:end:end], b.from
		}
	}
	return nil
}

// items makes the inferences' inputs: items times inputs tensors, views of
// the bound data.
func (x *exchange) items(b batch) []frontend.Tensor {
	n := len(x.bound)
	x.tensors = slices.Grow(x.tensors[:0], b.items*n)[:b.items*n]
	for i := range x.bound {
		spec, rest := x.bound[i].spec, x.bound[i].data
		size := int(spec.ByteSize())
		for k := range b.items {
			x.tensors[k*n+i] = frontend.Tensor{Name: spec.Name, Type: spec.Type, Shape: spec.Shape, Data: rest[:size:size]}
			rest = rest[size:]
		}
	}
	return x.tensors
}

// choose notes the outputs that the reply shall have, and in which form.
func (x *exchange) choose(spec *catalog.ModelSpec) error {
	if len(x.request.Outputs) == 0 {
		for i := range spec.Outputs {
			x.wanted = append(x.wanted, wanted{spec: &spec.Outputs[i], index: i, binary: x.request.BinaryOutputs})
		}
	}
	for i := range x.request.Outputs {
		o := &x.request.Outputs[i]
		index := slices.IndexFunc(spec.Outputs, func(t catalog.TensorSpec) bool { return string(o.Name) == t.Name })
		if index < 0 {
			return oip.Errorf(oip.Field("outputs", i, "name"), "%q is no output of model %s, which has %s", o.Name, spec.Name, names(spec.Outputs))
		}
		w := wanted{spec: &spec.Outputs[index], index: index, binary: x.request.BinaryOutputs, classes: int(min(o.Classes, 1<<30))}
		if o.BinarySet {
			w.binary = o.Binary
		}
		if o.Region.Name != nil {
			w.region, w.binary = &o.Region, false
		}
		x.wanted = append(x.wanted, w)
	}
	for i, w := range x.wanted {
		if w.spec.Type == catalog.FP16 && !w.binary && w.classes == 0 && w.region == nil {
			return oip.Errorf(fmt.Sprintf("outputs[%d]", i), "%q is FP16, which has no JSON form: ask for binary_data, or binary_data_output for all", w.spec.Name)
		}
	}
	return nil
}
