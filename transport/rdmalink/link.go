package rdmalink

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// link is one end: a TCP link, and while there is one, a lane beside it.
type link struct {
	// Immutable once attached.
	n         *Network
	o         transport.Options
	handler   transport.Handler
	dialled   bool
	streaming bool // both sides speak the stream; else frames go by TCP as they are
	peer      wire.Hello
	tcp       transport.Link
	attaching sync.Once

	out   *transport.Outbox // of a streaming link: what was sent and is not yet a message
	heart *transport.Heart  // of lanes
	tx    outbound
	rx    inbound
	reads reads
	life  life

	silent    atomic.Bool // never given to its user: the handler is told nothing
	parting   atomic.Bool // Close was called: what comes in is discarded
	framesIn  atomic.Uint64
	laneIn    atomic.Uint64 // bytes
	laneOut   atomic.Uint64
	overLane  atomic.Bool
	ended     atomic.Bool
	cause     atomic.Pointer[error] // why this end closes it; the first counts
	closeOnce sync.Once
}

func newLink(n *Network, o transport.Options, h transport.Handler, dialled bool) *link {
	l := &link{n: n, o: o, handler: h, dialled: dialled}
	l.out = transport.NewOutbox(o.SendBuffer)
	l.heart = transport.NewHeart(o.Silence, o.Clock)
	l.tx.l = l
	l.rx.init(l)
	l.reads.init(l)
	l.life.init(l)
	return l
}

// expect is what a listener knows of a link before its first frame.
func (l *link) expect(peer wire.Hello, features wire.Features) {
	l.peer = peer
	l.streaming = l.n.cfg.NIC != nil && features&wire.FeatureLane != 0
	l.n.counters.links(0, +1)
	if l.streaming {
		go l.life.run()
		return
	}
	l.n.logTCP(l)
}

// attach gives the link its TCP link: from Dial, or from the first callback.
func (l *link) attach(tl transport.Link) {
	l.attaching.Do(func() {
		l.tcp = tl
		close(l.life.attached)
		if !l.dialled {
			return
		}
		l.peer = tl.Peer()
		l.streaming = l.n.cfg.NIC != nil && l.peer.Features&wire.FeatureLane != 0
		l.peer.Features &^= wire.FeatureLane
		l.n.counters.links(0, +1)
		if l.streaming {
			go l.life.run()
		}
	})
}

// Peer implements transport.Link.
func (l *link) Peer() wire.Hello { return l.peer }

// Hosts implements transport.Hosts: those of the TCP connection.
func (l *link) Hosts() (local, remote string) { return transport.HostsOf(l.tcp) }

// Send implements transport.Link.
func (l *link) Send(frames []byte) error {
	if !l.streaming {
		return l.tcp.Send(frames)
	}
	if err := l.out.Send(frames); err != nil {
		return err
	}
	l.tx.pump()
	return nil
}

// SendPayload implements transport.Link.
func (l *link) SendPayload(frame, payload []byte, release func()) error {
	if !l.streaming {
		return l.tcp.SendPayload(frame, payload, release)
	}
	if len(payload) == 0 { // a message has bytes
		if release != nil {
			release()
		}
		return l.Send(frame)
	}
	if err := l.out.SendPayload(frame, payload, release); err != nil {
		return err
	}
	l.tx.pump()
	return nil
}

// PayloadLater implements transport.Gatherer where frames go by TCP; a lane has its
// own way to gather, by its credits.
func (l *link) PayloadLater(frame, payload []byte, release func()) error {
	if g, ok := l.tcp.(transport.Gatherer); ok && !l.streaming {
		return g.PayloadLater(frame, payload, release)
	}
	return l.SendPayload(frame, payload, release)
}

// Flush implements transport.Gatherer.
func (l *link) Flush() (calm bool) {
	g, ok := l.tcp.(transport.Gatherer)
	return ok && !l.streaming && g.Flush()
}

// Read implements transport.Link.
func (l *link) Read(ops []transport.ReadOp) error { return l.reads.read(ops) }

// Shift implements transport.Link. The TCP heartbeats know the offset well enough;
// so it does not jump when a lane comes or goes.
func (l *link) Shift() mono.Dur { return l.tcp.Shift() }

// Stats implements transport.Link: delays are those of the way that frames take now.
func (l *link) Stats() transport.LinkStats {
	st := l.tcp.Stats()
	l.reads.clock.Stats(&st)
	if !l.streaming {
		return st
	}
	st.FramesIn = l.framesIn.Load()
	st.FramesOut, st.SendsFull = l.out.Counts()
	st.BytesIn += l.laneIn.Load()
	st.BytesOut += l.laneOut.Load()
	if l.overLane.Load() {
		var lane transport.LinkStats
		if l.heart.Stats(&lane); lane.Samples > 0 {
			st.RTT, st.DelayBound, st.Samples = lane.RTT, lane.DelayBound, lane.Samples
		}
	}
	return st
}

// lingerMax is how long Close may take to flush.
const lingerMax = time.Second

// Close implements transport.Link.
func (l *link) Close(cause error) {
	if !l.streaming {
		l.tcp.Close(cause)
		return
	}
	l.closeOnce.Do(func() {
		if errors.Is(cause, transport.ErrProtocol) {
			l.fail(cause)
			return
		}
		if cause == nil {
			cause = transport.ErrClosed
		}
		l.cause.CompareAndSwap(nil, &cause)
		l.parting.Store(true)
		l.out.Close(closedBy(cause))
		l.tx.pump()
		go func() {
			for end := time.Now().Add(lingerMax); !l.tx.flushed() && !l.ended.Load() && time.Now().Before(end); {
				time.Sleep(200 * time.Microsecond)
			}
			l.tcp.Close(cause)
		}()
	})
}

// closedBy is what later Sends and READs are told: always ErrClosed, and why.
func closedBy(cause error) error {
	if cause == transport.ErrClosed {
		return transport.ErrClosed
	}
	return fmt.Errorf("%w: %w", transport.ErrClosed, cause)
}

// fail ends the link because the peer broke the protocol: it is told so.
func (l *link) fail(err error) {
	l.cause.CompareAndSwap(nil, &err) // the peer may close first, once it is told
	l.out.Close(closedBy(err))
	l.parting.Store(true)
	m := wire.Reject{Version: wire.Version, Text: transport.RejectText(err)}
	_ = l.tcp.Send(m.Append(nil)) // a closed link has its end already
	l.tcp.Close(err)
}

// unborn ends a link that Dial does not hand out.
func (l *link) unborn(err error) {
	l.silent.Store(true)
	l.tcp.Close(err)
	<-l.life.over
}

// pulse is a lane's heartbeat.
func (l *link) pulse() {
	var space [64]byte
	_ = l.out.Ping(l.heart.AppendPing(space[:0])) // full or closed: the next one will do
	l.tx.pump()
}
