package transporttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Each side knows what the other said of itself.
func testHello(t *testing.T, f Fixture) {
	heard := make(chan wire.Hello, 1)
	here, there := options(wire.RoleBackend, "here"), options(wire.RoleScheduler, "there")
	here.Hello.Incarnation, there.Hello.Incarnation = 11, 22
	here.Hello.Token = transport.Token("secret")
	there.Hello.Token = transport.Token("secret")
	rec := NewRecorder()
	s, err := f.Network.Listen(f.Address, there, func(peer wire.Hello) (transport.Handler, error) { heard <- peer; return rec, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mine := NewRecorder()
	l, err := f.Network.Dial(t.Context(), s.Address(), here, mine)
	if err != nil {
		t.Fatal(err)
	}
	if l.Peer() != there.Hello || <-heard != here.Hello {
		t.Errorf("dialler sees %+v", l.Peer())
	}
	l.Close(nil)
	mine.AwaitClosed(t)
}

// refused dials and wants a refusal; the listener is told too.
func refused(t *testing.T, f Fixture, dial, listen transport.Options, accept func(wire.Hello) (transport.Handler, error), want error) string {
	t.Helper()
	var mu sync.Mutex
	var told []error
	listen.Refused = func(remote string, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}
	s, err := f.Network.Listen(f.Address, listen, accept)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = f.Network.Dial(t.Context(), s.Address(), dial, NewRecorder())
	if !errors.Is(err, want) {
		t.Fatalf("dial: %v, want %v", err, want)
	}
	if n := strings.Count(err.Error(), want.Error()); n > 1 {
		t.Errorf("%q says %d times the same", err, n)
	}
	Until(t, "the listener to be told", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == 1 && errors.Is(told[0], want) })
	return err.Error()
}

func testWrongToken(t *testing.T, f Fixture) {
	for _, tokens := range [][2]string{{"red", "green"}, {"", "green"}, {"red", ""}} {
		dial, listen := options(wire.RoleBackend, "b"), options(wire.RoleScheduler, "s")
		dial.Hello.Token, listen.Hello.Token = transport.Token(tokens[0]), transport.Token(tokens[1])
		text := refused(t, f, dial, listen, func(wire.Hello) (transport.Handler, error) {
			t.Error("accept was asked about a peer with a wrong token")
			return nil, errors.New("no")
		}, transport.ErrRejected)
		if !strings.Contains(text, "token") {
			t.Errorf("%q does not say that the token is wrong", text)
		}
		onceIn(t, text, transport.ErrRejected.Error())
	}
}

func testAcceptRefuses(t *testing.T, f Fixture) {
	text := refused(t, f, options(wire.RoleBackend, "b"), options(wire.RoleScheduler, "s"), func(wire.Hello) (transport.Handler, error) {
		return nil, errors.New("only frontends on Sundays")
	}, transport.ErrRejected)
	if !strings.Contains(text, "only frontends on Sundays") {
		t.Errorf("%q does not pass on why", text)
	}
	onceIn(t, text, transport.ErrRejected.Error())
}

// A listener holds so many links and says so; places come back.
func testLinksMax(t *testing.T, f Fixture) {
	p := connect(t, f, func(d, l *transport.Options) { l.LinksMax = 1 }, nil)
	second := NewRecorder()
	_, err := f.Network.Dial(t.Context(), p.address, options(wire.RoleBackend, "second"), second)
	if !errors.Is(err, transport.ErrRejected) {
		t.Fatalf("second link: %v", err)
	}
	p.link.Close(nil)
	p.dialled.AwaitClosed(t)
	var l transport.Link
	Until(t, "the place", func() bool {
		l, err = f.Network.Dial(t.Context(), p.address, options(wire.RoleBackend, "third"), second)
		return err == nil
	})
	l.Close(nil)
	second.AwaitClosed(t)
}

// Nobody there, a wrong address, no time: one typed error each.
func testUnreachable(t *testing.T, f Fixture) {
	s, err := f.Network.Listen(f.Address, options(wire.RoleScheduler, "s"), func(wire.Hello) (transport.Handler, error) { return NewRecorder(), nil })
	if err != nil {
		t.Fatal(err)
	}
	address := s.Address()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Network.Dial(over, address, options(wire.RoleBackend, "b"), NewRecorder()); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("dial without time: %v", err)
	}
	s.Close()
	for _, a := range []string{address, "", "nowhere", "udp:1.2.3.4:5", "tcp:no-port"} {
		if _, err := f.Network.Dial(t.Context(), a, options(wire.RoleBackend, "b"), NewRecorder()); !errors.Is(err, transport.ErrUnreachable) {
			t.Errorf("dial %q: %v", a, err)
		}
	}
}

