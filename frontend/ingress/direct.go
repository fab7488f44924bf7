package ingress

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// A request of one item whose tensors are all binary goes from the connection into the
// slab: its JSON header says what will come, so the slab is there before the tensors are.
// That is for requests that look right. With any other, direct hands back what it has
// read, and the body is read and judged as a whole: what is wrong is said in one place.

// directHeaderMax is the longest JSON header that is read ahead of the tensors.
const directHeaderMax = 16 << 10

// direct tries to read the request into a slab. false: it must be read as a whole, of
// which x.ahead bytes are in x.buffer. true: x.slab is filled, or the error is the
// answer.
func (s *Server) direct(x *exchange, entry *catalog.Entry) (bool, error) {
	h := &x.ctx.Request.Header
	stream, n := x.ctx.Request.BodyStream(), h.ContentLength()
	text := h.Peek(headerLength)
	if stream == nil || n < 0 || len(text) == 0 || len(h.ContentEncoding()) > 0 {
		return false, nil
	}
	length, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 31)
	if err != nil || length == 0 || int(length) > min(n, directHeaderMax) {
		return false, nil
	}
	if err := s.hold(x, int64(length)); err != nil {
		return true, err
	}
	s.watch(x)
	if cap(x.buffer) < int(length) {
		x.buffer = make([]byte, directHeaderMax)
	}
	header := x.buffer[:length]
	if x.ahead, err = io.ReadFull(stream, header); err != nil {
		return true, s.bodyError(x, shortBody(err, x.ahead, n))
	}
	if !x.parseAhead(header) || x.request.Timeout > timeoutMax || !x.plain(&entry.Spec, n-int(length)) || x.choose(&entry.Spec) != nil {
		return false, nil
	}
	if n > prefetched { // smaller ones are here already
		held := int64(arena.SlabSize(n - int(length)))
		defer s.slow.Add(-held)
		if s.slow.Add(held) > s.cfg.DirectMax {
			return false, nil
		}
	}
	return true, s.readDirect(x, stream, entry)
}

// parsedMax is the longest header that is remembered.
const parsedMax = 1 << 10

// parseAhead reads the JSON header into x.request. Clients ask again and again with the
// same header: where it is the one that x has read last, the request stands already.
func (x *exchange) parseAhead(header []byte) bool {
	if len(x.parsed) > 0 && bytes.Equal(header, x.parsed) {
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
	return true
}

// forget empties the request.
func (x *exchange) forget() {
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

// readDirect reserves a slab and reads the tensors into their places in it.
func (s *Server) readDirect(x *exchange, stream io.Reader, entry *catalog.Entry) error {
	spec := &entry.Spec
	n := x.ctx.Request.Header.ContentLength()
	if err := s.cfg.Client.Reserve(&x.slab, spec.Name, spec.Version); err != nil {
		s.stats.of(spec).record(nil, err)
		return err
	}
	if len(x.slab.Input) != n-x.ahead { // another catalogue came while the header did
		s.cfg.Client.Release(&x.slab)
		return &refusal{status: 503, reason: "unavailable", msg: "the model has just changed: try again"}
	}
	for i, got := 0, x.ahead; i < len(x.request.Inputs); i++ {
		t := &x.request.Inputs[i]
		from := place(spec, string(t.Name))
		k, err := io.ReadFull(stream, x.slab.Input[from:from+int(t.BinarySize())])
		if got += k; err != nil {
			s.cfg.Client.Release(&x.slab)
			return s.bodyError(x, shortBody(err, got, n))
		}
	}
	x.bodyRead = true
	return nil
}

const (
	swallowMax  = 1 << 20
	swallowTime = 250 * time.Millisecond
)

// swallow reads the rest of a refused body that is on its way anyway. Some clients
// (Go's among them) take a connection that is closed while they still send for a lost
// one, now and then, and miss the answer. A body that is long, or does not come, is left
// unread, and the connection ends with the answer.
func (x *exchange) swallow() {
	stream := x.ctx.Request.BodyStream()
	if stream == nil || x.ctx.Request.Header.ContentLength() > swallowMax || x.ctx.Conn().SetReadDeadline(time.Now().Add(swallowTime)) != nil {
		return
	}
	if x.watched != nil {
		x.watched.pace.on = false
	}
	_, err := io.CopyN(io.Discard, stream, swallowMax+1)
	x.bodyRead = err == io.EOF
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

// askOne asks for one item of a body that was read as a whole.
func (s *Server) askOne(x *exchange, spec *catalog.ModelSpec) ([]*frontend.Response, error) {
	if err := s.cfg.Client.Reserve(&x.slab, spec.Name, spec.Version); err != nil {
		return []*frontend.Response{}, err
	}
	if len(x.slab.Input) != place(spec, "") { // another catalogue came meanwhile
		s.cfg.Client.Release(&x.slab)
		return nil, &refusal{status: 503, reason: "unavailable", msg: "the model has just changed: try again"}
	}
	for i := range x.bound {
		copy(x.slab.Input[place(spec, x.bound[i].spec.Name):], x.bound[i].data)
	}
	return s.askDirect(x)
}

// askDirect asks for the inference whose input is in the slab.
func (s *Server) askDirect(x *exchange) ([]*frontend.Response, error) {
	answer, err := s.cfg.Client.InferReserved(context.Background(), &x.slab, time.Duration(x.request.Timeout)*time.Microsecond)
	x.answers = append(x.answers[:0], answer)
	return x.answers, err
}
