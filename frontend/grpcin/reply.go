package grpcin

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// reply is an encoded ModelInferResponse, or a ModelStreamInferResponse with one.
type reply struct {
	bytes   []byte
	pool    mem.BufferPool
	counted int // bytes of it in Server.unsent
}

// free gives the memory of a reply back that is not sent.
func (r *reply) free() { mem.NewBuffer(&r.bytes, r.pool).Free() }

// Fields of ModelInferResponse, of its outputs, and of ModelStreamInferResponse.
const (
	fieldAnswerModel, fieldAnswerVersion, fieldAnswerID, fieldAnswerParameters, fieldAnswerOutputs, fieldAnswerRaw = 1, 2, 3, 4, 5, 6

	fieldError, fieldAnswer = 1, 2
)

// compose makes the reply from the answers. Outputs are raw_output_contents always, as Triton's are.
func (s *Server) compose(q *request, spec *catalog.ModelSpec, b batch, streamed bool) (*reply, error) {
	raw := 0
	for i := range q.wanted {
		w := &q.wanted[i]
		for _, a := range q.answers {
			t := pick(a.Outputs, w)
			if t == nil {
				return nil, fmt.Errorf("the backend sent no output %q", w.spec.Name)
			}
			if w.region == nil {
				raw += len(t.Data)
			}
		}
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(raw + headRoom(q, spec))
	out := (*buffer)[:0]
	if streamed {
		out = append(out, make([]byte, streamHead)...)
	}
	out = q.appendHead(out, spec, b, streamed)
	for i := range q.wanted {
		out = q.appendRaw(out, &q.wanted[i])
	}
	if streamed {
		out = streamHeader(out)
	}
	if cap(out) == cap(*buffer) { // the pool's own
		return &reply{bytes: out, pool: pool}, nil
	}
	pool.Put(buffer)
	return &reply{bytes: out, pool: mem.NopBufferPool{}}, nil
}

// headRoom is what a reply takes beside its tensors, mostly.
func headRoom(q *request, spec *catalog.ModelSpec) int {
	return 512 + len(q.id) + len(spec.Name) + 96*len(q.wanted)
}

// pick finds an output; they come in the model's order.
func pick(outputs []frontend.Tensor, w *wanted) *frontend.Tensor {
	if w.index < len(outputs) && outputs[w.index].Name == w.spec.Name {
		return &outputs[w.index]
	}
	for i := range outputs {
		if outputs[i].Name == w.spec.Name {
			return &outputs[i]
		}
	}
	return nil
}

func appendText(dst []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), text)
}

// appendHead appends all but the tensors.
func (q *request) appendHead(dst []byte, spec *catalog.ModelSpec, b batch, streamed bool) []byte {
	dst = appendText(dst, fieldAnswerModel, spec.Name)
	dst = appendText(dst, fieldAnswerVersion, spec.Version)
	if len(q.id) > 0 {
		dst = protowire.AppendBytes(protowire.AppendTag(dst, fieldAnswerID, protowire.BytesType), q.id)
	}
	q.times = q.outcome.AppendTimes(q.times[:0])
	for _, p := range q.times {
		if p.Yes {
			dst = appendYes(dst, fieldAnswerParameters, p.Name)
		} else {
			dst = appendEntry(dst, fieldAnswerParameters, p.Name, p.Value)
		}
	}
	if q.details {
		dst = appendTextEntry(dst, fieldAnswerParameters, ingress.DetailsParameter, ingress.IDs(q.answers))
	}
	if streamed {
		dst = append(dst, finalResponse...)
	}
	for i := range q.wanted {
		w := &q.wanted[i]
		kind, shape := w.spec.Type, w.spec.Shape
		var few [1]int64
		if w.classes > 0 {
			few[0] = min(int64(w.classes), w.spec.Elements())
			kind, shape = catalog.Bytes, few[:]
		}
		items := int64(0)
		if b.batched {
			items = int64(b.items)
		}
		var where []byte
		if w.region != nil {
			where = appendPlace(nil, w.region, w.written)
		}
		dst = appendOutput(dst, w.spec.Name, string(kind), items, shape, where)
	}
	return dst
}

// finalResponse is the parameter triton_final_response, true: clients of streams that may bring several
// answers to a request look at it. Here there is one.
const finalResponse = "\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x01"