// listenRaw opens a listener for peers that speak something else, beside a
// good link that must not notice.
func listenRaw(t *testing.T, f Fixture) (p *pair, refusals func() []error) {
	t.Helper()
	if f.Raw == nil {
		t.Skip("foreign bytes cannot come in on this transport")
	}
	var mu sync.Mutex
	var told []error
	p = connect(t, f, func(d, l *transport.Options) {
		l.Handshake = 300 * mono.Millisecond
		l.Refused = func(remote string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if remote == "" {
				t.Error("a refusal without the peer's address")
			}
			told = append(told, err)
		}
	}, nil)
	return p, func() []error { mu.Lock(); defer mu.Unlock(); return append([]error(nil), told...) }
}

// Whatever comes in on the port ends in one typed error; a good link beside it
// does not notice.
func testGarbage(t *testing.T, f Fixture) {
	p, refusals := listenRaw(t, f)
	hello := (&wire.Hello{Role: wire.RoleBackend}).Append(nil)
	damaged := append([]byte(nil), hello...)
	damaged[20] ^= 1
	huge := append([]byte(nil), hello...)
	huge[7] = 0xff
	guests := map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on",
		"zeros": strings.Repeat("\x00", 5000), "nothing": "", "half a hello": string(hello[:20]), "a damaged hello": string(damaged),
		"a huge hello": string(huge), "another frame": string(answer(1)), "a payload": string((&wire.Output{}).Append(nil, 1000)),
		"noise": string(pattern(100_000, 77))}
	seen := 0
	for name, bytes := range guests {
		c := f.Raw(t, p.address)
		io.WriteString(c, bytes)
		c.SetReadDeadline(time.Now().Add(patience))
		if n, err := io.Copy(io.Discard, c); n > 0 {
			t.Errorf("%s: %d bytes in reply, %v", name, n, err)
		}
		c.Close()
		seen++
		Until(t, "a refusal of "+name, func() bool { return len(refusals()) == seen })
		if err := refusals()[seen-1]; !errors.Is(err, transport.ErrProtocol) {
			t.Errorf("%s: %v, want ErrProtocol", name, err)
		}
	}
	sendAll(t, p.link, answer(1))
	Until(t, "the good link's frame", func() bool { return p.accepted.Count() == 1 })
}

// Garbage on a link that lives already ends it, and it is told why.
func testGarbageAfterHello(t *testing.T, f Fixture) {
	p, _ := listenRaw(t, f)
	c := f.Raw(t, p.address)
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	c.Write((&wire.Hello{Role: wire.RoleBackend, Name: "liar"}).Append(nil))
	for i := range 4 {
		c.Write((&wire.Ping{Sequence: uint64(i)}).Append(nil))
	}
	io.WriteString(c, strings.Repeat("and now for something different ", 10))
	if err := p.accepted.AwaitClosed(t); !errors.Is(err, transport.ErrProtocol) {
		t.Errorf("ended with %v", err)
	}
	kinds, last := "", wire.Reject{}
	for {
		h, body, err := readFrame(c)
		if err != nil {
			break
		}
		kinds += fmt.Sprint(" ", h.Kind)
		if h.Kind == wire.KindReject && last.Decode(body) != nil {
			t.Error("undecodable Reject")
		}
	}
	if last.Text == "" {
		t.Errorf("the liar got frames of kinds%s, no Reject that says why", kinds)
	}
}

