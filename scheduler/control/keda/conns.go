package keda

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
)

// conns are the connections by their far ends, so that one can be ended: gRPC has no way to. Behind a
// Service with several controllers a connection that reached one that does not lead would stay there for
// ever. That to the one that leads stays, so an age for all would be wrong.
type conns struct {
	net.Listener
	mu  sync.Mutex
	all map[string]net.Conn
}

// conn takes itself out when it is closed.
type conn struct {
	net.Conn
	of *conns
}

// Accept implements net.Listener.
func (c *conns) Accept() (net.Conn, error) {
	n, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	of := &conn{n, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[n.RemoteAddr().String()] = of
	return of, nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	if key := c.RemoteAddr().String(); c.of.all[key] == net.Conn(c) {
		delete(c.of.all, key)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// answerTime is how long the answer that says why may take before its connection ends.
const answerTime = 100 * time.Millisecond

// end closes the connection of a call soon, so that whoever has it dials anew, and may find another.
func (c *conns) end(ctx context.Context) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return
	}
	c.mu.Lock()
	n := c.all[p.Addr.String()]
	c.mu.Unlock()
	if n != nil {
		time.AfterFunc(answerTime, func() { n.Close() }) // gRPC's own end of it may have been before
	}
}
