package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// world is a network of hosts, each with a name: hosts die without a word, stand still and go on, and
// lose sight of each other, one way or both.
type world struct {
	t   *testing.T
	net *loopback.Network

	mu    sync.Mutex // Guards what follows.
	cuts  map[[2]string]bool
	hosts []*site
}

func newWorld(t *testing.T) *world {
	return &world{t: t, net: loopback.New(), cuts: map[[2]string]bool{}}
}

// cut has nothing arrive that one host sends another, from now on, or lets it pass again: what was sent
// meanwhile, too, as TCP does.
func (w *world) cut(from, to string, cut bool) {
	w.mu.Lock()
	w.cuts[[2]string{from, to}] = cut
	hosts := slices.Clone(w.hosts)
	w.mu.Unlock()
	for _, h := range hosts {
		h.flush()
	}
}

func (w *world) isCut(from, to string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[[2]string{from, to}]
}

// site is one of them: a transport.Network of its own.
type site struct {
	w    *world
	name string
	dead atomic.Bool

	mu     sync.Mutex // Guards what follows.
	still  chan struct{}
	links  map[transport.Link]*hostLink
	opened []transport.Listener
}

func (w *world) host(name string) *site {
	h := &site{w: w, name: name, links: map[transport.Link]*hostLink{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = append(w.hosts, h)
	return h
}

// kill ends it: its links break, and nobody listens there any more.
func (h *site) kill() {
	h.dead.Store(true)
	h.mu.Lock()
	opened, links := h.opened, h.links
	h.opened, h.links = nil, map[transport.Link]*hostLink{}
	h.mu.Unlock()
	for l := range links {
		l.Close(errors.New("killed"))
	}
	for _, l := range opened {
		l.Close()
	}
}

// pause has nothing leave it or arrive, until it is called with false: then all does, in order.
func (h *site) pause(still bool) {
	h.mu.Lock()
	switch {
	case still && h.still == nil:
		h.still = make(chan struct{})
	case !still && h.still != nil:
		close(h.still)
		h.still = nil
	}
	h.mu.Unlock()
	h.flush()
}

// flush sends what was kept and may pass now.
func (h *site) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.links {
		if !l.stuck() {
			for _, send := range l.kept {
				_ = send()
			}
			l.kept = nil
		}
	}
}

func (h *site) gate() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.still
}

// Dial implements transport.Network.
func (h *site) Dial(ctx context.Context, address string, o transport.Options, handler transport.Handler) (transport.Link, error) {
	if h.dead.Load() || h.gate() != nil {
		return nil, errors.New("this host does nothing")
	}
	there := address[len("inproc:"):]
	if h.w.isCut(h.name, there) || h.w.isCut(there, h.name) {
		return nil, errors.New("no answer")
	}
	o.Hello.Name = h.name
	x := &hostHandler{host: h, Handler: handler}
	l, err := h.w.net.Dial(ctx, address, o, x)
	if err != nil {
		return nil, err
	}
	return h.wrap(l), nil
}

// Listen implements transport.Network.
func (h *site) Listen(address string, o transport.Options, accept func(wire.Hello) (transport.Handler, error)) (transport.Listener, error) {
	o.Hello.Name = h.name
	l, err := h.w.net.Listen(address, o, func(peer wire.Hello) (transport.Handler, error) {
		if h.w.isCut(h.name, peer.Name) || h.w.isCut(peer.Name, h.name) {
			return nil, errors.New("cut")
		}
		inner, err := accept(peer)
		return &hostHandler{host: h, Handler: inner}, err
	})
	if err == nil {
		h.mu.Lock()
		h.opened = append(h.opened, l)
		h.mu.Unlock()
	}
	return l, err
}

func (h *site) wrap(l transport.Link) *hostLink {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.links[l]
	if x == nil {
		x = &hostLink{Link: l, host: h}
		h.links[l] = x
	}
	return x
}

// hostLink is a link as its host sees it.
type hostLink struct {
	transport.Link
	host *site
	kept []func() error // what could not be sent; guarded by host.mu
}

// stuck reports whether nothing leaves. Caller holds host.mu.
func (l *hostLink) stuck() bool {
	return l.host.still != nil || l.host.w.isCut(l.host.name, l.Peer().Name)
}