// readFrame reads one frame without payload from a raw connection.
func readFrame(c net.Conn) (wire.Header, []byte, error) {
	buf := make([]byte, wire.HeaderSize)
	if _, err := io.ReadFull(c, buf); err != nil {
		return wire.Header{}, nil, err
	}
	h, err := wire.ParseHeader(buf, 0)
	if err != nil {
		return h, nil, err
	}
	body := make([]byte, h.Body)
	_, err = io.ReadFull(c, body)
	return h, body, err
}

// stamp makes a frame another version's. The checksum covers the version, so
// it is wrong then: a peer must look at the version first.
func stamp(frame []byte, version byte) []byte {
	frame[1] = version
	return frame
}

// A dialler of another version is told so in plain words and numbers, and so
// is the listener.
func testOlderDialler(t *testing.T, f Fixture) {
	p, refusals := listenRaw(t, f)
	c := f.Raw(t, p.address)
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	c.Write(stamp((&wire.Hello{Role: wire.RoleBackend}).Append(nil), wire.Version+1))
	h, body, err := readFrame(c)
	var m wire.Reject
	if err != nil || h.Kind != wire.KindReject || m.Decode(body) != nil {
		t.Fatalf("reply %+v, %v, want a Reject", h, err)
	}
	both := fmt.Sprintf("version %d, we speak %d", wire.Version+1, wire.Version)
	if m.Version != wire.Version || !strings.Contains(m.Text, both) {
		t.Errorf("told %q of version %d, want both numbers", m.Text, m.Version)
	}
	Until(t, "the listener to be told", func() bool { return len(refusals()) == 1 })
	if err := refusals()[0]; !errors.Is(err, transport.ErrVersion) || !strings.Contains(err.Error(), both) {
		t.Errorf("listener was told %v", err)
	}
}

// The other way round: our dialler and a listener of another version.
func testNewerListener(t *testing.T, f Fixture) {
	err := dialRaw(t, f, func(c net.Conn) {
		readFrame(c)
		c.Write(stamp((&wire.Reject{Version: wire.Version + 1, Text: "come back with a newer one"}).Append(nil), wire.Version+1))
	})
	if !errors.Is(err, transport.ErrVersion) {
		t.Fatalf("%v, want ErrVersion", err)
	}
	for _, part := range []string{fmt.Sprint("version ", wire.Version+1), fmt.Sprint("we speak ", wire.Version), "come back with a newer one", "same release"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// What listens there may be anything.
func testGarbageListener(t *testing.T, f Fixture) {
	cases := map[string]struct {
		say  string
		want error
	}{
		"HTTP":              {"HTTP/1.1 400 Bad Request\r\n\r\n", transport.ErrProtocol},
		"SSH":               {"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", transport.ErrProtocol},
		"nothing":           {"", transport.ErrUnreachable},
		"half a frame":      {string(answer(1)[:18]), transport.ErrUnreachable},
		"another frame":     {string(answer(1)), transport.ErrProtocol},
		"welcome, then end": {string((&wire.Hello{Role: wire.RoleScheduler}).AppendWelcome(nil)), transport.ErrUnreachable},
	}
	for name, c := range cases {
		if err := dialRaw(t, f, func(conn net.Conn) { readFrame(conn); io.WriteString(conn, c.say) }); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// One that never answers costs the handshake's limit, not more.
	if err := dialRaw(t, f, func(conn net.Conn) { io.Copy(io.Discard, conn) }); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("a listener that never answers: %v", err)
	}
}

// dialRaw dials something that does talk with the connection.
func dialRaw(t *testing.T, f Fixture, talk func(c net.Conn)) error {
	t.Helper()
	if f.RawListen == nil {
		t.Skip("nothing foreign can listen on this transport")
	}
	address, ln := f.RawListen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		talk(c)
	}()
	o := options(wire.RoleBackend, "b")
	o.Handshake = 500 * mono.Millisecond
	_, err := f.Network.Dial(t.Context(), address, o, NewRecorder())
	ln.Close()
	<-ended
	return err
}
