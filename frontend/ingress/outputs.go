package ingress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Outputs that are large take memory from before the inference until the client has read the reply. A request takes
// room for all of that before it is asked for: what has no room is not executed. The reply is sent from where the
// outputs lie. A client that does not read it is disconnected, and earlier where most of the room is taken.

// largeReply is the least size of outputs that are counted.
const largeReply = 1 << 20

// replyPiece is what a client must take within WriteTimeout; within a 16th of that where more than half of OutputsMax is
// taken.
const replyPiece = 256 << 10

// Hold takes room for n bytes of outputs and of what is made of them, in a server of whatever protocol; Unhold gives it
// back. An error is the answer. Few bytes are not counted: then held is 0.
func (s *Server) Hold(spec *catalog.ModelSpec, n int64) (held int64, err error) {
	if n < largeReply {
		return 0, nil
	}
	most := s.cfg.OutputsMax
	if n > most {
		return 0, &refusal{status: 400, reason: wire.ReasonMemory.String(), msg: fmt.Sprintf(
			"model %s: the outputs of this request and their reply take %d bytes, at most %d are taken (frontend.outputs_max): ask for fewer items or for binary outputs, or raise it", spec.Name, n, most)}
	}
	if used := s.outputs.Add(n); used > most {
		s.outputs.Add(-n)
		return 0, s.fullOf(spec.Name, spec.Version, wire.ReasonMemory, fmt.Sprintf(
			"model %s: the outputs of this request and their reply take %d bytes, and of %d bytes %d are taken by replies that are awaited or not read yet (frontend.outputs_max)", spec.Name, n, most, used-n))
	}
	return n, nil
}

// Unhold gives back what Hold has taken.
func (s *Server) Unhold(n int64) { s.outputs.Add(-n) }

// Crowded reports whether most of the room for outputs is taken: then clients that do not read are disconnected.
func (s *Server) Crowded() bool { return s.outputs.Load() > s.cfg.OutputsMax/2 }

// OutputBytes are the bytes of n items' outputs.
func OutputBytes(spec *catalog.ModelSpec, n int) (all int64) {
	for i := range spec.Outputs {
		all += max(0, spec.Outputs[i].ByteSize())
	}
	return all * int64(n)
}

// holdOutputs takes room for what the exchange's inference brings and what is made of it.
func (s *Server) holdOutputs(x *exchange, spec *catalog.ModelSpec, items int) (err error) {
	n := OutputBytes(spec, items)
	if n < largeReply/32 {
		return nil
	}
	text := int64(0)
	for i := range x.wanted {
		if w := &x.wanted[i]; !w.binary && w.region == nil && w.classes == 0 {
			text += w.spec.Elements() * int64(items) * textOf(w.spec)
		}
	}
	all := n + text
	if accepted(x.ctx.Request.Header.Peek("Accept-Encoding")) != "" {
		all += n + text // hardly less, of numbers
	}
	x.outputs, err = s.Hold(spec, all)
	return err
}

// textOf is what an element takes as JSON, at most.
func textOf(t *catalog.TensorSpec) int64 {
	size := int64(1)
	if n := t.Elements(); n > 0 {
		size = t.ByteSize() / n
	}
	switch size {
	case 1:
		return 6
	case 2:
		return 10
	case 4:
		return 16
	}
	return 26
}

// sendLarge is send where the reply's outputs are counted.
func (s *Server) sendLarge(x *exchange, answers []*frontend.Response) error {
	header, err := x.reply.AppendHeader(nil)
	if err != nil {
		return err
	}
	h := &x.ctx.Response.Header
	h.SetContentType("application/json")
	if x.reply.HasBinary() {
		h.SetContentType("application/octet-stream")
		h.Set(headerLength, strconv.Itoa(len(header)))
	}
	r := &largeBody{s: s, held: x.outputs, answers: append([]*frontend.Response{}, answers...), pieces: [][]byte{header}}
	for i := range x.reply.Outputs {
		if x.reply.Outputs[i].Binary {
			r.pieces = append(r.pieces, x.reply.Outputs[i].Parts...)
		}
	}
	if encoding := accepted(x.ctx.Request.Header.Peek("Accept-Encoding")); encoding != "" {
		h.SetContentEncoding(encoding)
		if err := r.compress(encoding); err != nil {
			return err
		}
	}
	x.outputs = 0 // the body's from here on
	if c, ok := x.ctx.Conn().(*conn); ok {
		r.conn = c
	}
	x.ctx.Response.SetBodyStream(r, r.size())
	return nil
}

// largeBody is a reply that is sent from where its outputs lie.
type largeBody struct {
	s       *Server
	conn    *conn // nil: unknown
	held    int64
	answers []*frontend.Response
	pieces  [][]byte
	closed  atomic.Bool
}

func (r *largeBody) size() (n int) {
	for _, p := range r.pieces {
		n += len(p)
	}
	return n
}

// compress replaces the pieces by their compressed form.
func (r *largeBody) compress(encoding string) error {
	var out bytes.Buffer
	z, release := r.s.compressor(encoding, &out)
	defer release()
	for _, p := range r.pieces {
		if _, err := z.Write(p); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	r.free()
	r.pieces = [][]byte{out.Bytes()}
	return nil
}

func (r *largeBody) free() {
	for _, a := range r.answers {
		a.Release()
	}
	r.answers, r.pieces = nil, nil
}

// Read implements io.Reader; WriteTo is what is called.
func (r *largeBody) Read(b []byte) (n int, err error) {
	for n < len(b) && len(r.pieces) > 0 {
		k := copy(b[n:], r.pieces[0])
		n += k
		if r.pieces[0] = r.pieces[0][k:]; len(r.pieces[0]) == 0 {
			r.pieces = r.pieces[1:]
		}
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo: each replyPiece has its time.
func (r *largeBody) WriteTo(w io.Writer) (n int64, err error) {
	if b, ok := w.(*bufio.Writer); ok && b.Buffered() > 0 {
		if err := b.Flush(); err != nil { // the head: what follows goes past the buffer
			return 0, err
		}
	}
	for _, p := range r.pieces {
		for len(p) > 0 && err == nil {
			r.allow()
			var k int
			k, err = w.Write(p[:min(len(p), replyPiece)])
			n, p = n+int64(k), p[k:]
		}
	}
	return n, err
}

// allow gives the client its time for the next piece.
func (r *largeBody) allow() {
	if r.conn == nil {
		return
	}
	d := r.s.cfg.WriteTimeout
	if r.s.Crowded() {
		d /= 16
	}
	_ = r.conn.SetWriteDeadline(time.Now().Add(d))
}

// Close implements io.Closer: the reply was taken, or its client is gone.
func (r *largeBody) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.free()
		r.s.Unhold(r.held)
	}
	return nil
}

// sent is how many bytes a reply's body has.
func sent(r *fasthttp.Response) int {
	if b, ok := r.BodyStream().(*largeBody); ok {
		return b.size()
	}
	return len(r.Body())
}