func (l *hostLink) pass(send func() error) error {
	h := l.host
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.dead.Load():
		return nil
	case l.stuck():
		l.kept = append(l.kept, send)
		return nil
	}
	return send()
}

// Send implements transport.Link.
func (l *hostLink) Send(frames []byte) error {
	all := slices.Clone(frames)
	return l.pass(func() error { return l.Link.Send(all) })
}

// SendPayload implements transport.Link.
func (l *hostLink) SendPayload(frame, payload []byte, release func()) error {
	all := slices.Clone(frame)
	return l.pass(func() error { return l.Link.SendPayload(all, payload, release) })
}

// hostHandler hands what comes to whom it is for.
type hostHandler struct {
	transport.Handler
	host *site
}

// Receive implements transport.Handler.
func (x *hostHandler) Receive(l transport.Link, f transport.Frame) {
	if gate := x.host.gate(); gate != nil {
		<-gate
	}
	if !x.host.dead.Load() {
		x.Handler.Receive(x.host.wrap(l), f)
	}
}

// Closed implements transport.Handler.
func (x *hostHandler) Closed(l transport.Link, err error) {
	if gate := x.host.gate(); gate != nil {
		<-gate
	}
	w := x.host.wrap(l)
	x.Handler.Closed(w, err)
	x.host.mu.Lock()
	delete(x.host.links, l)
	x.host.mu.Unlock()
}

// until waits for something.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 30 s", what)
}

// member is a scheduler's process: one server after the other.
type member struct {
	w       *world
	host    *site
	name    string
	cfg     Config
	ahead   time.Duration // its host's clock is, from start on
	stopped chan struct{}
	done    chan struct{}
	servers atomic.Int64 // begun so far

	current atomic.Pointer[Server]
}

// groupOf starts schedulers of a group.
func (w *world) groupOf(change func(*Config), names ...string) (all []*member) {
	w.t.Helper()
	var group []string
	for _, n := range names {
		group = append(group, "inproc:"+n)
	}
	for _, n := range names {
		m := &member{w: w, name: n}
		m.cfg = Config{Listen: []string{"inproc:" + n}, Name: n, Group: group,
			Margin: 250 * mono.Microsecond, DelayMin: 100 * mono.Microsecond, DelayMax: 5 * mono.Millisecond, Lead: mono.Millisecond}
		if change != nil {
			change(&m.cfg)
		}
		m.start()
		all = append(all, m)
	}
	return all
}

func (m *member) start() {
	m.host = m.w.host(m.name)
	m.cfg.Network, m.cfg.Past = m.host, &Past{}
	m.cfg.Past.once.Do(func() { m.cfg.Past.begun = uint64(time.Now().Add(m.ahead).UnixNano()) - uint64(mono.Now()) })
	m.stopped, m.done = make(chan struct{}), make(chan struct{})
	s, err := New(m.cfg)
	if err != nil {
		m.w.t.Fatal(err)
	}
	m.current.Store(s)
	m.servers.Add(1)
	go m.run(s)
	m.w.t.Cleanup(m.end)
}

func (m *member) run(s *Server) {
	defer close(m.done)
	for {
		select {
		case <-m.stopped:
			s.Close()
			return
		case <-s.Over():
		}
		s.Close()
		var err error
		if s, err = New(m.cfg); err != nil {
			if !m.host.dead.Load() {
				m.w.t.Error(err)
			}
			return
		}
		m.current.Store(s)
		m.servers.Add(1)
	}
}

// end ends it in order.
func (m *member) end() {
	select {
	case <-m.stopped:
	default:
		close(m.stopped)
	}
	m.host.pause(false)
	<-m.done
}

func (m *member) kill() {
	m.host.kill()
	m.end()
}

func (m *member) leads() bool { return !m.host.dead.Load() && m.current.Load().Leads() }

// leader waits until one leads and no other does.
func leader(t *testing.T, all []*member) (it *member) {
	t.Helper()
	until(t, "one leads", func() bool {
		it = nil
		n := 0
		for _, m := range all {
			if m.leads() {
				it = m
				n++
			}
		}
		return n == 1
	})
	return it
}

func without(all []*member, m *member) []*member {
	return slices.DeleteFunc(slices.Clone(all), func(x *member) bool { return x == m })
}

func (m *member) String() string { return fmt.Sprintf("scheduler %s", m.name) }
