package rdmalink

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// tcpSide is the link as handler of the TCP link below it.
type tcpSide link

// PayloadMax implements transport.Limiter: what lies in the stream is looked at there.
func (h *tcpSide) PayloadMax(tl transport.Link, kind wire.Kind) int {
	l := (*link)(h)
	l.attach(tl)
	most := l.o.PayloadMax
	switch {
	case kind == wire.KindLaneData && l.streaming:
		return tunnelChunk
	case kind < wire.KindDoc || l.streaming:
		return 0
	}
	if limit, ok := l.handler.(transport.Limiter); ok {
		most = min(most, limit.PayloadMax(l, kind))
	}
	return most
}

// Buffer implements transport.Handler.
func (h *tcpSide) Buffer(tl transport.Link, kind wire.Kind, body []byte, n int) []byte {
	l := (*link)(h)
	l.attach(tl)
	if l.streaming {
		return nil
	}
	return l.handler.Buffer(l, kind, body, n)
}

// Receive implements transport.Handler.
func (h *tcpSide) Receive(tl transport.Link, f transport.Frame) {
	l := (*link)(h)
	l.attach(tl)
	var err error
	switch {
	case l.streaming:
		err = l.fromPeer(f)
	case f.Kind < wire.KindDoc:
		err = fmt.Errorf("%w: frame of kind %d from a peer without lanes", transport.ErrProtocol, f.Kind)
	default:
		l.handler.Receive(l, f)
	}
	if err != nil {
		l.fail(err)
	}
}

// fromPeer takes a streaming peer's frame: a message of the stream, or talk about
// lanes, which the life's goroutine handles.
func (l *link) fromPeer(f transport.Frame) error {
	var e event
	var err error
	if wrongRole(f.Kind, l.dialled) {
		return fmt.Errorf("%w: frame of kind %d: the dialler offers, the listener accepts", transport.ErrProtocol, f.Kind)
	}
	switch f.Kind {
	case wire.KindLaneData:
		var m wire.LaneData
		if err = m.Decode(f.Body); err == nil {
			err = l.rx.tunnelled(m.Sequence, f.Payload)
			l.rx.settle()
			return err
		}
	case wire.KindLaneOffer:
		e.kind = eventOffer
		err = e.offer.Decode(f.Body)
	case wire.KindLaneAccept:
		e.kind = eventAccept
		err = e.offer.Decode(f.Body)
	case wire.KindLaneUp:
		var m wire.LaneUp
		err = m.Decode(f.Body)
		e = event{kind: eventUp, generation: m.Generation}
	case wire.KindLaneDown:
		var m wire.LaneDown
		err = m.Decode(f.Body)
		e = event{kind: eventDown, generation: m.Generation, next: m.Next, err: &peerError{m.Text}}
	default:
		return fmt.Errorf("%w: frame of kind %d outside of the stream", transport.ErrProtocol, f.Kind)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", transport.ErrProtocol, err)
	}
	return l.life.post(e)
}

// wrongRole reports whether a frame is one that only our own side may say.
func wrongRole(kind wire.Kind, dialled bool) bool {
	switch kind {
	case wire.KindLaneOffer, wire.KindLaneUp:
		return dialled
	case wire.KindLaneAccept:
		return !dialled
	}
	return false
}

// peerError is what the peer says of a lane.
type peerError struct{ text string }

// Error quotes it.
func (e *peerError) Error() string { return "the peer says: " + e.text }

// Closed implements transport.Handler: the lane's end, then the link's.
func (h *tcpSide) Closed(tl transport.Link, err error) {
	l := (*link)(h)
	l.attach(tl)
	if p := l.cause.Load(); p != nil {
		err = *p
	}
	l.life.stop()
	l.ended.Store(true)
	l.n.counters.links(0, -1)
	l.out.Close(closedBy(err))
	l.tx.abandon()
	l.reads.close(closedBy(err))
	l.rx.close()
	if !l.silent.Load() {
		l.handler.Closed(l, err)
	}
	close(l.life.over)
}
