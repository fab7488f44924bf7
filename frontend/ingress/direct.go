package ingress

import (
	"bytes"
	"io"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// A request of one item whose tensors are all binary goes from the connection into the
// slab: its JSON header says what will come, so the slab is there before the tensors are.
//
//	on the connection   HTTP header | JSON header           | tensor | tensor
//	goes to             fasthttp    | x.buffer, x.request   | x.slab, each to its place
//	                    1           | 2                     | 3 and 4
//
//	1 announced   both lengths are there, nothing is compressed    else: body (nothing is read yet)
//	2 readAhead   one item, the model's tensors, nothing else      else: body (x.ahead bytes are in x.buffer)
//	3 DirectMax   senders that are slow hold few slabs             else: body (likewise)
//	4 fill        a slab, and all of the tensors                   else: the answer (full, slow, cut)
//
// "body" is Server.inferWhole: what is wrong with a request is found and said there alone.

// directHeaderMax is the longest JSON header that is read ahead of the tensors.
const directHeaderMax = 16 << 10

// direct tries to read the request into x.slab. If it has not, and there is no error to
// answer, the body must be read as a whole.
func (s *Server) direct(x *exchange, entry *catalog.Entry) (filled bool, err error) {
	header, rest, ok := announced(x.ctx)
	if !ok {
		return false, nil
	}
	if ok, err = s.readAhead(x, &entry.Spec, header, rest); !ok || err != nil {
		return false, err
	}
	if header+rest > prefetched { // smaller ones are here already
		held := int64(arena.SlabSize(rest))
		defer s.slow.Add(-held)
		if s.slow.Add(held) > s.cfg.DirectMax {
			return false, nil
		}
	}
	err = s.fill(x, entry, rest)
	return err == nil, err
}

// announced is the length of the JSON header and of what comes after it.
func announced(ctx *fasthttp.RequestCtx) (header, rest int, ok bool) {
	h := &ctx.Request.Header
	n, text := h.ContentLength(), h.Peek(headerLength)
	if ctx.Request.BodyStream() == nil || n < 0 || len(text) == 0 || len(h.ContentEncoding()) > 0 {
		return 0, 0, false
	}
	length, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 31)
	header = int(length)
	return header, n - header, err == nil && header > 0 && header <= min(n, directHeaderMax)
}

// readAhead reads the JSON header; ok: x.request is one that fill can go on with.
func (s *Server) readAhead(x *exchange, spec *catalog.ModelSpec, header, rest int) (ok bool, err error) {
	if err := s.hold(x, int64(header)); err != nil {
		return false, err
	}
	s.watch(x)
	if cap(x.buffer) < header {
		x.buffer = make([]byte, directHeaderMax)
	}
	if x.ahead, err = io.ReadFull(x.ctx.Request.BodyStream(), x.buffer[:header]); err != nil {
		return false, s.bodyError(x, shortBody(err, x.ahead, header+rest))
	}
	return x.parseAhead(x.buffer[:header]) && x.request.Timeout <= timeoutMax && x.plain(spec, rest) && x.choose(spec) == nil && !x.elsewhere(), nil
}

// parsedMax is the longest header that is remembered.
const parsedMax = 1 << 10

// parseAhead reads the JSON header into x.request. Clients ask again and again with the
// same header: where it is the one that x has read last, the request stands already.
func (x *exchange) parseAhead(header []byte) bool {
	if len(x.parsed) > 0 && bytes.Equal(header, x.parsed) {
		x.understood = true
		return true
	}
	x.forget()
	if len(header) <= parsedMax {
		x.parsed = append(x.parsed, header...)
		header = x.parsed // what the request's names are views of, for as long as it stands
	}
	if x.request.ParseHeader(header) != nil {
		x.forget()
		return false
	}
	x.understood = true
	return true
}

// forget empties the request.
func (x *exchange) forget() {
	x.understood = false
	x.request.Reset()
	x.parsed = x.parsed[:0]
}

// plain reports whether the request is one item of binary tensors that take all of the
// body's rest, as the model takes them.
func (x *exchange) plain(spec *catalog.ModelSpec, rest int) bool {
	if len(x.request.Inputs) != len(spec.Inputs) {
		return false
	}
	x.batched = false
	for i := range x.request.Inputs {
		t := &x.request.Inputs[i]
		at := slices.IndexFunc(spec.Inputs, func(in catalog.TensorSpec) bool { return string(t.Name) == in.Name })
		if at < 0 {
			return false
		}
		want := &spec.Inputs[at]
		shape := t.Shape
		batched := spec.MaxBatch > 0 && len(shape) == len(want.Shape)+1 && shape[0] == 1
		if batched {
			shape = shape[1:]
		}
		size := want.ByteSize()
		if t.Type != want.Type || !slices.Equal(shape, want.Shape) || i > 0 && batched != x.batched || size < 0 || t.BinarySize() != size {
			return false
		}
		x.batched = batched
		rest -= int(size)
	}
	return rest == 0
}

// fill reserves a slab and reads the tensors into their places in it.
func (s *Server) fill(x *exchange, entry *catalog.Entry, rest int) error {
	spec := &entry.Spec
	if err := s.Reserve(&x.slab, x.model, x.version, spec); err != nil {
		return err
	}
	if len(x.slab.Input) != rest { // another catalogue came while the header did
		s.cfg.Client.Release(&x.slab)
		return justChanged()
	}
	stream, got := x.ctx.Request.BodyStream(), x.ahead
	for i := range x.request.Inputs {
		t := &x.request.Inputs[i]
		from := place(spec, string(t.Name))
		k, err := io.ReadFull(stream, x.slab.Input[from:from+int(t.BinarySize())])
		if got += k; err != nil {
			s.cfg.Client.Release(&x.slab)
			return s.bodyError(x, shortBody(err, got, x.ahead+rest))
		}
	}
	x.bodyRead = true
	return nil
}

func justChanged() *refusal {
	return &refusal{status: 503, reason: "unavailable", msg: "the model has just changed: try again", after: pause}
}

// place is where an input lies in a slab, and with "" where all of them end.
func place(spec *catalog.ModelSpec, name string) (from int) {
	for i := range spec.Inputs {
		if spec.Inputs[i].Name == name {
			return from
		}
		from += int(spec.Inputs[i].ByteSize())
	}
	return from
}
