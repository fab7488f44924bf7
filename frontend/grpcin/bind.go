package grpcin

import (
	"slices"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/frontend/regions"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// binding is an input that has been found to fit the model.
type binding struct {
	spec *catalog.TensorSpec
	from int // where its items begin in an item's slab
	size int // bytes of an item
	raw  int // which of the raw tensors; -1: typed contents, or shared memory
}

// wanted is an output that the reply shall have.
type wanted struct {
	spec    *catalog.TensorSpec
	index   int // in the model's outputs
	classes int
	region  *place // where it is to be written; nil: into the reply
	written int    // bytes that were
}

// batch is how many items a request has. batched: its shapes have a leading dimension for them.
type batch struct {
	items   int
	batched bool
}

// bind compares the request with the model. No tensor is looked at before its size is known to be
// right.
func (q *request) bind(spec *catalog.ModelSpec, web *ingress.Server) (b batch, err error) {
	raw := 0
	for i := range q.inputs {
		t := &q.inputs[i]
		at := find(spec.Inputs, t.name)
		if at < 0 {
			return b, oip.Errorf(oip.Field("inputs", i, "name"), "%q is no input of model %s, which takes %s", t.name, spec.Name, names(spec.Inputs))
		}
		if slices.ContainsFunc(q.inputs[:i], func(o input) bool { return string(o.name) == string(t.name) }) {
			return b, oip.Errorf(oip.Field("inputs", i, "name"), "%q is given twice", t.name)
		}
		want := &spec.Inputs[at]
		own, err := t.fit(i, want, spec.MaxBatch > 0, web)
		if err != nil {
			return b, err
		}
		if i > 0 && own != b {
			return b, oip.Errorf(oip.Field("inputs", i, "shape"), "%v is a batch of %d items, the input before it has %d", t.shape, own.items, b.items)
		}
		b = own
		k := binding{spec: want, from: offset(spec, at), size: int(want.ByteSize()), raw: -1}
		switch {
		case t.region.name != nil:
			if err := t.shared(i, own.items*k.size); err != nil {
				return b, err
			}
		case len(q.raw) > 0 && t.contented:
			return b, oip.Errorf(oip.Field("inputs", i, "contents"), "given, and raw_input_contents as well: one of them")
		case t.contented:
			if err := t.enough(i, want, own.items); err != nil {
				return b, err
			}
		case raw == len(q.raw):
			return b, oip.Errorf("raw_input_contents", "%d are given, and input %q has none, nor contents", len(q.raw), t.name)
		default:
			if n := q.raw[raw].n; n != own.items*k.size {
				return b, oip.Errorf("raw_input_contents", "the one of input %q has %d bytes, its shape %v of %s takes %d", t.name, n, t.shape, want.Type, own.items*k.size)
			}
			k.raw = raw
			raw++
		}
		q.bound = append(q.bound, k)
	}
	if len(q.bound) != len(spec.Inputs) {
		return b, oip.Errorf("inputs", "model %s takes %s, the request has %d of them", spec.Name, names(spec.Inputs), len(q.bound))
	}
	if raw != len(q.raw) {
		return b, oip.Errorf("raw_input_contents", "%d are given, for %d inputs", len(q.raw), raw)
	}
	return b, nil
}

// offset is where an input lies in a slab.
func offset(spec *catalog.ModelSpec, input int) (from int) {
	for i := range input {
		from += int(spec.Inputs[i].ByteSize())
	}
	return from
}

// fit compares one input's type and shape with the model's.
func (t *input) fit(i int, want *catalog.TensorSpec, batches bool, web *ingress.Server) (batch, error) {
	switch {
	case string(t.datatype) == string(catalog.Bytes) && want.Type != catalog.Bytes:
		return batch{}, oip.Errorf(oip.Field("inputs", i, "datatype"), "BYTES (text) is not served: models here take numbers, so turn text into them before it is sent")
	case string(t.datatype) != string(want.Type):
		return batch{}, oip.Errorf(oip.Field("inputs", i, "datatype"), "%q, the model takes %s", t.datatype, want.Type)
	case want.ByteSize() < 0:
		return batch{}, oip.Errorf(oip.Field("inputs", i, "datatype"), "%s is not served: tensors here are numbers, of a fixed size", want.Type)
	}
	if batches && len(t.shape) == len(want.Shape)+1 && slices.Equal(t.shape[1:], want.Shape) {
		if err := web.CheckItems(t.shape[0], i); err != nil {
			return batch{}, err
		}
		return batch{int(t.shape[0]), true}, nil
	}
	if slices.Equal(t.shape, want.Shape) {
		return batch{1, false}, nil
	}
	outer := want.Shape
	if batches {
		outer = append([]int64{-1}, outer...)
	}
	return batch{}, oip.Errorf(oip.Field("inputs", i, "shape"), "%v, the model takes %v", t.shape, outer)
}

// fill writes the one item's tensors to their places in a slab.
func (q *request) fill(slab []byte, shared *regions.Regions) error {
	for i := range q.bound {
		k := &q.bound[i]
		if err := q.read(slab[k.from:k.from+k.size], i, shared); err != nil {
			return err
		}
	}
	return nil
}

// read writes an input's tensor, of all items, to dst.
func (q *request) read(dst []byte, i int, shared *regions.Regions) error {
	k, t := &q.bound[i], &q.inputs[i]
	switch {
	case k.raw >= 0:
		copyView(dst, q.data, q.raw[k.raw], 0)
		return nil
	case t.region.name != nil:
		return shared.Read(string(t.region.name), t.region.offset, dst)
	}
	return t.decode(dst, i, k.spec.Type)
}

// copied is how many bytes the tensors of a batch take, beside the message that they came with.
func (q *request) copied(b batch) (bytes int) {
	for i := range q.bound {
		bytes += b.items * q.bound[i].size
	}
	return bytes
}

// items makes the inferences' inputs of a batch: items times inputs tensors.
func (q *request) items(b batch, shared *regions.Regions) ([]frontend.Tensor, error) {
	n, total := len(q.bound), q.copied(b)
	q.scratch = slices.Grow(q.scratch[:0], total)[:total]
	q.tensors = slices.Grow(q.tensors[:0], b.items*n)[:b.items*n]
	rest := q.scratch
	for i := range q.bound {
		k := &q.bound[i]
		all := rest[:b.items*k.size]
		rest = rest[len(all):]
		if err := q.read(all, i, shared); err != nil {
			return nil, err
		}
		for item := range b.items {
			q.tensors[item*n+i] = frontend.Tensor{Name: k.spec.Name, Type: k.spec.Type, Shape: k.spec.Shape, Data: all[item*k.size : (item+1)*k.size]}
		}
	}
	return q.tensors, nil
}

// choose notes the outputs that the reply shall have.
func (q *request) choose(spec *catalog.ModelSpec) error {
	for i := range spec.Outputs {
		if len(q.outputs) == 0 {
			q.wanted = append(q.wanted, wanted{spec: &spec.Outputs[i], index: i})
		}
	}
	for i := range q.outputs {
		o := &q.outputs[i]
		at := find(spec.Outputs, o.name)
		switch {
		case at < 0:
			return oip.Errorf(oip.Field("outputs", i, "name"), "%q is no output of model %s, which has %s", o.name, spec.Name, names(spec.Outputs))
		case slices.ContainsFunc(q.outputs[:i], func(p output) bool { return string(p.name) == string(o.name) }):
			return oip.Errorf(oip.Field("outputs", i, "name"), "%q is asked for twice", o.name)
		case o.region.name != nil && !o.region.sized:
			return oip.Errorf(oip.Field("outputs", i, "parameters.shared_memory_byte_size"), "missing")
		}
		w := wanted{spec: &spec.Outputs[at], index: at, classes: int(min(o.classes, 1<<30))}
		if o.region.name != nil {
			w.region = &o.region
		}
		q.wanted = append(q.wanted, w)
	}
	return nil
}
