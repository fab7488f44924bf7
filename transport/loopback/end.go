package loopback

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lingerMax is how long Close waits for the peer to take what was queued.
const lingerMax = time.Second

// In process no cable can be pulled, and an idle server shall use no CPU: so
// the heartbeat is slower by default than on a wire. The first one comes soon,
// so that a new link's delay is known.
const (
	heartbeat  = 500 * mono.Millisecond
	silence    = 5 * mono.Second
	firstPulse = 10 * time.Millisecond
)

// end is one end of a link.
type end struct {
	// Immutable after start.
	n       *Network
	o       transport.Options
	peer    wire.Hello
	handler transport.Handler
	heart   *transport.Heart
	other   *end
	in      *transport.Outbox // what the peer sends, bounded by its SendBuffer: this end empties it
	out     *transport.Outbox // other.in

	// Owned by the receiving goroutine.
	rng   *rand.Rand
	line  []delayed          // under way, in order; only with delays
	ready transport.Batch    // being delivered
	taken []transport.ReadOp // being served
	reply []byte

	handling atomic.Bool // in a handler: silence says nothing now
	stopped  atomic.Bool // deliver nothing more
	framesIn atomic.Uint64
	bytesIn  atomic.Uint64
	wake     chan struct{} // READs came, or the end
	drained  chan struct{} // closed when this end takes nothing more
	done     chan struct{} // closed after Handler.Closed

	serve sync.Mutex // Held while the peer copies out of our slabs.
	gone  bool       // Guarded by serve: our slabs are not to be touched any more.

	mu       sync.Mutex // Guards what follows.
	cause    error
	over     bool // Closed was or is being called: no READ is taken
	ended    func(*end)
	beat     *time.Timer
	pending  []transport.ReadOp // not yet seen by the receiving goroutine
	inFlight int
}

func newEnd(n *Network, o transport.Options, peer wire.Hello, h transport.Handler, seed uint64) *end {
	if o.Heartbeat <= 0 {
		o.Heartbeat = heartbeat
	}
	if o.Silence <= 0 {
		o.Silence = silence
	}
	o = transport.Defaults(o)
	return &end{n: n, o: o, peer: peer, handler: h,
		heart: transport.NewHeart(o.Silence, o.Clock),
		rng:   rand.New(rand.NewPCG(seed, 0x6c6f6f70)),
		wake:  make(chan struct{}, 1), drained: make(chan struct{}), done: make(chan struct{})}
}

func (e *end) start() {
	e.mu.Lock()
	e.beat = time.AfterFunc(min(firstPulse, e.o.Heartbeat.Std()), e.pulse)
	e.mu.Unlock()
	go e.run()
}

// Peer is the other side's hello.
func (e *end) Peer() wire.Hello { return e.peer }

// Send queues frames. See transport.Link.
func (e *end) Send(frames []byte) error { return e.out.Send(frames) }

// SendPayload queues a frame and its payload. See transport.Link.
func (e *end) SendPayload(frame, payload []byte, release func()) error {
	return e.out.SendPayload(frame, payload, release)
}

// Read queues READs for our own receiving goroutine. See transport.Link.
func (e *end) Read(ops []transport.ReadOp) error {
	err := transport.CheckReads(ops, e.o.PayloadMax)
	if err == nil {
		err = e.enqueue(ops)
	}
	if err != nil {
		return transport.RefuseReads(ops, err)
	}
	e.rouse()
	return nil
}

func (e *end) enqueue(ops []transport.ReadOp) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause != nil || e.over {
		return closedBy(e.cause)
	}
	if e.inFlight+len(ops) > e.o.ReadsMax {
		return transport.ErrFull
	}
	e.inFlight += len(ops)
	e.pending = append(e.pending, ops...)
	return nil
}

func (e *end) rouse() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Shift is the span to add to the peer's instants.
func (e *end) Shift() mono.Dur { return e.heart.Shift() }

// Stats collects the counters and the heartbeats' measurements.
func (e *end) Stats() transport.LinkStats {
	st := transport.LinkStats{FramesIn: e.framesIn.Load(), BytesIn: e.bytesIn.Load(), BytesOut: e.other.bytesIn.Load()}
	st.FramesOut, st.SendsFull = e.out.Counts()
	e.heart.Stats(&st)
	return st
}

// Close parts from the peer after it has got all that was queued.
func (e *end) Close(cause error) {
	if cause == nil {
		cause = transport.ErrClosed
	}
	e.finishWith(cause, false)
}

// sever ends both ends at once: what is queued is lost.
func (e *end) sever(cause error) {
	e.finishWith(cause, true)
	e.other.finishWith(cause, true)
}

// finishWith begins the end; the first cause counts. Both boxes close: ours
// takes nothing more for the peer, and the peer cannot send to us. severed
// stops also what the peer's goroutine would still have got.
func (e *end) finishWith(cause error, severed bool) {
	e.mu.Lock()
	if e.cause == nil {
		e.cause = cause
		if e.beat != nil {
			e.beat.Stop()
		}
	}
	e.mu.Unlock()
	e.stopped.Store(true) // what comes in is discarded from now on
	if severed {
		e.other.stopped.Store(true)
	}
	e.out.Close(closedBy(cause))
	e.in.Close(closedBy(cause))
	e.rouse()
}

// pulse is the heartbeat.
func (e *end) pulse() {
	if e.heart.Silent() && !e.handling.Load() {
		e.finishWith(fmt.Errorf("%w: nothing for %v", transport.ErrSilent, e.o.Silence), true)
		return
	}
	var space [64]byte
	e.out.Ping(e.heart.AppendPing(space[:0]))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == nil {
		e.beat.Reset(e.o.Heartbeat.Std())
	}
}

// closedBy is what later Sends and READs are told: always ErrClosed, and why.
func closedBy(cause error) error {
	if cause == nil || cause == transport.ErrClosed {
		return transport.ErrClosed
	}
	return fmt.Errorf("%w: %w", transport.ErrClosed, cause)
}
