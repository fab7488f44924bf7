package grpcin

import (
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// What a message's bytes take while they come is not grpc-go's to bound: it opens a window as large as
// the message, for as many calls as there may be. So connections count the messages' bytes that they have
// read and no handler has got yet, and that a call may still be ended before. Too much of it in all refuses new calls; a
// connection that goes on to read with much of it is cut.

// errHeld ends a connection's reads.
var errHeld = errors.New("too many bytes of messages are coming at a time, most of them over this connection")

// conn is one client's connection.
type conn struct {
	net.Conn
	s *Server

	told framing // of what the server sends; Write's, which grpc-go calls one at a time

	mu      sync.Mutex // Guards what follows.
	frames  frames
	closed  bool
	behind  bool  // grpc-go may not have seen all that was read: calls whose messages are counted may be new to it
	pending int64 // bytes of messages that were read and no handler has
	coming  int   // calls without their message
	streams int   // open streams whose client may send more messages
}

// spareStreams is how many streams a connection may have open beside Config.Calls of them: those that grpc-go
// refuses, until it has. It reads no more while a few of its refusals wait to be sent.
const spareStreams = 1 << 14

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.forget()
	n, err := c.Conn.Read(b)
	if c.took(b[:n]) {
		return n, err
	}
	c.s.metrics.cut.Inc()
	return 0, errHeld
}

// Write implements net.Conn. With a stream that the server ends, what came of a message over it is nobody's, and
// its client need not say another word.
func (c *conn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		k, _, last := c.told.next(rest)
		if rest = rest[k:]; last && c.told.ends() {
			c.over(c.told.stream())
		}
	}
	return c.Conn.Write(b)
}

// heldShare is which part of HeldMax a connection may hold when there is no more.
const heldShare = 16

// took counts in what was read, and reports whether there is room for it.
func (c *conn) took(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = len(b) > 0
	room := c.held(int64(c.frames.data(b)))
	c.less(int64(c.frames.lost()))
	return room && len(c.frames.coming) <= c.s.cfg.Calls+spareStreams
}

// held counts n bytes in, and reports whether there is room for them. A connection that was closed
// meanwhile has none: nobody would count them out. Its caller holds c.mu.
func (c *conn) held(n int64) bool {
	if c.closed || n == 0 {
		return true
	}
	c.pending += n
	return c.s.held.Add(n) <= c.s.cfg.HeldMax || c.pending <= c.s.cfg.HeldMax/heldShare
}

// less counts n bytes out, but none of a message that is half there: a handler's may be longer than what came of
// it, compressed. Where nothing is awaited it counts out all: what is left then was for nobody (calls that were
// refused or have ended). Its caller holds c.mu.
func (c *conn) less(n int64) {
	if c.closed {
		return
	}
	n = min(n, c.pending-int64(c.frames.half))
	if c.coming == 0 && c.streams == 0 && !c.behind {
		n = c.pending
		c.frames.forget()
	}
	c.pending -= n
	c.s.held.Add(-n)
}

// over counts out what came half over a stream that the server ends.
func (c *conn) over(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames.over(stream)
	c.less(int64(c.frames.lost()))
}

// forget counts out what nobody waits for. grpc-go reads on only when it has seen all that was read.
func (c *conn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = false
	c.less(0)
}

// expect counts a call in whose message comes.
func (c *conn) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coming++
}

// came counts a message of n bytes out, its head included, which its handler has now; first: it is the one
// that expect told of, or the call has ended without, and n is 0.
func (c *conn) came(n int, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first {
		c.coming--
	}
	c.less(int64(n))
}

// stream counts a stream in (1) or out (-1).
func (c *conn) stream(d int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams += d
	c.less(0)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.s.held.Add(-c.pending)
		c.pending = 0
		c.s.open.Add(-1)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// listener bounds the connections.
type listener struct {
	net.Listener
	s *Server
}

// acceptPause is the wait after a failed accept (no file descriptors).
const acceptPause = 10 * time.Millisecond

// Accept implements net.Listener. Who comes when there are too many finds its connection closed:
// gRPC has no word before a call.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			l.s.log.Warn().Err(err).Msg("grpc: cannot accept a connection; trying on")
			time.Sleep(acceptPause)
			continue
		case l.s.open.Add(1) > int64(l.s.cfg.Connections):
			l.s.open.Add(-1)
			l.s.metrics.refused.Inc()
			c.Close()
			continue
		}
		return &conn{Conn: c, s: l.s}, nil
	}
}

// door hands the connection on to the calls that come over it.
type door struct {
	credentials.TransportCredentials
}

// known is a connection as grpc-go knows it.
type known struct {
	credentials.AuthInfo
	conn *conn
}

// ServerHandshake implements credentials.TransportCredentials.
func (d door) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	outer, info, err := d.TransportCredentials.ServerHandshake(c)
	k, _ := c.(*conn)
	return outer, known{info, k}, err
}

// Clone implements credentials.TransportCredentials.
func (d door) Clone() credentials.TransportCredentials { return door{d.TransportCredentials.Clone()} }
