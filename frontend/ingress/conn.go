package ingress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	// overflow is how many connections above the limit are still told so.
	overflow = 64
	// lingerMax and lingerTime bound what is swallowed of a refused body. The
	// kernel resets a connection that is closed with unread bytes, and the
	// answer is lost with it.
	lingerMax  = 1 << 30
	lingerTime = 2 * time.Second
	// acceptPause is the wait after a failed accept (no file descriptors).
	acceptPause = 10 * time.Millisecond
)

// listener counts connections and keeps on accepting when the machine runs
// out of file descriptors.
type listener struct {
	net.Listener
	s    *Server
	door door
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || l.s.draining.Load() {
				return nil, err
			}
			l.s.log.Warn().Err(err).Msg("http: cannot accept a connection; trying on")
			time.Sleep(acceptPause)
			continue
		}
		if k := l.s.admit(c, l.door); k != nil {
			return k, nil
		}
		c.Close()
	}
}

// Close implements net.Listener. Connections that have never sent a byte have
// nothing to finish.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for c := range l.s.conns {
		if c.door == l.door && !c.spoke.Load() {
			c.Conn.Close() // its goroutine sees the error and lets go
		}
	}
	return err
}

// admit registers a connection; nil when even the overflow is used up.
func (s *Server) admit(c net.Conn, d door) *conn {
	limit := s.cfg.Connections
	if d != mainDoor {
		limit = min(limit, sideConnections)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[d] >= limit+overflow {
		return nil
	}
	k := &conn{Conn: c, s: s, door: d, over: s.at[d] >= limit}
	s.conns[k] = struct{}{}
	s.at[d]++
	return k
}

// conn is one client's connection.
type conn struct {
	net.Conn
	s      *Server
	door   door
	over   bool        // above the limit: it is told so and closed
	spoke  atomic.Bool // has sent a byte
	linger atomic.Bool // a refused body may still be coming
	closed atomic.Bool
	asking asking

	read, write limit // Owned by the connection's goroutine, as is pace.
	pace        pace
}

// limit is a deadline. fasthttp sets four of them for each request, which the kernel's
// poller must be told, and most requests are there before anybody waits: so a deadline is
// told when there is something to wait for, and only if it differs from the last one by
// more than a 16th of what is left.
type limit struct {
	want, told time.Time
}

// due reports whether the deadline must be told, and takes it for told.
func (l *limit) due() bool {
	if l.want.Equal(l.told) {
		return false
	}
	if ahead := l.want.Sub(l.told); !l.want.IsZero() && !l.told.IsZero() && ahead > 0 && ahead < time.Until(l.want)/16 {
		return false
	}
	l.told = l.want
	return true
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.want = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.want = t
	return nil
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.read.want, c.write.want = t, t
	return nil
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.write.due() {
		if err := c.Conn.SetWriteDeadline(c.write.told); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		if c.read.due() {
			if err := c.Conn.SetReadDeadline(c.read.told); err != nil {
				return 0, err
			}
			if c.s.givenUp.Load() {
				return 0, os.ErrDeadlineExceeded
			}
		}
		n, err := c.Conn.Read(b)
		if n > 0 && !c.spoke.Load() {
			c.spoke.Store(true)
		}
		if c.pace.on {
			c.pace.got += int64(n)
			if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.goOn() {
				continue
			}
		}
		return n, err
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Load() {
		if half.CloseWrite() == nil && c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, lingerMax)
		}
	}
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.at[c.door]--
	c.s.mu.Unlock()
	return c.Conn.Close()
}

// abort closes without waiting for anything.
func (c *conn) abort() {
	c.linger.Store(false)
	c.Conn.Close()
}
