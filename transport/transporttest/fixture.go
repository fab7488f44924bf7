package transporttest

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Fixture is what the suite needs of a transport.
type Fixture struct {
	Network transport.Network
	Address string // where to listen: any free place of this transport

	// Raw opens a connection that speaks no protocol; nil: there is no such way in.
	Raw func(t *testing.T, address string) net.Conn
	// RawListen takes connections and speaks no protocol; nil as for Raw.
	RawListen func(t *testing.T) (address string, l net.Listener)
	// Cable puts something that can fail between a dialler and address.
	Cable func(t *testing.T, address string) Cable
	// Delay makes whatever passes a Cable take longer by d or more; nil: no way to.
	Delay func(c Cable, d time.Duration)
}

// Cable is a way to an address that can fail.
type Cable interface {
	Address() string // dial this instead
	Freeze()         // nothing arrives any more, in both directions
	Cut()            // the connections die at once, in the middle of whatever
}

// patience is the limit of everything that must happen at all.
const patience = 20 * time.Second

// Run passes a transport through all cases.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	cases := []struct {
		name string
		run  func(*testing.T, Fixture)
	}{
		{"order", testOrder}, {"many senders", testManySenders}, {"back-pressure", testBackPressure},
		{"malformed sends", testMalformedSends}, {"oversize payload", testOversizePayload},
		{"payload buffers", testPayloadBuffers}, {"payload without buffer", testPayloadWithoutBuffer}, {"payload limit", testPayloadLimit},
		{"reads", testReads}, {"stale reads", testStaleReads}, {"reads refused", testReadsRefused},
		{"reads full", testReadsFull}, {"reads on a dead link", testReadsDeadLink}, {"reads both ways", testReadsBothWays},
		{"close flushes", testCloseFlushes}, {"close in a handler", testCloseInHandler}, {"closed end", testClosedEnd},
		{"listener close", testListenerClose}, {"half-open", testHalfOpen}, {"cut", testCut}, {"slow handler is not silence", testSlowHandler},
		{"hello", testHello}, {"wrong token", testWrongToken}, {"refused by accept", testAcceptRefuses},
		{"links max", testLinksMax}, {"unreachable", testUnreachable},
		{"shift", testShift}, {"stats", testStats}, {"delay bound follows", testDelayBound},
		{"garbage", testGarbage}, {"older dialler", testOlderDialler}, {"newer listener", testNewerListener},
		{"garbage listener", testGarbageListener}, {"garbage after hello", testGarbageAfterHello},
		{"keeper", testKeeper}, {"keeper refused", testKeeperRefused},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
			c.run(t, make(t))
		})
	}
}

// pair is a link and both its ends' records.
type pair struct {
	dialled, accepted *Recorder
	link              transport.Link // the dialler's end
	listener          transport.Listener
	address           string
	buffers           transport.Allocator // for payloads
}

// payload is n bytes that tell where they belong, in memory of the network's.
func (p *pair) payload(n int, salt byte) []byte {
	b := p.buffers.Alloc(n)
	copy(b, pattern(n, salt))
	return b
}

// options are quick to notice a silent peer and slow enough for a loaded
// machine.
func options(role wire.Role, name string) transport.Options {
	return transport.Options{Hello: wire.Hello{Role: role, Incarnation: 1, Name: name}}
}

// connect joins two ends; tune may change their options first.
func connect(t *testing.T, f Fixture, tune func(dial, listen *transport.Options), through func(t *testing.T, address string) string) *pair {
	t.Helper()
	dial, listen := options(wire.RoleBackend, "dialler"), options(wire.RoleFrontend, "listener")
	if tune != nil {
		tune(&dial, &listen)
	}
	p := &pair{dialled: NewRecorder(), accepted: NewRecorder()}
	var err error
	p.listener, err = f.Network.Listen(f.Address, listen, func(wire.Hello) (transport.Handler, error) { return p.accepted, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listener.Close() })
	if s, ok := listen.Slabs.(*Slabs); ok {
		s.Serve(p.listener, f.Network)
	}
	p.buffers = transport.BuffersOf(f.Network)
	p.address = p.listener.Address()
	if through != nil {
		p.address = through(t, p.address)
	}
	p.link, err = f.Network.Dial(t.Context(), p.address, dial, p.dialled)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.link.Close(nil); p.dialled.AwaitClosed(t) })
	return p
}

// back gives the accepted end's link, which its handler learns with the first
// frame: so the dialler says something.
func (p *pair) back(t *testing.T) transport.Link {
	t.Helper()
	if err := p.link.Send((&wire.Leave{Epoch: 1}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	Until(t, "the first frame", func() bool { return p.accepted.Link() != nil })
	return p.accepted.Link()
}

// Until waits for something that must happen.
func Until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := mono.Now(); !ok(); {
		if mono.Now().Sub(begin).Std() > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// sendAll repeats a Send until there is room.
func sendAll(t *testing.T, l transport.Link, frames []byte) {
	t.Helper()
	for begin := mono.Now(); ; {
		err := l.Send(frames)
		if err == nil {
			return
		}
		if err != transport.ErrFull || mono.Now().Sub(begin).Std() > patience {
			t.Errorf("send: %v", err)
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}
