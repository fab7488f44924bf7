package ingress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

func (s *Server) tooLarge() *refusal {
	return &refusal{status: 413, reason: "too_large", msg: fmt.Sprintf("the body is above %d bytes", s.cfg.BodyMax), close: true}
}

const (
	// bodyFirst is what a body is charged before any of it has come. After that it is
	// charged at most bodyGrowth times what has, whatever was announced: memory is for those
	// who send.
	bodyFirst  = 16 << 10
	bodyGrowth = 4
	// bodySmall is the largest body, with what it decodes to, that may use the reserve.
	bodySmall = 1 << 20
)

// bodiesReserve is what of BodiesMax is kept for small bodies: however many large ones
// come, ordinary requests get through. It leaves the largest body its room.
func (c *Config) bodiesReserve() int64 { return min(c.BodiesMax/4, c.BodiesMax-c.BodyMax) }

// hold reserves memory for a body or a decoded tensor; it is given back when
// the exchange ends.
func (s *Server) hold(x *exchange, n int64) error {
	limit := s.cfg.BodiesMax
	if max(x.held+n, int64(x.ctx.Request.Header.ContentLength())) > bodySmall {
		limit -= s.cfg.bodiesReserve()
	}
	if s.bodies.Add(n) > limit {
		s.bodies.Add(-n)
		r := s.full(fmt.Sprintf("too many bytes of bodies at a time: at most %d, %d of them for bodies above %d", s.cfg.BodiesMax, s.cfg.BodiesMax-s.cfg.bodiesReserve(), bodySmall))
		r.close = !x.bodyRead
		return r
	}
	x.held += n
	return nil
}

// body reads the request's body, decompressed, into the exchange's memory.
func (s *Server) body(x *exchange) ([]byte, error) {
	h := &x.ctx.Request.Header
	stream := x.ctx.Request.BodyStream()
	if stream == nil {
		x.bodyRead = true
		return nil, nil
	}
	s.watch(x)
	encoding := h.ContentEncoding()
	n := h.ContentLength()
	if n >= 0 && (len(encoding) == 0 || string(encoding) == "identity") {
		return s.readFixed(x, stream, n)
	}
	stream = &untilEnd{r: stream}
	source, err := s.decompressor(encoding, stream)
	if err != nil {
		return nil, s.bodyError(x, err)
	}
	body, err := s.readGrowing(x, source.r)
	if err == nil && source.r != stream {
		err = ended(stream)
	}
	source.release()
	if err != nil {
		return nil, s.bodyError(x, err)
	}
	x.bodyRead = true
	return body, nil
}

// readFixed reads a body of n bytes, of which direct may have read, and hold, the first.
func (s *Server) readFixed(x *exchange, stream io.Reader, n int) ([]byte, error) {
	for got, room := x.ahead, max(bodyFirst, x.ahead); ; room *= bodyGrowth {
		room = min(room, n)
		if err := s.hold(x, int64(room)-x.held); err != nil {
			return nil, err
		}
		x.buffer = grown(x.buffer[:got], room)
		k, err := io.ReadFull(stream, x.buffer[got:room])
		if got += k; err != nil {
			return nil, s.bodyError(x, shortBody(err, got, n))
		}
		if got == n {
			x.bodyRead = true
			return x.buffer[:n], nil
		}
	}
}

// shortBody puts it in words when a body ends early.
func shortBody(err error, got, n int) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &refusal{status: 400, reason: "bad_request", msg: fmt.Sprintf("the body ends after %d of %d bytes", got, n), close: true}
	}
	return err
}

// grown is b with this length, moved where it has no room. (Not append's growth, which
// takes more than was held.)
func grown(b []byte, length int) []byte {
	if cap(b) >= length {
		return b[:length]
	}
	moved := make([]byte, length)
	copy(moved, b)
	return moved
}

// readGrowing reads a body whose size is not known, up to the limit.
func (s *Server) readGrowing(x *exchange, r io.Reader) ([]byte, error) {
	if err := s.hold(x, bodyFirst); err != nil {
		return nil, err
	}
	buffer := grown(x.buffer[:0], bodyFirst)
	for n := 0; ; {
		got, err := r.Read(buffer[n:])
		n += got
		if int64(n) > s.cfg.BodyMax {
			return nil, s.tooLarge()
		}
		if err == io.EOF {
			x.buffer = buffer
			return buffer[:n], nil
		}
		if err != nil {
			return nil, err
		}
		if n == len(buffer) {
			more := min(n, int(s.cfg.BodyMax)+1-n)
			if err := s.hold(x, int64(more)); err != nil {
				return nil, err
			}
			buffer = grown(buffer, n+more)
		}
	}
}

// untilEnd is a body that ends once. fasthttp's stream of chunks does not: a read after its end
// waits for another chunk, and takes it from the next request.
type untilEnd struct {
	r     io.Reader
	ended bool
}

// Read implements io.Reader.
func (u *untilEnd) Read(p []byte) (int, error) {
	if u.ended {
		return 0, io.EOF
	}
	n, err := u.r.Read(p)
	u.ended = err == io.EOF
	return n, err
}

var errTrailing = errors.New("bytes after the end of the compressed data")

// ended checks that nothing follows.
func ended(r io.Reader) error {
	var b [1]byte
	n, err := io.ReadFull(r, b[:])
	if n > 0 {
		return errTrailing
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// bodyError says what is wrong with a body that could not be read. What is
// left of it is on the connection, which therefore ends.
func (s *Server) bodyError(x *exchange, err error) error {
	var r *refusal
	var timeout net.Error
	switch {
	case errors.As(err, &r):
		r.close = true
		return r
	case errors.As(err, &timeout) && timeout.Timeout():
		return s.tooSlow()
	}
	msg := "the body cannot be read: " + err.Error()
	if encoding := x.ctx.Request.Header.ContentEncoding(); len(encoding) > 0 {
		msg = fmt.Sprintf("Content-Encoding %s: the body cannot be decompressed: %v", bytes.ToLower(encoding), err)
	}
	return &refusal{status: 400, reason: "bad_request", msg: msg, close: true}
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
