package tcp

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// listener is an open port.
type listener struct {
	// Immutable.
	o      transport.Options
	ln     *net.TCPListener
	accept func(peer wire.Hello) (transport.Handler, error)
	prober Prober   // may be nil
	poll   mono.Dur // Immutable.

	running sync.WaitGroup // run and the handshakes

	mu      sync.Mutex // Guards what follows.
	links   map[*link]struct{}
	shaking shaking
	held    int // links that live or are about to
	closed  bool
}

// Address is where to dial.
func (s *listener) Address() string { return "tcp:" + s.ln.Addr().String() }

// Close ends the port and its links. See transport.Listener.
func (s *listener) Close() error {
	s.mu.Lock()
	s.closed = true
	s.ln.Close()
	for _, h := range s.shaking.all {
		h.conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait() // from here on no link is added
	s.mu.Lock()
	links := slices.Collect(maps.Keys(s.links))
	s.mu.Unlock()
	for _, l := range links {
		l.Close(nil)
	}
	for _, l := range links {
		<-l.done
	}
	return nil
}

// run accepts connections until the port is closed.
func (s *listener) run() {
	defer s.running.Done()
	var pace acceptPace
	for {
		conn, err := s.ln.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, mostly: it passes
			s.o.Refused("", fmt.Errorf("cannot accept: %w", err))
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if h := s.enter(conn); h != nil {
			go s.shake(h)
		}
		if wait := pace.next(time.Now()); wait > 0 {
			time.Sleep(max(wait, time.Millisecond))
		}
	}
}

// enter takes a handshake's place, as soon as there is one to take; nil: the port is closed.
func (s *listener) enter(conn *net.TCPConn) *handshake {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.shaking.crowded(time.Now()) { // those that end meanwhile make room
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	if s.closed {
		conn.Close()
		return nil
	}
	s.running.Add(1)
	return s.shaking.enter(conn)
}

// shake is one connection's handshake, in a goroutine of its own.
func (s *listener) shake(h *handshake) {
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		s.shaking.leave(h)
		s.mu.Unlock()
	}()
	conn := h.conn
	conn.SetDeadline(time.Now().Add(s.o.Handshake.Std()))
	in := newInbound(conn)
	peer, err := hear(in, s.o.Hello)
	if err == nil {
		err = s.admit(conn, in, peer)
	}
	if err != nil {
		if s.displaced(h) {
			err = fmt.Errorf("%w: newer connections took its place: at most %d handshakes are open at once", transport.ErrFull, shakingMax)
		}
		s.o.Refused(conn.RemoteAddr().String(), err)
		turnAway(conn, err)
	}
}

// displaced reports whether newer handshakes took h's place.
func (s *listener) displaced(h *handshake) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.gone
}

// admit asks accept and makes the link live.
func (s *listener) admit(conn *net.TCPConn, in *inbound, peer wire.Hello) error {
	s.mu.Lock()
	full := s.held >= s.o.LinksMax
	if !full {
		s.held++
	}
	s.mu.Unlock()
	if full {
		return transport.Refuse(fmt.Errorf("%d links are open here, and no more are allowed", s.o.LinksMax))
	}
	h, err := s.accept(peer)
	if err != nil {
		s.release(nil)
		return transport.Refuse(err)
	}
	l := newLink(conn, in, s.o, h)
	l.peer, l.ended = peer, s.release
	if err := l.welcome(); err != nil {
		l.stillborn(err)
		return err
	}
	conn.SetDeadline(time.Time{})
	in.live(s.o.PayloadMax, l.heart, l.out, newPoller(conn, s.poll))
	l.follow(s.prober)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[l] = struct{}{}
	l.start()
	return nil
}

// release forgets a link that has ended, or a place that was not taken.
func (s *listener) release(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
	s.held--
}

// stillborn ends a link that never was live: its handler is told all the same.
func (l *link) stillborn(err error) {
	l.conn.Close()
	l.out.Close(closedBy(err))
	l.reads.close(closedBy(err))
	l.handler.Closed(l, err)
	l.ended(nil)
}
