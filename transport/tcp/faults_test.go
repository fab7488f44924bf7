package tcp_test

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// served listens with a Recorder.
func served(t *testing.T, o transport.Options) (transport.Listener, *transporttest.Recorder) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	rec := transporttest.NewRecorder()
	o.Hello.Role = wire.RoleFrontend
	s, err := tcp.New().Listen(local, o, func(wire.Hello) (transport.Handler, error) { return rec, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, rec
}

// A payload that takes several times Silence to arrive does not count as
// silence, for neither side: its bytes are signs of life.
func TestLongPayloadIsLife(t *testing.T) {
	o := transport.Options{Heartbeat: 20 * mono.Millisecond, Silence: 250 * mono.Millisecond}
	s, rec := served(t, o)
	p := transporttest.NewProxy(t, s.Address())
	p.Throttle(5 * time.Millisecond)
	mine := transporttest.NewRecorder()
	o.Hello.Role = wire.RoleBackend
	l, err := tcp.New().Dial(t.Context(), p.Address(), o, mine)
	if err != nil {
		t.Fatal(err)
	}
	payload := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16) // 256 chunks: 1.3 s
	if err := l.SendPayload((&wire.Output{}).Append(nil, len(payload)), payload, nil); err != nil {
		t.Fatal(err)
	}
	transporttest.Until(t, "the payload", func() bool { return rec.Count() == 1 })
	if !bytes.Equal(rec.Frames()[0].Payload, payload) {
		t.Error("payload differs")
	}
	l.Close(nil)
	if err := mine.AwaitClosed(t); !errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrSilent) {
		t.Error(err)
	}
}

// rawLink is a peer written by hand, past its handshake.
func rawLink(t *testing.T, s transport.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Address()[len("tcp:"):])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.Write((&wire.Hello{Role: wire.RoleBackend, Name: "raw"}).Append(nil))
	for i := range 4 {
		c.Write((&wire.Ping{Sequence: uint64(i)}).Append(nil))
	}
	return c
}

// A peer that asks for more READs than the protocol allows, and never takes
// the replies, is shown the door instead of filling our memory.
func TestReadFlood(t *testing.T) {
	slabs := transporttest.NewSlabs(1, 64<<10)
	s, rec := served(t, transport.Options{Slabs: slabs})
	c := rawLink(t, s)
	read := (&wire.Read{Sequence: 1, Request: 1, Input: wire.SlabRef{Handle: wire.MakeSlabHandle(0, 1), Length: 64 << 10}}).Append(nil)
	go c.Write(bytes.Repeat(read, 4*transport.ReadsLimit))
	if err := rec.AwaitClosed(t); !errors.Is(err, transport.ErrProtocol) {
		t.Errorf("ended with %v", err)
	}
	slabs.Settle(t)
}

// Link-level frames that make no sense end the link with one typed error.
func TestPeerBreaksProtocol(t *testing.T) {
	cases := map[string][]byte{
		"a reply to nothing": (&wire.ReadReply{Sequence: 1<<32 | 5}).Append(nil, 0),
		"a second hello":     (&wire.Hello{Role: wire.RoleBackend}).Append(nil),
		"a ping with cargo":  append(rewrite((&wire.Output{}).Append(nil, 4), wire.KindPing), "abcd"...),
		"an empty pong":      rewrite((&wire.Doc{}).Append(nil, 0), wire.KindPong),
	}
	for name, frame := range cases {
		s, rec := served(t, transport.Options{})
		c := rawLink(t, s)
		c.Write(frame)
		if err := rec.AwaitClosed(t); !errors.Is(err, transport.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rewrite gives a frame another kind. Its checksum is then wrong, which is
// ErrProtocol as well; the point is that nothing else happens.
func rewrite(frame []byte, kind wire.Kind) []byte {
	frame[2] = byte(kind)
	return frame
}

// Many that connect and say nothing cost a bounded number of handshakes, and
// a good peer is served again as soon as the limit of the handshake is over.
func TestSilentGuests(t *testing.T) {
	s, rec := served(t, transport.Options{Handshake: 200 * mono.Millisecond})
	for range 300 {
		c, err := net.Dial("tcp", s.Address()[len("tcp:"):])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	mine := transporttest.NewRecorder()
	var l transport.Link
	transporttest.Until(t, "a place", func() bool {
		var err error
		l, err = tcp.New().Dial(t.Context(), s.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, mine)
		return err == nil
	})
	if err := l.Send((&wire.Leave{}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	transporttest.Until(t, "its frame", func() bool { return rec.Count() == 1 })
	l.Close(nil)
	mine.AwaitClosed(t)
}
