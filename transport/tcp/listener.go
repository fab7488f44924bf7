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

// shakingMax bounds the handshakes in progress; a connection beyond it is
// closed at once, so that a port scan cannot take all memory.
const shakingMax = 256

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
	shaking map[*net.TCPConn]struct{}
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
	for conn := range s.shaking {
		conn.Close()
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
		if !s.enter(conn) {
			s.o.Refused(conn.RemoteAddr().String(), fmt.Errorf("%w: more than %d handshakes at once", transport.ErrFull, shakingMax))
			conn.Close()
			continue
		}
		go s.shake(conn)
	}
}

// enter takes a handshake's place.
func (s *listener) enter(conn *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.shaking) >= shakingMax {
		return false
	}
	s.shaking[conn] = struct{}{}
	s.running.Add(1)
	return true
}

// shake is one connection's handshake, in a goroutine of its own.
func (s *listener) shake(conn *net.TCPConn) {
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		delete(s.shaking, conn)
		s.mu.Unlock()
	}()
	conn.SetDeadline(time.Now().Add(s.o.Handshake.Std()))
	in := newInbound(conn)
	peer, err := hear(in, s.o.Hello)
	if err == nil {
		err = s.admit(conn, in, peer)
	}
	if err != nil {
		s.o.Refused(conn.RemoteAddr().String(), err)
		turnAway(conn, err)
	}
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
