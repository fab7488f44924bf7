package grpcin

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Limits of a message, those of HTTP.
const (
	tensorsMax = oip.TensorsMax
	dimsMax    = oip.DimsMax
)

// Fields of ModelInferRequest, and of what is in it.
const (
	fieldModel, fieldVersion, fieldID, fieldParameters, fieldInputs, fieldOutputs, fieldRaw = 1, 2, 3, 4, 5, 6, 7

	fieldName, fieldType, fieldShape, fieldInputParameters, fieldContents = 1, 2, 3, 4, 5

	fieldOutputParameters = 2
)

// request is a ModelInferRequest, and the scratch of its answer.
type request struct {
	data mem.BufferSlice // what came; holds a reference to each buffer while raw is looked at
	err  error           // why it is no request

	bytes     int    // of the message
	header    []byte // all fields but the raw tensors, in one piece: what follows are views of it
	model     []byte
	version   []byte
	id        []byte
	timeout   int64 // microseconds; 0: not given
	priority  uint8 // 0: the default
	effort    bool  // of best effort
	details   bool
	inputs    []input
	outputs   []output
	raw       []view // raw_input_contents, in data
	contented bool   // some input has typed contents

	bound   []binding
	wanted  []wanted
	scratch []byte // tensors that were put together of pieces
	tensors []frontend.Tensor
	slab    frontend.Reservation
	answers []*frontend.Response
	labels  []string
	times   []oip.Parameter
	outcome ingress.Outcome
	trace   tracing.Context
}

// input is one tensor of a request.
type input struct {
	name, datatype []byte
	shape          []int64
	contents       []byte // InferTensorContents, not decoded
	contented      bool
	region         place
}

// output is an output asked for.
type output struct {
	name    []byte
	classes int64 // parameter classification; 0: the tensor
	region  place
}

// place is where a tensor lies in shared memory.
type place struct {
	name         []byte // nil: not in shared memory
	size, offset uint64
	sized        bool
}

// take keeps the message's buffers and reads all but the tensors.
func (q *request) take(data mem.BufferSlice) {
	q.bytes = data.Len()
	if q.header, q.raw, q.err = split(data, q.header[:0], q.raw[:0]); q.err != nil {
		return
	}
	if len(q.raw) > 0 {
		data.Ref()
		q.data = data
	}
	q.err = q.parse()
}

// drop gives the buffers back.
func (q *request) drop() {
	if q.data != nil {
		q.data.Free()
		q.data = nil
	}
}

// reset empties q for the next message and keeps its memory.
func (q *request) reset() {
	q.drop()
	clear(q.inputs)
	clear(q.outputs)
	clear(q.bound)
	clear(q.wanted)
	clear(q.tensors)
	clear(q.answers)
	*q = request{header: kept(q.header), raw: q.raw[:0], inputs: q.inputs[:0], outputs: q.outputs[:0], bound: q.bound[:0], wanted: q.wanted[:0],
		scratch: kept(q.scratch), tensors: few(q.tensors), answers: q.answers[:0], times: q.times[:0]}
}

// keepMax is the largest buffer that is kept for the next request.
const keepMax = 1 << 20

// few keeps what most requests need, and not what one of thousands of items has taken.
func few(t []frontend.Tensor) []frontend.Tensor {
	if cap(t) > wire.BatchMax {
		return nil
	}
	return t[:0]
}

func kept(b []byte) []byte {
	if cap(b) > keepMax {
		return nil
	}
	return b[:0]
}

// fields calls f for each field of a message. A field that is no varint has its bytes in b.
func fields(m []byte, f func(number protowire.Number, kind protowire.Type, v uint64, b []byte) error) error {
	for len(m) > 0 {
		number, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return errTag
		}
		m = m[n:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(m)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(m)
		case protowire.Fixed32Type:
			if n = 4; len(m) >= n {
				b = m[:n]
			}
		case protowire.Fixed64Type:
			if n = 8; len(m) >= n {
				b = m[:n]
			}
		default:
			return errGroup
		}
		if n < 0 || n > len(m) {
			return errCut
		}
		if err := f(number, kind, v, b); err != nil {
			return err
		}
		m = m[n:]
	}
	return nil
}

// text checks that a string is one.
func text(b []byte, field string) ([]byte, error) {
	if !utf8.Valid(b) {
		return nil, oip.Errorf(field, "not UTF-8")
	}
	return b, nil
}

// parse reads the header.
func (q *request) parse() error {
	return fields(q.header, func(number protowire.Number, kind protowire.Type, _ uint64, b []byte) (err error) {
		if kind != protowire.BytesType {
			return nil
		}
		switch number {
		case fieldModel:
			q.model, err = text(b, "model_name")
		case fieldVersion:
			q.version, err = text(b, "model_version")
		case fieldID:
			q.id, err = text(b, "id")
		case fieldParameters:
			err = entry(b, "parameters", q.parameter)
		case fieldInputs:
			err = q.input(b)
		case fieldOutputs:
			err = q.output(b)
		}
		return err
	})
}

// parameter is a value of InferParameter.
type parameter struct {
	kind   int // its field; 0: it has none
	number uint64
	text   []byte
}

const (
	paramBool, paramInt, paramText, paramDouble, paramUint = 1, 2, 3, 4, 5
)