// appendTextEntry is appendEntry of a string_param.
func appendTextEntry(dst []byte, field protowire.Number, name, text string) []byte {
	value := protowire.SizeTag(paramText) + protowire.SizeBytes(len(text))
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(value)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.BytesType), uint64(value))
	return protowire.AppendString(protowire.AppendTag(dst, paramText, protowire.BytesType), text)
}

// appendYes is appendEntry of a bool_param, true.
func appendYes(dst []byte, field protowire.Number, name string) []byte {
	value := protowire.SizeTag(paramBool) + 1
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(value)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.BytesType), uint64(value))
	return protowire.AppendVarint(protowire.AppendTag(dst, paramBool, protowire.VarintType), 1)
}

// appendEntry appends an entry of a map of parameters, an int64_param.
func appendEntry(dst []byte, field protowire.Number, name string, v int64) []byte {
	value := protowire.SizeTag(paramInt) + protowire.SizeVarint(uint64(v))
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(value)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.BytesType), uint64(value))
	return protowire.AppendVarint(protowire.AppendTag(dst, paramInt, protowire.VarintType), uint64(v))
}

// appendPlace appends an output's parameters that say where in shared memory it was written to.
func appendPlace(dst []byte, p *place, size int) []byte {
	value := protowire.AppendBytes(protowire.AppendTag(nil, paramText, protowire.BytesType), p.name)
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "shared_memory_region")
	entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), value)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, fieldInputParameters, protowire.BytesType), entry)
	dst = appendEntry(dst, fieldInputParameters, "shared_memory_byte_size", int64(size))
	if p.offset > 0 {
		dst = appendEntry(dst, fieldInputParameters, "shared_memory_offset", int64(p.offset))
	}
	return dst
}

// appendOutput appends an InferOutputTensor with what is encoded of it already; items 0: its shape has
// no leading dimension for them.
func appendOutput(dst []byte, name, kind string, items int64, shape []int64, more []byte) []byte {
	dims := 0
	if items > 0 {
		dims = protowire.SizeVarint(uint64(items))
	}
	for _, d := range shape {
		dims += protowire.SizeVarint(uint64(d))
	}
	size := protowire.SizeTag(fieldName) + protowire.SizeBytes(len(name)) + protowire.SizeTag(fieldType) + protowire.SizeBytes(len(kind)) +
		protowire.SizeTag(fieldShape) + protowire.SizeBytes(dims) + len(more)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldAnswerOutputs, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldName, protowire.BytesType), name)
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldType, protowire.BytesType), kind)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldShape, protowire.BytesType), uint64(dims))
	if items > 0 {
		dst = protowire.AppendVarint(dst, uint64(items))
	}
	for _, d := range shape {
		dst = protowire.AppendVarint(dst, uint64(d))
	}
	return append(dst, more...)
}

// appendRaw appends an output's tensor, of all items. It is empty where the tensor lies in shared memory,
// for clients find outputs by their place; Triton's for C++ (perf_analyzer) reads past the end if one lacks.
func (q *request) appendRaw(dst []byte, w *wanted) []byte {
	dst = protowire.AppendTag(dst, fieldAnswerRaw, protowire.BytesType)
	switch {
	case w.region != nil:
		return protowire.AppendVarint(dst, 0)
	case w.classes > 0:
		return protowire.AppendBytes(dst, q.ranked(w))
	}
	n := 0
	for _, a := range q.answers {
		n += len(pick(a.Outputs, w).Data)
	}
	dst = protowire.AppendVarint(dst, uint64(n))
	for _, a := range q.answers {
		dst = append(dst, pick(a.Outputs, w).Data...)
	}
	return dst
}

// ranked is an output as classes, of all items.
func (q *request) ranked(w *wanted) (all []byte) {
	for _, a := range q.answers {
		all = append(all, ingress.Classes(pick(a.Outputs, w), w.classes, q.labels)...)
	}
	return all
}

// streamHead is the room for the header of a ModelStreamInferResponse: a tag, and a length of five
// bytes, whatever it is.
const streamHead = 1 + 5

// streamHeader writes the header before what follows it. A number may be written longer than it need be.
func streamHeader(m []byte) []byte {
	n := len(m) - streamHead
	m[0] = byte(protowire.EncodeTag(fieldAnswer, protowire.BytesType))
	for i := range 5 {
		m[1+i] = byte(n>>(7*i))&0x7f | 0x80
	}
	m[5] &= 0x7f
	return m
}
