package grpcin

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// What a message's bytes take while they come is not grpc-go's to bound: it opens a window as large as
// the message, for as many calls as there may be. So connections count what they have read and no handler
// has got yet. Too much of it in all refuses new calls; a connection that goes on to read with much of
// it is cut.

// errHeld ends a connection's reads.
var errHeld = errors.New("too many bytes of messages are coming at a time, most of them over this connection")

// conn is one client's connection.
type conn struct {
	net.Conn
	s      *Server
	closed atomic.Bool

	mu      sync.Mutex // Guards what follows.
	pending int64      // bytes that were read, and belong to no call that has its message
	coming  int        // unary calls without their message
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.pending += int64(n)
	mine := c.pending
	c.mu.Unlock()
	if all := c.s.held.Add(int64(n)); all > c.s.cfg.HeldMax && mine > c.s.cfg.HeldMax/heldShare {
		c.s.metrics.cut.Inc()
		return 0, errHeld
	}
	return n, err
}

// heldShare is which part of HeldMax a connection may hold when there is no more.
const heldShare = 16

// came counts a message of n bytes out, which its handler has now. What comes beside messages (the
// frames' headers) is forgotten whenever no call waits for its message.
func (c *conn) came(n int, unary bool) {
	c.mu.Lock()
	less := min(int64(n), c.pending)
	if unary {
		if c.coming--; c.coming == 0 {
			less = c.pending
		}
	}
	c.pending -= less
	c.mu.Unlock()
	c.s.held.Add(-less)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.mu.Lock()
		left := c.pending
		c.pending = 0
		c.mu.Unlock()
		c.s.held.Add(-left)
		c.s.open.Add(-1)
	}
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

// arrival is a call whose message may be on its way.
type arrival struct {
	conn  *conn
	limit *time.Timer
	late  atomic.Bool // the time for it is over
	once  sync.Once
}

type arrivalKey struct{}

// arrivalOf is the call's.
func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// came is called when the call has its message, or will have none.
func (a *arrival) came(n int) {
	if a == nil {
		return
	}
	a.once.Do(func() {
		a.limit.Stop()
		if a.conn != nil {
			a.conn.came(n, true)
		}
	})
}

// tap sees each call before anything is kept for it.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.held.Load() > s.cfg.HeldMax {
		return ctx, s.status("", "", s.cfg.Web.Full("too many bytes of messages are coming at a time"))
	}
	a := &arrival{}
	if p, ok := peer.FromContext(ctx); ok {
		if k, ok := p.AuthInfo.(known); ok && k.conn != nil {
			a.conn = k.conn
			a.conn.mu.Lock()
			a.conn.coming++
			a.conn.mu.Unlock()
		}
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, arrivalKey{}, a))
	a.limit = time.AfterFunc(s.cfg.BodyTime, func() {
		a.late.Store(true)
		cancel()
		a.came(0)
	})
	return ctx, nil
}

// tooSlow is the answer to who took too long.
func (s *Server) tooSlow() error {
	return status.Errorf(codes.DeadlineExceeded, "the call's message did not come within %v", s.cfg.BodyTime)
}