// natural is the parameter as a number that is not negative.
func (p parameter) natural(field string) (uint64, error) {
	if p.kind != paramInt && p.kind != paramUint {
		return 0, oip.Errorf(field, "must be an int64_param or uint64_param")
	}
	if p.number > math.MaxInt64 {
		return 0, oip.Errorf(field, "must not be negative or above %d", int64(math.MaxInt64))
	}
	return p.number, nil
}

// entry reads an entry of a map of parameters.
func entry(b []byte, at string, f func(key []byte, p parameter) error) error {
	var key []byte
	var p parameter
	err := fields(b, func(number protowire.Number, kind protowire.Type, _ uint64, b []byte) (err error) {
		switch {
		case kind != protowire.BytesType:
		case number == 1:
			key, err = text(b, at)
		case number == 2:
			err = fields(b, func(number protowire.Number, _ protowire.Type, v uint64, b []byte) error {
				if number >= paramBool && number <= paramUint { // of a oneof the last counts
					p = parameter{int(number), v, b}
				}
				return nil
			})
		}
		return err
	})
	if err != nil {
		return err
	}
	return f(key, p)
}

func (q *request) parameter(key []byte, p parameter) error {
	switch string(key) {
	case "timeout":
		v, err := p.natural("parameters.timeout")
		q.timeout = int64(v)
		return err
	case "priority":
		v, err := p.natural("parameters.priority")
		if err == nil {
			q.priority, err = oip.PriorityOf(v)
		}
		return err
	case "class":
		if p.kind != paramText {
			return oip.Errorf("parameters.class", "must be a string_param")
		}
		var err error
		q.effort, err = oip.BestEffort(p.text)
		return err
	case "details":
		if p.kind != paramBool {
			return oip.Errorf("parameters.details", "must be a bool_param")
		}
		q.details = p.number != 0
	}
	return nil // what else there may be says nothing here
}

func (q *request) input(b []byte) error {
	i := len(q.inputs)
	if i == tensorsMax {
		return oip.Errorf("inputs", "more than %d", tensorsMax)
	}
	if i < cap(q.inputs) {
		q.inputs = q.inputs[:i+1]
	} else {
		q.inputs = append(q.inputs, input{})
	}
	t := &q.inputs[i]
	*t = input{shape: t.shape[:0]}
	err := fields(b, func(number protowire.Number, kind protowire.Type, v uint64, b []byte) (err error) {
		switch {
		case number == fieldShape && kind == protowire.VarintType:
			return t.dim(i, v)
		case kind != protowire.BytesType:
		case number == fieldName:
			t.name, err = text(b, oip.Field("inputs", i, "name"))
		case number == fieldType:
			t.datatype, err = text(b, oip.Field("inputs", i, "datatype"))
		case number == fieldShape:
			for len(b) > 0 && err == nil {
				v, n := protowire.ConsumeVarint(b)
				if n < 0 {
					return errCut
				}
				b, err = b[n:], t.dim(i, v)
			}
		case number == fieldInputParameters:
			err = entry(b, "inputs", func(key []byte, p parameter) error { return t.region.parameter("inputs", i, key, p) })
		case number == fieldContents:
			if t.contents = b; t.contented {
				return oip.Errorf(oip.Field("inputs", i, "contents"), "given twice")
			}
			t.contented = true
		}
		return err
	})
	q.contented = q.contented || t.contented
	return err
}

func (t *input) dim(i int, v uint64) error {
	if len(t.shape) == dimsMax {
		return oip.Errorf(oip.Field("inputs", i, "shape"), "more than %d dimensions", dimsMax)
	}
	if t.shape = append(t.shape, int64(v)); int64(v) < 0 {
		return oip.Errorf(oip.Field("inputs", i, "shape"), "%d is negative", int64(v))
	}
	return nil
}

// parameter reads one of those that say where a tensor lies.
func (p *place) parameter(section string, i int, key []byte, v parameter) (err error) {
	field := func() string { return oip.Field(section, i, "parameters."+string(key)) }
	switch string(key) {
	case "shared_memory_region":
		if v.kind != paramText || len(v.text) == 0 {
			return oip.Errorf(field(), "must be a string_param with a region's name")
		}
		p.name, err = text(v.text, field())
	case "shared_memory_byte_size":
		p.size, err = v.natural(field())
		p.sized = true
	case "shared_memory_offset":
		p.offset, err = v.natural(field())
	}
	return err
}

func (q *request) output(b []byte) error {
	i := len(q.outputs)
	if i == tensorsMax {
		return oip.Errorf("outputs", "more than %d", tensorsMax)
	}
	var o output
	err := fields(b, func(number protowire.Number, kind protowire.Type, _ uint64, b []byte) (err error) {
		switch {
		case kind != protowire.BytesType:
		case number == fieldName:
			o.name, err = text(b, oip.Field("outputs", i, "name"))
		case number == fieldOutputParameters:
			err = entry(b, "outputs", func(key []byte, p parameter) error {
				if string(key) == "classification" {
					v, err := p.natural(oip.Field("outputs", i, "parameters.classification"))
					o.classes = int64(v)
					return err
				}
				return o.region.parameter("outputs", i, key, p)
			})
		}
		return err
	})
	q.outputs = append(q.outputs, o)
	return err
}

// names are those of a model's tensors, for errors.
func names(specs []catalog.TensorSpec) string {
	out := ""
	for i, s := range specs {
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%q", s.Name)
	}
	return out
}

func find(specs []catalog.TensorSpec, name []byte) int {
	return slices.IndexFunc(specs, func(s catalog.TensorSpec) bool { return s.Name == string(name) })
}
