package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// inlineMax is the largest payload that is read into the buffer with its
	// frame and copied out: below it a copy costs less than another system call.
	inlineMax = 16 << 10
	// bufferSize is what one read can bring. It must hold the largest head and
	// an inline payload (80 KiB).
	bufferSize = 192 << 10
	// helloSize is enough for the handshake's frames: who connects does not get
	// a whole buffer before it has said a token.
	helloSize = 1 << 10
	// headRead is how much is read at first behind a large payload: probably
	// the next one's head, and what lies behind that should go straight to its
	// place and not through the buffer.
	headRead = 2 << 10
)

// errMidFrame marks an end of stream inside a frame.
var errMidFrame = errors.New("in the middle of a frame")

// inbound reads frames off a socket. One goroutine uses it: the handshake's
// first, then the link's receiving one.
type inbound struct {
	conn       net.Conn
	payloadMax int
	buf        []byte
	r, w       int // buf[r:w] is read and not yet handled
	most       int // of the next read into buf: headRead after a large payload, doubling while it is filled

	heart   *transport.Heart  // nil during the handshake
	out     *transport.Outbox // nil during the handshake; holds replies to what the last read brought
	poller  *poller           // nil during the handshake
	bytes   atomic.Uint64     // Shared: written here, read by Stats.
	reading atomic.Bool       // Shared: in a read just now; silence counts only then.
}

// newInbound is for the handshake: small, and without payloads.
func newInbound(conn net.Conn) *inbound {
	return &inbound{conn: conn, buf: make([]byte, helloSize), most: helloSize}
}

// live gives it the full buffer, the heart that each read is told to, the outbox that
// is flushed before each, and what reads the socket.
func (in *inbound) live(payloadMax int, heart *transport.Heart, out *transport.Outbox, p *poller) {
	buf := make([]byte, bufferSize)
	in.r, in.w = 0, copy(buf, in.buf[in.r:in.w])
	in.buf, in.payloadMax, in.heart, in.out, in.poller, in.most = buf, payloadMax, heart, out, p, bufferSize
}

// next returns the next frame's header and its body, which holds until the
// following call of next. A payload of at most inlineMax bytes is in the
// buffer then (payload gives it without a copy); a larger one is still partly
// in the socket. payload or readPayload must be called before next.
func (in *inbound) next() (wire.Header, []byte, error) {
	for {
		h, need, err := wire.Scan(in.buf[in.r:in.w], in.payloadMax)
		if err != nil {
			return h, nil, in.wrong(err)
		}
		if need == 0 && h.Payload <= inlineMax {
			need = h.Size() + h.Payload
		}
		if in.w-in.r >= need {
			body := in.buf[in.r+wire.HeaderSize : in.r+h.Size()]
			in.r += h.Size()
			return h, body, nil
		}
		if need > len(in.buf) {
			return wire.Header{}, nil, fmt.Errorf("%w: hello of %d bytes", transport.ErrProtocol, need)
		}
		if err := in.fill(need); err != nil {
			return wire.Header{}, nil, err
		}
	}
}

// inline is a payload of n <= inlineMax bytes, in the buffer.
func (in *inbound) inline(n int) []byte {
	p := in.buf[in.r : in.r+n]
	in.r += n
	return p
}

// readPayload brings len(dst) payload bytes: what is in the buffer by a copy,
// the rest straight from the socket.
func (in *inbound) readPayload(dst []byte) error {
	n := copy(dst, in.buf[in.r:in.w])
	in.r += n
	in.most = headRead
	for dst = dst[n:]; len(dst) > 0; dst = dst[n:] {
		var err error
		if n, err = in.read(dst); err != nil {
			return midFrame(err)
		}
	}
	return nil
}

// skip throws n payload bytes away; the frame's body is not needed any more.
func (in *inbound) skip(n int) error {
	have := min(n, in.w-in.r)
	in.r += have
	for n -= have; n > 0; {
		in.r, in.w = 0, 0 // all that was buffered is used up
		got, err := in.read(in.buf[:min(n, len(in.buf))])
		if err != nil {
			return midFrame(err)
		}
		n -= got
	}
	return nil
}

// fill reads at least once, so that buf[r:] can hold need bytes.
func (in *inbound) fill(need int) error {
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
	if in.r+need > len(in.buf) || in.w == len(in.buf) {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	most := min(max(in.most, in.r+need-in.w), len(in.buf)-in.w)
	n, err := in.read(in.buf[in.w:][:most])
	in.w += n
	if n == most {
		in.most = min(2*max(in.most, most), len(in.buf))
	}
	if err != nil && in.w > in.r {
		return midFrame(err)
	}
	return err
}

// read is one read of the socket; n > 0 exactly when err is nil.
func (in *inbound) read(dst []byte) (int, error) {
	if in.out != nil {
		in.out.Flush()
	}
	in.reading.Store(true)
	n, err := 0, error(nil)
	if in.poller != nil {
		n, err = in.poller.read(dst)
	}
	if n == 0 && err == nil {
		n, err = in.conn.Read(dst)
	}
	in.reading.Store(false)
	if n > 0 {
		in.bytes.Add(uint64(n))
		if in.heart != nil {
			in.heart.Heard()
		}
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, err
}

// wrong makes a typed error of bytes that are no frame, and names the usual
// guests.
func (in *inbound) wrong(err error) error {
	if errors.Is(err, wire.ErrVersion) {
		return fmt.Errorf("%w: %w", transport.ErrVersion, err)
	}
	hint := ""
	switch b := in.buf[in.r:in.w]; {
	case !errors.Is(err, wire.ErrMagic):
	case b[0] == 0x16 && b[1] == 0x03:
		hint = "; this looks like TLS: this port speaks Symphony's protocol in clear"
	case isHTTP(string(b[:4])):
		hint = "; this looks like HTTP: the ingress listens on another port"
	}
	return fmt.Errorf("%w: %w%s", transport.ErrProtocol, err, hint)
}

func isHTTP(begin string) bool {
	switch begin {
	case "GET ", "POST", "PUT ", "HEAD", "OPTI", "DELE", "PRI ", "HTTP":
		return true
	}
	return false
}

func midFrame(err error) error { return fmt.Errorf("%w: %w", errMidFrame, err) }
