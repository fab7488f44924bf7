package ingress

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A client that goes away takes its request along, so that others get its place in a batch. fasthttp does not
// tell of that: while a handler waits for an answer nobody reads the connection. So one goroutine looks at the
// connections of requests that have waited long, and cancels those whose client has closed.
//
//	handler   wait: its connection says since when (asked) ... answer: asked = 0
//	lookout   each tick: of connections with an old asked, is there an end to be read?
//	          yes: asked is claimed, the request's ids are cancelled, asked is given back
//
// A request pays for it with two atomic words of its own connection. The lookout lives while inferences run. With many
// connections it looks less often, so as to take no more than a 200th of a processor, but four times a second at least:
// as a rule a client's end is seen within 50 ms, and where thousands wait within 0.3 s.
//
// A client that closes its sending half alone is taken for gone, as by other servers: the kernel tells no difference
// before something is sent. What it sent ahead (the next, pipelined, request) is no end.
//
// Rejected: a context for each request. It costs allocations, and only tells of what somebody has found out.

const (
	// patience is how long a request waits before its connection is looked at.
	patience = 20 * mono.Millisecond
	// lookEvery is the least between two looks, lookRare the most: a look that the machine interrupted took long, and
	// says nothing of the next. Between them it is lookShare times as long as a look took.
	lookEvery = 20 * time.Millisecond
	lookShare = 200
	lookRare  = 250 * time.Millisecond
	// lookIdle is how many rests without any inference end the lookout.
	lookIdle = 50
)

// asking is what the lookout must know of a connection whose handler waits.
type asking struct {
	asked atomic.Int64 // the request began (mono.Time), negative while it is claimed; 0: nobody waits
	ids   []atomic.Uint64

	// Owned by the lookout.
	raw     syscall.RawConn
	unknown bool // it cannot be looked at
}

// await notes that the exchange waits for so many inferences from now on, whose ids go into the places it returns;
// over must follow.
func (s *Server) await(x *exchange, began mono.Time, items int) []atomic.Uint64 {
	if cap(x.ids) < items {
		x.ids = make([]atomic.Uint64, items)
	}
	x.ids = x.ids[:items]
	for i := range x.ids {
		x.ids[i].Store(0)
	}
	if c, ok := x.ctx.Conn().(*conn); ok {
		c.asking.ids = x.ids
		c.asking.asked.Store(int64(began))
		if !s.looking.Load() && s.looking.CompareAndSwap(false, true) {
			go s.lookOut()
		}
	}
	return x.ids
}

// over notes that the answers are there.
func (x *exchange) over() {
	c, ok := x.ctx.Conn().(*conn)
	if !ok {
		return
	}
	for at := c.asking.asked.Load(); ; at = c.asking.asked.Load() {
		if at >= 0 && c.asking.asked.CompareAndSwap(at, 0) {
			return
		}
		time.Sleep(10 * time.Microsecond) // its client has gone, and the lookout says so just now
	}
}

// lookOut looks until there was nothing to look at for a while.
func (s *Server) lookOut() {
	var left []*conn
	rest := time.NewTimer(0)
	defer rest.Stop()
	for idle := 0; idle < lookIdle; {
		took := mono.Dur(0)
		if s.running.Load() > 0 {
			idle = 0
			left, took = s.look(left[:0])
			for _, c := range left {
				s.cancel(c)
			}
			clear(left)
		} else if idle++; s.draining.Load() {
			break
		}
		s.rest(rest, restAfter(took.Std()))
	}
	s.looking.Store(false)
	if s.running.Load() > 0 && s.looking.CompareAndSwap(false, true) { // it came meanwhile, and saw a lookout
		go s.lookOut()
	}
}

// restAfter is how long there is no look after one that took so long.
func restAfter(look time.Duration) time.Duration {
	return min(max(lookEvery, lookShare*look), lookRare)
}

// rest waits so long. A drain is not kept waiting: it has looks as often as there may be any, so that no lookout
// is left when it is over.
func (s *Server) rest(t *time.Timer, d time.Duration) {
	t.Reset(d)
	select {
	case <-t.C:
	case <-s.ending.Done():
		time.Sleep(lookEvery)
	}
}

// look appends the connections whose request has waited long and whose client has gone. It took so long, the wait for
// the lock not counted: that is nobody's processor.
func (s *Server) look(dst []*conn) (left []*conn, took mono.Dur) {
	s.mu.Lock()
	now := mono.Now()
	for c := range s.conns {
		if at := c.asking.asked.Load(); at > 0 && now.Sub(mono.Time(at)) > patience {
			dst = append(dst, c)
		}
	}
	s.mu.Unlock()
	left = dst[:0]
	for _, c := range dst {
		if c.gone() {
			left = append(left, c)
		}
	}
	took = mono.Now().Sub(now)
	clear(dst[len(left):])
	return left, took
}

// cancel cancels what the connection's handler waits for. Those that are not on their way yet are at the next look.
func (s *Server) cancel(c *conn) {
	at := c.asking.asked.Load()
	if at <= 0 || !c.asking.asked.CompareAndSwap(at, -at) {
		return // it has its answer
	}
	for i := range c.asking.ids {
		if id := c.asking.ids[i].Load(); id != 0 {
			s.cfg.Client.Cancel(wire.RequestID(id))
		}
	}
	c.asking.asked.Store(at)
}

// gone reports whether the client has closed the connection, as far as that can be known.
func (c *conn) gone() bool {
	a := &c.asking
	if a.unknown {
		return false
	}
	if a.raw == nil {
		socket, ok := c.Conn.(syscall.Conn)
		raw, err := syscall.RawConn(nil), error(nil)
		if ok {
			raw, err = socket.SyscallConn()
		}
		if a.raw = raw; raw == nil || err != nil {
			a.unknown = true
			return false
		}
	}
	gone := false
	return a.raw.Control(func(fd uintptr) { gone = closed(fd) }) == nil && gone
}
