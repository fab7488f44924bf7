package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// TestJoiningGPUKeepsItsBatches: a GPU that joins while requests are ripe may be granted
// before its backend's admission is over. No batch may be thrown away then: its requests
// would expire, and the GPU would be one batch short for the rest of its life. Nor may an
// order come before the catalogue that names its model (peer.Receive looks).
func TestJoiningGPUKeepsItsBatches(t *testing.T) {
	s, n := newServer(t, nil)
	backendPeer(t, n, "stays", 1, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	id := wire.RequestID(0)
	for round := range 40 {
		for range 16 * 12 { // more full batches than the one GPU takes: ripe when the others come
			id++
			f.submit(id, 0, 300*mono.Millisecond)
		}
		b := backendPeer(t, n, fmt.Sprint("joins", round%2), 8, "m")
		b.wait("it has batches", func() bool { return len(b.batches) > 0 })
		f.wait("all requests are answered or dropped", func() bool { return s.open() == 0 })
		b.link.Close(nil)
		f.wait("it has left", func() bool { return f.entry("m").GPUs == 1 })
	}
}

// After Close nothing begins any more: not for who was let in before it and introduces itself
// now, nor for a model list that was on its way.
func TestNothingBeginsAfterClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, n := newServer(t, nil)
	waits := newPeer(t)
	waits.gate = make(chan struct{}) // it does not hear that it is asked for its model list
	waits.dial(n, wire.RoleBackend, "waits")
	list, d, err := catalog.EncodeModels([]catalog.ModelSpec{spec("m")})
	if err != nil {
		t.Fatal(err)
	}
	transport.SendDoc(waits.link, wire.DocBackend, catalog.BackendInfo{Name: "waits", Instance: 1, Pools: []catalog.Pool{{DeviceType: "e", Devices: 1, Models: d}}})
	var known *backend
	waits.wait("it has introduced itself", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, known = range s.backends {
		}
		return known != nil
	})
	late, err := s.accept(wire.Hello{Role: wire.RoleBackend, Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	lateFrontend, err := s.accept(wire.Hello{Role: wire.RoleFrontend, Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(waits.gate)
	s.backends[known.conn] = known // as if its link were there still
	known.onModels(list)
	known.retire()
	for who, h := range map[string]transport.Handler{"backend": late, "frontend": lateFrontend} {
		l := &lastWords{}
		switch h := h.(type) {
		case *backend:
			h.join(l, &catalog.BackendInfo{Name: "late", Instance: 2, Pools: []catalog.Pool{{DeviceType: "e", Devices: 1, Models: d}}})
		case *frontend:
			h.join(l, &catalog.FrontendInfo{Name: "late", Instance: 3, Address: "inproc:late"})
		}
		h.Closed(l, transport.ErrClosed)
		if !l.cut || !strings.Contains(l.said, "shutting down") {
			t.Errorf("%s: it was told %q, its link closed: %v", who, l.said, l.cut)
		}
	}
	if len(s.pools) != 0 || len(s.frontends) != 0 {
		t.Errorf("%d pools and %d frontends came after Close", len(s.pools), len(s.frontends))
	}
	goleak.VerifyNone(t, before)
}

// lastWords keeps what a newcomer is told.
type lastWords struct {
	transport.Link
	said string
	cut  bool
}

func (l *lastWords) SendPayload(_, payload []byte, _ func()) error {
	l.said += string(payload)
	return nil
}
func (l *lastWords) Close(error) { l.cut = true }

// A pool that begins after the deferral has ended does not defer.
func TestLatePoolIsHastened(t *testing.T) {
	s, n := newServer(t, nil)
	s.Hasten()
	b := dial(t, n, wire.RoleBackend, "b")
	m := spec("m")
	m.SLO = 600 * mono.Second
	b.introduce(catalog.BackendInfo{Name: "b"}, "emulated", 1, []catalog.ModelSpec{m})
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	f.submit(1, 0, 600*mono.Second)
	b.wait("it runs", func() bool { return len(b.answers[1]) == 1 })
}

// However often a backend says that it drains, the log says it once; and that a frontend left
// whose process has another link, it does not say.
func TestLogOfPeers(t *testing.T) {
	var log lines
	s, n := newServer(t, func(c *Config) { c.Logger = zerolog.New(&log) })
	early := dial(t, n, wire.RoleBackend, "early")
	b := backendPeer(t, n, "b", 1, "m")
	leave := (&wire.Leave{Epoch: s.Epoch()}).Append(nil)
	for range 5 {
		_ = early.link.Send(leave)
		_ = b.link.Send(leave)
	}
	b.link.Close(nil)
	b.wait("it has left", func() bool { return log.count("backend left") == 1 })
	if n := log.count("backend drains"); n != 1 {
		t.Errorf("%d lines say that a backend drains", n)
	}
	for range 3 {
		f := dial(t, n, wire.RoleFrontend, "f")
		transport.SendDoc(f.link, wire.DocFrontend, catalog.FrontendInfo{Name: "f", Instance: 7, Address: "inproc:f"})
		f.wait("admission", func() bool { return f.admitted != nil })
	}
	f := frontendPeer(t, n)
	f.link.Close(nil)
	f.wait("a frontend has left", func() bool { return log.count("frontend left") > 0 })
	if n := log.count("frontend left"); n != 1 {
		t.Errorf("%d lines say that a frontend left", n)
	}
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}
