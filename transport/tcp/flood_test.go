package tcp_test

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Half-open connections hold their places for a minute, and more than there are: a good
// peer gets in all the same, beside a bounded number of goroutines.
func TestHalfOpenGiveWay(t *testing.T) {
	before := runtime.NumGoroutine()
	s, rec := served(t, transport.Options{Handshake: 60 * mono.Second})
	for range 600 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.Address(), "tcp:"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	mine := transporttest.NewRecorder()
	l, err := tcp.New().Dial(t.Context(), s.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, mine)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Send((&wire.Answer{Request: 1}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	transporttest.Until(t, "the good peer's frame", func() bool { return rec.Count() == 1 })
	transporttest.Until(t, "few goroutines", func() bool { return runtime.NumGoroutine() < before+300 })
	l.Close(nil)
	mine.AwaitClosed(t)
}

// While some connect and leave as fast as they can, a good peer that comes and goes is
// let in, each time, and what the flood costs has an end with it.
func TestConnectionFlood(t *testing.T) {
	s, _ := served(t, transport.Options{})
	var stop atomic.Bool
	var flood sync.WaitGroup
	for range 4 {
		flood.Add(1)
		go func() {
			defer flood.Done()
			for !stop.Load() {
				if c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.Address(), "tcp:"), time.Second); err == nil {
					c.(*net.TCPConn).SetLinger(0)
					c.Close()
				}
			}
		}()
	}
	defer flood.Wait()
	defer stop.Store(true)
	for i := range 20 {
		mine := transporttest.NewRecorder()
		l, err := tcp.New().Dial(t.Context(), s.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}, Handshake: 10 * mono.Second}, mine)
		if err != nil {
			t.Fatalf("dial %d: %v", i, err)
		}
		l.Close(nil)
		mine.AwaitClosed(t)
	}
}

// Who shakes hands and says nothing gives its place back; who has spoken keeps it.
func TestSilentLinksEnd(t *testing.T) {
	s, rec := served(t, transport.Options{Heartbeat: 20 * mono.Millisecond, Opening: 300 * mono.Millisecond})
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}
	good, silent := transporttest.NewRecorder(), transporttest.NewRecorder()
	l, err := tcp.New().Dial(t.Context(), s.Address(), o, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Send((&wire.Answer{Request: 1}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	transporttest.Until(t, "the first frame", func() bool { return rec.Count() == 1 })
	if _, err := tcp.New().Dial(t.Context(), s.Address(), o, silent); err != nil {
		t.Fatal(err)
	}
	if err := silent.AwaitClosed(t); !errors.Is(err, transport.ErrRejected) || !strings.Contains(err.Error(), "nothing for") {
		t.Errorf("the silent one was told %v", err)
	}
	if err := l.Send((&wire.Answer{Request: 2}).Append(nil)); err != nil {
		t.Errorf("the good one: %v", err)
	}
	transporttest.Until(t, "the second frame", func() bool { return rec.Count() == 2 })
	l.Close(nil)
	good.AwaitClosed(t)
}
