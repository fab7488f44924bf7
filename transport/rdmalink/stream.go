package rdmalink

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// stream makes frames of the bytes of messages, wherever those were cut. Frames
// that lie whole in one message are not copied.
type stream struct {
	payloadMax int
	sink       sink

	head    []byte      // a frame's beginning, until its body is whole
	header  wire.Header // of the frame whose payload is coming
	payload []byte      // where it goes
	got     int
	own     []byte // for payloads that nobody had a buffer for
}

// sink takes frames; the bytes hold until it returns.
type sink interface {
	frame(kind wire.Kind, body, payload []byte) error
	buffer(kind wire.Kind, body []byte, n int) ([]byte, error)
}

// ownKeep is the largest own buffer that stays.
const ownKeep = 1 << 20

// feed takes one message's bytes. With light it stops before a frame of the
// control plane, whose handling may take long, and returns what is left.
func (s *stream) feed(b []byte, light bool) (rest []byte, err error) {
	for len(b) > 0 {
		if light && s.heavy(b) {
			return b, nil
		}
		switch {
		case s.got < len(s.payload):
			b, err = s.fill(b)
		case len(s.head) > 0:
			b, err = s.assemble(b)
		default:
			b, err = s.scan(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// heavy reports whether b goes on with, or begins, a frame of the control plane.
func (s *stream) heavy(b []byte) bool {
	const kindAt = 2 // in a frame's header
	kind := wire.KindSubmit
	switch {
	case s.got < len(s.payload):
		kind = s.header.Kind
	case len(s.head) > kindAt:
		kind = wire.Kind(s.head[kindAt])
	case len(s.head)+len(b) > kindAt:
		kind = wire.Kind(b[kindAt-len(s.head)])
	}
	return kind >= wire.KindDoc && kind < wire.KindSubmit
}

// scan handles the frame at the front of b, in place if it is whole.
func (s *stream) scan(b []byte) ([]byte, error) {
	h, need, err := wire.Scan(b, s.payloadMax)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrProtocol, err)
	}
	if need > 0 {
		s.head = append(s.head[:0], b...)
		return nil, nil
	}
	body, rest := b[wire.HeaderSize:h.Size()], b[h.Size():]
	if h.Payload == 0 {
		return rest, s.sink.frame(h.Kind, body, nil)
	}
	dst, err := s.sink.buffer(h.Kind, body, h.Payload)
	if err != nil {
		return nil, err
	}
	if h.Payload <= len(rest) {
		p := rest[:h.Payload]
		if len(dst) >= h.Payload {
			p = dst[:copy(dst, p)]
		}
		return rest[h.Payload:], s.sink.frame(h.Kind, body, p)
	}
	s.head = append(s.head[:0], b[:h.Size()]...) // the body must outlive this message
	s.expect(h, dst)
	return rest, nil
}

// assemble adds to a frame whose beginning came before, just until its body is whole.
func (s *stream) assemble(b []byte) ([]byte, error) {
	for {
		h, need, err := wire.Scan(s.head, s.payloadMax)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", transport.ErrProtocol, err)
		}
		if need == 0 {
			body := s.head[wire.HeaderSize:h.Size()]
			if h.Payload == 0 {
				err = s.sink.frame(h.Kind, body, nil)
				s.head = s.head[:0]
				return b, err
			}
			dst, err := s.sink.buffer(h.Kind, body, h.Payload)
			if err == nil {
				s.expect(h, dst)
			}
			return b, err
		}
		if len(b) == 0 {
			return nil, nil
		}
		n := min(need-len(s.head), len(b))
		s.head, b = append(s.head, b[:n]...), b[n:]
	}
}

// expect prepares for the payload of the frame in head.
func (s *stream) expect(h wire.Header, dst []byte) {
	if len(dst) < h.Payload {
		if cap(s.own) < h.Payload || cap(s.own) > ownKeep {
			s.own = make([]byte, h.Payload)
		}
		dst = s.own
	}
	s.header, s.payload, s.got = h, dst[:h.Payload], 0
}

// fill adds to the payload.
func (s *stream) fill(b []byte) ([]byte, error) {
	n := copy(s.payload[s.got:], b)
	s.got += n
	if s.got < len(s.payload) {
		return b[n:], nil
	}
	payload, body := s.payload, s.head[wire.HeaderSize:s.header.Size()]
	s.payload, s.got = nil, 0
	err := s.sink.frame(s.header.Kind, body, payload)
	s.head = s.head[:0]
	return b[n:], err
}
