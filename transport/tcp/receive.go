package tcp

import (
	"errors"
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// scratchKeep is the largest buffer for payloads that stays with the link.
const scratchKeep = 1 << 20

// receive is the receiving goroutine, from the first frame to Handler.Closed.
func (l *link) receive() {
	err := l.frames()
	switch {
	case errors.Is(err, transport.ErrProtocol), errors.Is(err, transport.ErrVersion):
		l.fail(err)
	default:
		l.end(err, stateBroken)
	}
	l.finish()
}

// frames handles frames until the stream ends or the link parts.
func (l *link) frames() error {
	for {
		h, body, err := l.in.next()
		if err != nil {
			return l.streamEnd(err)
		}
		if l.state.Load() != stateLive {
			return l.part()
		}
		l.framesIn.Add(1)
		if err := l.frame(h, body); err != nil {
			return l.streamEnd(err)
		}
	}
}

// streamEnd says what an error of reading means.
func (l *link) streamEnd(err error) error {
	switch {
	case l.state.Load() == stateParting:
		return transport.ErrClosed
	case errors.Is(err, transport.ErrProtocol), errors.Is(err, transport.ErrVersion), errors.Is(err, transport.ErrRejected):
		return err
	case errors.Is(err, errMidFrame):
		return fmt.Errorf("%w: peer vanished %w", transport.ErrClosed, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: by the peer", transport.ErrClosed)
	}
	return fmt.Errorf("%w: %w", transport.ErrClosed, err)
}

// part discards what still comes, so that the peer gets all that was flushed
// (closing a socket with unread bytes would reset it), until the peer has
// closed too or lingerMax is over.
func (l *link) part() error {
	io.Copy(io.Discard, l.conn)
	return transport.ErrClosed
}

// finish runs once the stream is at its end: nothing of the link is left when
// Handler.Closed is called.
func (l *link) finish() {
	<-l.wrote
	if l.state.Load() == stateParting {
		l.part()
	}
	l.probe.end()
	l.conn.Close()
	l.mu.Lock()
	cause := l.cause
	l.mu.Unlock()
	l.reads.close(closedBy(cause))
	l.handler.Closed(l, cause)
	if l.ended != nil {
		l.ended(l)
	}
	close(l.done)
}

// frame handles one frame, payload included.
func (l *link) frame(h wire.Header, body []byte) error {
	switch h.Kind {
	case wire.KindPing, wire.KindPong, wire.KindReject, wire.KindRead:
		if h.Payload > 0 {
			return fmt.Errorf("%w: frame of kind %d with a payload", transport.ErrProtocol, h.Kind)
		}
		return l.own(h.Kind, body)
	case wire.KindReadReply:
		return l.readReply(h, body)
	case wire.KindHello, wire.KindWelcome:
		return fmt.Errorf("%w: a second hello", transport.ErrProtocol)
	}
	if !l.spoke.Load() {
		l.spoke.Store(true)
	}
	f := transport.Frame{Kind: h.Kind, Body: body}
	if h.Payload > 0 {
		err := transport.CheckPayload(l, l.handler, h.Kind, h.Payload)
		if err != nil {
			return err
		}
		dst := l.handler.Buffer(l, h.Kind, body, h.Payload)
		if f.Payload, err = l.payload(h.Payload, dst); err != nil {
			return err
		}
	}
	l.handler.Receive(l, f)
	return nil
}

// payload brings n payload bytes to dst or, where dst cannot hold them, to
// wherever they lie already or to the link's own buffer.
func (l *link) payload(n int, dst []byte) ([]byte, error) {
	if n <= inlineMax {
		p := l.in.inline(n)
		if len(dst) < n {
			return p, nil
		}
		return dst[:copy(dst, p)], nil
	}
	if len(dst) < n {
		if cap(l.scratch) > scratchKeep || cap(l.scratch) < n {
			l.scratch = make([]byte, n)
		}
		dst = l.scratch
	}
	dst = dst[:n]
	return dst, l.in.readPayload(dst)
}

// own handles the link's own frames.
func (l *link) own(kind wire.Kind, body []byte) error {
	switch kind {
	case wire.KindPing:
		var p wire.Ping
		if err := p.Decode(body); err != nil {
			return broken(err)
		}
		l.reply = l.heart.AppendPong(l.reply[:0], p)
		l.out.Ping(l.reply) // left out when the box is overfull
	case wire.KindPong:
		var p wire.Pong
		if err := p.Decode(body); err != nil {
			return broken(err)
		}
		l.heart.Pong(p)
	case wire.KindRead:
		return l.serve(body)
	case wire.KindReject:
		var r wire.Reject
		if err := r.Decode(body); err != nil {
			return broken(err)
		}
		return transport.Rejected(r.Text)
	}
	return nil
}

// serve answers a READ: the pinned slab's bytes leave without a copy, and the
// slab is unpinned when they have left.
func (l *link) serve(body []byte) error {
	var m wire.Read
	if err := m.Decode(body); err != nil {
		return broken(err)
	}
	if l.serving.Add(1) > transport.ReadsLimit {
		return fmt.Errorf("%w: more than %d READs in flight", transport.ErrProtocol, transport.ReadsLimit)
	}
	reply := wire.ReadReply{Sequence: m.Sequence, Reason: wire.ReasonUnavailable}
	if l.o.Slabs != nil {
		data, err := l.o.Slabs.Pin(m.Input, m.Request)
		if err == nil && len(data) == int(m.Input.Length) {
			reply.Reason = wire.ReasonNone
			l.reply = reply.Append(l.reply[:0], len(data))
			return overrun(l.out.ReplyPinned(l.reply, data, served{l}, m.Input))
		}
		if err == nil {
			l.o.Slabs.Unpin(m.Input)
		}
		reply.Reason = wire.ReasonInput
	}
	l.reply = reply.Append(l.reply[:0], 0)
	return overrun(l.out.ReplyPinned(l.reply, nil, refused{l}, m.Input))
}

// overrun is the protocol error of a peer that does not read the replies to its READs;
// that the link is about to end is none.
func overrun(err error) error {
	if errors.Is(err, transport.ErrFull) {
		return fmt.Errorf("%w: more than %d READs in flight", transport.ErrProtocol, transport.ReadsLimit)
	}
	return nil
}

// served is told when a reply has left: it unpins the slab and counts.
type served struct{ l *link }

// Pin is never called.
func (s served) Pin(wire.SlabRef, wire.RequestID) ([]byte, error) { return nil, transport.ErrStale }

// Unpin gives the slab back.
func (s served) Unpin(ref wire.SlabRef) {
	s.l.o.Slabs.Unpin(ref)
	s.l.serving.Add(-1)
}

// refused is told when a reply without bytes has left: it counts.
type refused struct{ l *link }

// Pin is never called.
func (r refused) Pin(wire.SlabRef, wire.RequestID) ([]byte, error) { return nil, transport.ErrStale }

// Unpin counts.
func (r refused) Unpin(wire.SlabRef) { r.l.serving.Add(-1) }

// readReply finishes a READ of ours: the bytes go straight to its Dst.
func (l *link) readReply(h wire.Header, body []byte) error {
	var m wire.ReadReply
	if err := m.Decode(body); err != nil {
		return broken(err)
	}
	op, err := l.reads.take(m.Sequence)
	if err != nil {
		return err
	}
	switch {
	case m.Reason == wire.ReasonNone && h.Payload == len(op.Dst):
		if _, err = l.payload(h.Payload, op.Dst); err != nil {
			op.Done(op.Token, closedBy(l.streamEnd(err)))
			return err
		}
	case m.Reason == wire.ReasonNone:
		err = fmt.Errorf("%w: reply of %d bytes to a READ of %d", transport.ErrProtocol, h.Payload, len(op.Dst))
	case m.Reason == wire.ReasonInput:
		err = transport.ErrStale
	default:
		err = fmt.Errorf("%w: READ refused: %v", transport.ErrRejected, m.Reason)
	}
	if err != nil && h.Payload > 0 {
		if skipped := l.in.skip(h.Payload); skipped != nil {
			op.Done(op.Token, closedBy(l.streamEnd(skipped)))
			return skipped
		}
	}
	op.Done(op.Token, err)
	return nil
}

// broken makes a decoder's complaint a protocol error.
func broken(err error) error { return fmt.Errorf("%w: %w", transport.ErrProtocol, err) }
