package tcp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// deaf is a port whose host drops the first packets of connections, as a network does that is cut: its
// queue of one is full, until hear takes from it.
func deaf(t *testing.T) (address string, hear func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "deaf")
	t.Cleanup(func() { f.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	queued := 0
	for ; ; queued++ {
		c, err := net.DialTimeout("tcp", ln.Addr().String(), 200*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
		if queued == 8 {
			t.Skip("this kernel takes connections beyond a listener's queue")
		}
	}
	return "tcp:" + ln.Addr().String(), func() net.Listener {
		for range queued {
			if c, err := ln.Accept(); err == nil {
				c.Close()
			}
		}
		return ln
	}
}

// A peer whose first answer was lost is dialled again within the attempt, and not after the second that the
// kernel waits: here the attempt has less.
func TestDialAsksAgain(t *testing.T) {
	o := transport.Options{Handshake: 900 * mono.Millisecond}
	s, _ := served(t, o)
	address, hear := deaf(t)
	links, failures := make(chan transport.Link, 1), make(chan error, 1)
	go func() {
		o.Hello.Role = wire.RoleBackend
		l, err := tcp.New().Dial(context.Background(), address, o, transporttest.NewRecorder())
		if err != nil {
			failures <- err
			return
		}
		links <- l
	}()
	time.Sleep(100 * time.Millisecond) // the first packet was dropped; if it comes later, it is heard at once
	ln := hear()
	go pass(ln, s.Address())
	select {
	case l := <-links:
		l.Close(nil)
	case err := <-failures:
		t.Error(err)
	}
	ln.Close()
}

// pass connects who dials a listener with an address.
func pass(ln net.Listener, address string) {
	for {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", address[len("tcp:"):])
		if err != nil {
			in.Close()
			return
		}
		go func() { io.Copy(out, in); out.(*net.TCPConn).CloseWrite() }()
		go func() { io.Copy(in, out); in.Close() }()
	}
}

// Nobody who answers: the error says so when the attempt's time is over, in all its pieces.
func TestDialUnanswered(t *testing.T) {
	address, _ := deaf(t)
	_, err := tcp.New().Dial(t.Context(), address, transport.Options{Handshake: 200 * mono.Millisecond}, transporttest.NewRecorder())
	if e := net.Error(nil); err == nil || !errors.Is(err, transport.ErrUnreachable) || !errors.As(err, &e) || !e.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}
