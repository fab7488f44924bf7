package grpcin

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// script is a connection whose client says what it is told to, and does not listen.
type script struct {
	net.Conn
	said []byte
}

func (k *script) Read(b []byte) (n int, err error) {
	n = copy(b, k.said)
	k.said = k.said[n:]
	return n, nil
}

func (k *script) Write(b []byte) (int, error) { return len(b), nil }
func (k *script) Close() error                { return nil }

// played is a connection that a test plays both grpc-go and the client of.
type played struct {
	t      *testing.T
	c      *conn
	script *script
}

func play(t *testing.T) *played {
	k := &script{}
	s := bare(t)
	s.open.Add(1)
	p := &played{t: t, script: k, c: &conn{Conn: k, s: s}}
	p.read([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	t.Cleanup(func() {
		p.c.Close()
		if n := s.held.Load(); n != 0 {
			t.Errorf("%d bytes are held of a connection that is closed", n)
		}
	})
	return p
}

// frameOf is one.
func frameOf(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	return append(b, payload...)
}

// callOf is a call's beginning, with what comes of its messages.
func callOf(stream uint32, data []byte) []byte {
	return append(frameOf(frameCall, 4, stream, []byte("headers")), frameOf(frameData, 0, stream, data)...)
}

// read has the server read once what the client says.
func (p *played) read(frames ...[]byte) {
	p.t.Helper()
	for _, f := range frames {
		p.script.said = append(p.script.said, f...)
	}
	want := len(p.script.said)
	if n, err := p.c.Read(make([]byte, want)); err != nil || n != want {
		p.t.Fatalf("%d bytes of %d are read: %v", n, want, err)
	}
}

// write has the server say something, in small pieces.
func (p *played) write(frames ...[]byte) {
	p.t.Helper()
	for _, f := range frames {
		for len(f) > 0 {
			n, err := p.c.Write(f[:min(5, len(f))])
			if err != nil {
				p.t.Fatal(err)
			}
			f = f[n:]
		}
	}
}

// begin is grpc-go's beginning of a call; end is its end.
func (p *played) begin() (a *arrival, end func()) {
	p.t.Helper()
	ctx, end := context.WithCancel(peer.NewContext(context.Background(), &peer.Peer{AuthInfo: known{conn: p.c}}))
	ctx, err := p.c.s.tap(ctx, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(end)
	return arrivalOf(ctx), end
}

func (p *played) holds(when string, want int64) {
	p.t.Helper()
	if n := p.c.s.held.Load(); n != want || p.c.pending != want {
		p.t.Errorf("%s: %d bytes are held, %d of them of the connection, want %d", when, n, p.c.pending, want)
	}
}

// half is what comes of a message that will not be whole, and held what that counts.
var half = message(20_000, make([]byte, 10_000))

const held = 10_000 + messageHead

// What was counted out because nobody waited for it is not counted out again with its call's end: that would
// be at the cost of what others send.
func TestNothingIsCountedOutTwice(t *testing.T) {
	for name, end := range map[string][]byte{"reset": frameOf(frameReset, 0, 1, make([]byte, 4)), "end": frameOf(frameData, flagEnd, 1, nil),
		"trailers": frameOf(frameCall, 4|flagEnd, 1, []byte("headers"))} {
		t.Run(name, func(t *testing.T) {
			p := play(t)
			p.read(callOf(1, half)) // of a call that nobody takes
			p.holds("grpc-go has not seen it", held)
			p.read(callOf(3, half))
			p.begin()
			p.holds("of one that is awaited", held)
			p.read(frameOf(frameData, 0, 1, make([]byte, 100)))
			p.holds("more of the first one", held+100)
			p.read(end)
			p.holds("without the first one", held)
		})
	}
}

// What comes in one read with a call's headers is the call's, whatever ends before grpc-go has seen them.
func TestWhatComesWithACallCounts(t *testing.T) {
	p := play(t)
	p.read(callOf(1, half))
	first, _ := p.begin()
	p.holds("of the first", held)
	p.read(frameOf(frameReset, 0, 1, make([]byte, 4)), callOf(3, half))
	first.over(0)
	p.holds("the first is over, the second not seen", held)
	second, _ := p.begin()
	p.holds("it is seen", held)
	p.read(frameOf(frameData, flagEnd, 3, make([]byte, 10_000)))
	p.holds("it is whole", 20_000+messageHead)
	second.came(20_000)
	p.c.forget() // grpc-go reads on
	p.holds("its handler has it", 0)
}

// A message that is longer for its handler than it came, compressed, takes nothing off those that are half there.
func TestCompressedMessagesCountNoMore(t *testing.T) {
	p := play(t)
	p.read(callOf(1, half))
	p.begin()
	p.read(callOf(3, message(100, make([]byte, 100))))
	a, _ := p.begin()
	a.came(1 << 30)
	p.holds("the other is half there", held)
}

// A connection on which any number of calls were refused with their messages half there holds nothing of them, and
// is not cut; what comes of them later does not count.
func TestRefusedCallsAreForgotten(t *testing.T) {
	p := play(t)
	p.read(callOf(1, half))
	p.begin()
	p.read(frameOf(6, 0, 0, make([]byte, 8)))
	for stream := uint32(3); stream < 3+2*2*(spareStreams+4096); stream += 2 {
		p.read(callOf(stream, message(1000, make([]byte, 50))))
		if stream%4 == 1 {
			p.write(frameOf(4, 1, 0, nil), frameOf(frameCall, 4|flagEnd, stream, []byte("trailers")))
		}
		p.write(frameOf(frameReset, 0, stream, make([]byte, 4)))
		p.read(frameOf(frameData, 0, stream, make([]byte, 50)))
	}
	p.holds("only the first waits", held)
	if n := len(p.c.frames.coming); n != 1 {
		t.Errorf("%d streams are known, want 1", n)
	}
}

// The same over the wire, where grpc-go refuses and the client does not say another word of the call.
func TestCallsThatTheServerEndsHoldNothing(t *testing.T) {
	k := start(t, Config{BodyTime: time.Hour})
	w := frameClient(t, k.address)
	q, err := proto.Marshal(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16)))
	if err != nil {
		t.Fatal(err)
	}
	w.call(1, methodStream) // is open all the while
	exchange := func() {
		t.Helper()
		w.frame(frameData, 0, 1, message(len(q), q))
		select {
		case stream := <-w.data:
			if stream != 1 {
				t.Fatalf("data of stream %d", stream)
			}
		case <-within(t).Done():
			t.Fatal("no answer")
		}
	}
	for stream := uint32(3); stream < 100; stream += 2 {
		w.call(stream, "Nothing")
		w.frame(frameData, 0, stream, half)
	}
	w.call(101, methodInfer)
	w.frame(frameData, 0, 101, half)
	exchange() // all before was read
	until(t, "only what is awaited is held", func() bool { return k.held.Load() == held })
	w.frame(frameReset, 0, 101, make([]byte, 4))
	exchange()
	until(t, "nothing is held", func() bool { return k.held.Load() == 0 })
}
