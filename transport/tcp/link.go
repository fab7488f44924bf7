package tcp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lingerMax is how long Close may take to flush and part.
const lingerMax = time.Second

// link is one end of a connection.
type link struct {
	// Immutable after start.
	o       transport.Options
	conn    *net.TCPConn
	peer    wire.Hello
	handler transport.Handler
	heart   *transport.Heart
	out     *transport.Outbox
	ended   func(*link) // tells the listener; may be nil
	probe   probe
	born    mono.Time

	// Owned by the receiving goroutine (but in's counters are shared).
	in      *inbound
	scratch []byte // payloads that nobody had a buffer for
	reply   []byte // a frame of the link's own

	reads    reads         // Guards itself.
	spoke    atomic.Bool   // the peer has sent more than its hello; by the receiving goroutine
	serving  atomic.Int64  // READs of the peer whose reply has neither left nor been copied
	framesIn atomic.Uint64 // by the receiving goroutine
	bytesOut atomic.Uint64 // by who moves what was sent
	wrote    chan struct{} // closed by the writer at its end
	done     chan struct{} // closed after Handler.Closed

	mu    sync.Mutex // Guards what follows.
	cause error      // why the link ends; the first counts
	beat  *time.Timer
	state atomic.Int32 // written under mu
}

const (
	stateLive    int32 = iota
	stateParting       // flushing, then FIN; what comes in is discarded
	stateBroken        // nothing can be sent any more
)

// start makes the link live; the handshake is over.
func (l *link) start() {
	l.born = mono.Now()
	l.mu.Lock()
	l.beat = time.AfterFunc(l.o.HeartbeatTo(l.peer).Std(), l.pulse)
	l.mu.Unlock()
	l.sendDirectly()
	go l.write()
	go l.receive()
}

// Peer is the other side's hello.
func (l *link) Peer() wire.Hello { return l.peer }

// Send queues frames. See transport.Link.
func (l *link) Send(frames []byte) error { return l.out.Send(frames) }

// SendPayload queues a frame and its payload. See transport.Link.
func (l *link) SendPayload(frame, payload []byte, release func()) error {
	return l.out.SendPayload(frame, payload, release)
}

// PayloadLater is SendPayload without Flush. See transport.Gatherer.
func (l *link) PayloadLater(frame, payload []byte, release func()) error {
	return l.out.PayloadLater(frame, payload, release)
}

// Flush sends what PayloadLater has queued.
func (l *link) Flush() (calm bool) { return l.out.Flush() }

// Read asks the peer for slabs. See transport.Link.
func (l *link) Read(ops []transport.ReadOp) error { return l.reads.send(ops, l.out) }

// Shift is the span to add to the peer's instants.
func (l *link) Shift() mono.Dur { return l.heart.Shift() }

// Stats collects the counters and the heartbeats' and the kernel's measurements.
func (l *link) Stats() transport.LinkStats {
	st := transport.LinkStats{FramesIn: l.framesIn.Load(), BytesIn: l.in.bytes.Load(), BytesOut: l.bytesOut.Load()}
	st.FramesOut, st.SendsFull = l.out.Counts()
	l.heart.Stats(&st)
	l.probe.join(&st)
	return st
}

// Close parts from the peer after flushing. See transport.Link.
func (l *link) Close(cause error) {
	if errors.Is(cause, transport.ErrProtocol) {
		l.fail(cause)
		return
	}
	if cause == nil {
		cause = transport.ErrClosed
	}
	l.end(cause, stateParting)
}

// end begins the link's end; the first call decides why and how. Parting gives
// both directions lingerMax, broken gives them nothing. The receiving
// goroutine does the rest: see finish.
func (l *link) end(cause error, how int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = cause
		if l.beat != nil {
			l.beat.Stop()
		}
		l.out.Close(closedBy(cause))
	}
	if how <= l.state.Load() {
		return
	}
	l.state.Store(how)
	if how == stateBroken {
		l.conn.Close()
		return
	}
	l.conn.SetDeadline(time.Now().Add(lingerMax))
}

// closedBy is what later Sends and READs are told: always ErrClosed, and why.
func closedBy(cause error) error {
	if cause == transport.ErrClosed {
		return cause
	}
	return fmt.Errorf("%w: %w", transport.ErrClosed, cause)
}

// fail ends the link because the peer broke the protocol: it is told so.
func (l *link) fail(err error) {
	m := wire.Reject{Version: wire.Version, Text: transport.RejectText(err)}
	l.out.Reply(m.Append(nil)) // a closed outbox means that the end has begun
	l.end(err, stateParting)
}

// pulse is the heartbeat: it pings, and ends the link when the peer is silent.
// While the receiving goroutine is not reading (a slow handler) silence says
// nothing about the peer: it counts from the last beat at which nobody read, or
// a beat right after the handler, before what waits in the socket was taken,
// would find a long silence.
func (l *link) pulse() {
	if !l.in.reading.Load() {
		l.heart.Heard()
	}
	if l.heart.Silent() {
		l.conn.SetLinger(0)
		l.end(fmt.Errorf("%w: nothing for %v; it or the network between is down or overloaded", transport.ErrSilent, l.o.Silence), stateBroken)
		return
	}
	if l.o.Opening > 0 && !l.spoke.Load() && mono.Now().Sub(l.born) > l.o.Opening {
		l.fail(fmt.Errorf("%w: nothing for %v after its hello", transport.ErrProtocol, l.o.Opening))
		return
	}
	var space [64]byte
	l.out.Ping(l.heart.AppendPing(space[:0])) // full or closed: the next beat will see
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.beat.Reset(l.o.HeartbeatTo(l.peer).Std())
	}
}
