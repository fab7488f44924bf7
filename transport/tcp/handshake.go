package tcp

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// syncRounds are the pings of the handshake.
const syncRounds = 4

// newLink makes a link that is not live yet.
func newLink(conn *net.TCPConn, in *inbound, o transport.Options, h transport.Handler) *link {
	l := &link{o: o, conn: conn, in: in, handler: h,
		heart: transport.NewHeart(o.Silence, o.Clock),
		out:   newOutbox(&o),
		wrote: make(chan struct{}), done: make(chan struct{})}
	l.reads.most, l.reads.payloadMax = o.ReadsMax, o.PayloadMax
	return l
}

// newOutbox copies small payloads, but not where a stream of messages may lie above
// (rdmalink, on a host with a device): that bounds what lies here by its payloads'
// releases. Whether the peer has one, too, is not known yet.
func newOutbox(o *transport.Options) *transport.Outbox {
	if o.Hello.Features&wire.FeatureLane != 0 {
		return transport.NewOutbox(o.SendBuffer)
	}
	return transport.NewStreamOutbox(o.SendBuffer)
}

// greet is the dialler's handshake: it fills l.peer and the heart.
func (l *link) greet() error {
	if _, err := l.conn.Write(l.o.Hello.Append(nil)); err != nil {
		return unreachable(err)
	}
	h, body, err := l.in.next()
	switch {
	case errors.Is(err, transport.ErrVersion):
		return l.in.otherVersion(h)
	case errors.Is(err, transport.ErrProtocol):
		return err
	case err != nil:
		return unreachable(err)
	case h.Kind == wire.KindReject:
		return rejection(body)
	case h.Kind != wire.KindWelcome:
		return fmt.Errorf("%w: reply of kind %d to our hello", transport.ErrProtocol, h.Kind)
	}
	if err := l.peer.Decode(body); err != nil {
		return broken(err)
	}
	if !sameToken(l.o.Hello, l.peer) {
		return fmt.Errorf("%w: its cluster token differs from ours: give both sides the same token", transport.ErrRejected)
	}
	for range syncRounds {
		if err := l.syncRound(); err != nil {
			return err
		}
	}
	return nil
}

// syncRound is one ping and its pong.
func (l *link) syncRound() error {
	if _, err := l.conn.Write(l.heart.AppendPing(nil)); err != nil {
		return unreachable(err)
	}
	h, body, err := l.in.next()
	if err != nil {
		return unreachable(err)
	}
	var p wire.Pong
	if h.Kind != wire.KindPong || p.Decode(body) != nil {
		return fmt.Errorf("%w: frame of kind %d instead of a pong", transport.ErrProtocol, h.Kind)
	}
	l.heart.Pong(p)
	return nil
}

// hear reads the hello of a peer that dialled us and judges all but its
// acceptance.
func hear(in *inbound, ours wire.Hello) (peer wire.Hello, err error) {
	h, body, err := in.next()
	switch {
	case errors.Is(err, transport.ErrVersion):
		return peer, fmt.Errorf("%w: peer speaks version %d, we speak %d: run the same release on both sides", transport.ErrVersion, h.Version, wire.Version)
	case errors.Is(err, transport.ErrProtocol):
		return peer, err
	case err != nil:
		return peer, fmt.Errorf("%w: no hello: %w", transport.ErrProtocol, err)
	case h.Kind != wire.KindHello:
		return peer, fmt.Errorf("%w: frame of kind %d instead of a hello", transport.ErrProtocol, h.Kind)
	}
	if err := peer.Decode(body); err != nil {
		return peer, broken(err)
	}
	if !sameToken(ours, peer) {
		return peer, transport.Refuse(fmt.Errorf("cluster token of %q differs from ours: give both sides the same token", peer.Name))
	}
	return peer, nil
}

// welcome is the rest of the listener's handshake. It takes its samples of
// the clocks from a pong of ours to the ping that the peer sent on getting it.
func (l *link) welcome() error {
	if _, err := l.conn.Write(l.o.Hello.AppendWelcome(nil)); err != nil {
		return unreachable(err)
	}
	var replied mono.Time
	for i := range syncRounds {
		h, body, err := l.in.next()
		if err != nil {
			return unreachable(err)
		}
		var p wire.Ping
		if h.Kind != wire.KindPing || p.Decode(body) != nil {
			return fmt.Errorf("%w: frame of kind %d instead of a ping", transport.ErrProtocol, h.Kind)
		}
		now := l.o.Clock()
		if i > 0 {
			l.heart.Sample(replied, p.Sent, p.Sent, now)
		}
		frame := l.heart.AppendPong(nil, p)
		replied = l.o.Clock()
		if _, err := l.conn.Write(frame); err != nil {
			return unreachable(err)
		}
	}
	return nil
}

// turnAway tells a peer why it is refused, and waits a moment until it has
// read it: closing with unread bytes would reset what we said.
func turnAway(conn *net.TCPConn, why error) {
	if errors.Is(why, transport.ErrVersion) || errors.Is(why, transport.ErrRejected) {
		m := wire.Reject{Version: wire.Version, Text: transport.RejectText(why)}
		conn.Write(m.Append(nil))
		conn.CloseWrite()
		conn.SetReadDeadline(time.Now().Add(partingMax))
		var sink [512]byte
		for n := 0; n < 64<<10; {
			got, err := conn.Read(sink[:])
			if err != nil {
				break
			}
			n += got
		}
	}
	conn.Close()
}

// partingMax is how long a refused peer may take to read why.
const partingMax = 500 * time.Millisecond

// otherVersion makes the error of a reply in another version, with the text
// of its Reject (whose layout is for ever) if it is one.
func (in *inbound) otherVersion(h wire.Header) error {
	text := ""
	for h.Kind == wire.KindReject && h.Size() <= len(in.buf) && text == "" {
		if in.w-in.r >= h.Size() {
			var m wire.Reject
			if m.Decode(in.buf[in.r+wire.HeaderSize:in.r+h.Size()]) == nil {
				text = "; it says: " + m.Text
			}
			break
		}
		if in.fill(h.Size()) != nil {
			break
		}
	}
	return fmt.Errorf("%w: it speaks version %d, we speak %d: run the same release on both sides%s", transport.ErrVersion, h.Version, wire.Version, text)
}

// rejection makes the error of a Reject.
func rejection(body []byte) error {
	var m wire.Reject
	if err := m.Decode(body); err != nil {
		return broken(err)
	}
	return transport.Rejected(m.Text)
}

// sameToken compares in constant time.
func sameToken(a, b wire.Hello) bool {
	return subtle.ConstantTimeCompare(a.Token[:], b.Token[:]) == 1
}

// unreachable types an error of the socket during a handshake.
func unreachable(err error) error {
	if errors.Is(err, transport.ErrProtocol) || errors.Is(err, transport.ErrVersion) {
		return err
	}
	return fmt.Errorf("%w: it took the connection but the handshake broke off: %w", transport.ErrUnreachable, err)
}
