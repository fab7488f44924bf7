package ingress

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Drain answers what is open, tells keep-alive connections to go, takes no new
// ones, and reports not ready meanwhile.
func TestDrain(t *testing.T) {
	s := start(t, Config{})
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	silent, err := net.Dial("tcp", s.address) // must not keep the drain waiting
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	open, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	ready := []byte("GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := open.Write(append(target().Good(), ready...)); err != nil { // the second waits behind the first
		t.Fatal(err)
	}
	waitFor(t, "the inference", func() bool { return s.running.Load() == 1 && s.Server.open() == 2 })
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	waitFor(t, "the drain", s.draining.Load)
	waitFor(t, "a closed port", func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-drained:
		t.Fatalf("drained (%v) while a request is open", err)
	default:
	}
	close(hold)
	open.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(open)
	if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) || !bytes.Contains(b, []byte("Connection: close")) {
		t.Errorf("open request: %v %s", err, b)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if err := s.fake.last.Model; err != "digits" {
		t.Errorf("asked for %q", err)
	}
}

// A drain that may not wait cuts what is left, and says so.
func TestDrainCutsOff(t *testing.T) {
	s := start(t, Config{})
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	open, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	open.Write(target().Good())
	waitFor(t, "the inference", func() bool { return s.running.Load() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 connections were still busy") {
		t.Errorf("drain: %v", err)
	}
	if b, err := io.ReadAll(open); len(b) > 0 {
		t.Errorf("got %q, %v from a cut connection", b, err)
	}
	close(hold)
	waitFor(t, "the handler's end", func() bool { return s.Server.open() == 0 })
}

// hold makes inferences wait until the channel is closed.
func (s *server) hold() chan struct{} {
	hold := make(chan struct{})
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	s.fake.hold = hold
	return hold
}

// While a drain waits for what runs, kept connections and new ones are told to go
// elsewhere, each in an answer.
func TestDrainAnswersWhatComes(t *testing.T) {
	s := start(t, Config{})
	kept, fromKept := dial(t, s.address)
	live := "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
	if _, err := io.WriteString(kept, live); err != nil {
		t.Fatal(err)
	}
	s.want(readReply(t, fromKept), 200, "live")
	hold := s.hold()
	running, fromRunning := dial(t, s.address)
	if _, err := running.Write(target().Good()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the inference", func() bool { return s.running.Load() == 1 })
	fresh, fromFresh := dial(t, s.address)
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	waitFor(t, "the drain", s.draining.Load)
	for _, c := range []net.Conn{kept, fresh} {
		if _, err := c.Write(target().Good()); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []answer{readReply(t, fromKept), readReply(t, fromFresh)} {
		s.want(a, 503, "shutting down")
		if a.header.Get(reasonHeader) != "draining" || a.header.Get("Retry-After") != "1" || !a.closes {
			t.Errorf("headers %v, closes %v", a.header, a.closes)
		}
	}
	close(hold)
	s.want(readReply(t, fromRunning), 200, "logits")
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}

// Whoever is still there when a drain's time is over is answered, too: those whose
// inference runs, and those whose body is on its way.
func TestDrainAnswersWhatItGivesUp(t *testing.T) {
	var s *server
	gone := make(chan struct{})
	s = start(t, Config{GiveUp: func() {
		s.fake.failWith(reason(frontend.ErrUnavailable, wire.ReasonDraining))
		close(gone)
	}})
	s.fake.mu.Lock()
	s.fake.hold = gone
	s.fake.mu.Unlock()
	running, fromRunning := dial(t, s.address)
	if _, err := running.Write(target().Good()); err != nil {
		t.Fatal(err)
	}
	_, fromSlow := announce(t, s.address, "/v2/models/digits/infer", 90_000, 20_000)
	waitFor(t, "both", func() bool { return s.running.Load() == 2 && s.bodies.Load() >= bodyFirst })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := s.Drain(ctx)
	s.want(readReply(t, fromRunning), 503, "unavailable")
	s.want(readReply(t, fromSlow), 503, "shutting down")
	if err == nil || !strings.Contains(err.Error(), "2 connections were still busy; 0 have been cut") {
		t.Errorf("drain: %v", err)
	}
}
