package rdmalink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// owedMax is how long the peer may take to say what it is missing of a lost lane: it
// closes its queue pair first, which takes half a second as a rule, and a second and a
// half at most.
const owedMax = 2 * time.Second

// life brings a streaming link's lanes up and takes them down: one goroutine, which
// handles one event after the other, so that nothing of it needs a lock.
//
//	dialler                              listener
//	LaneOffer   ----------------------->  makes its queue pair, connects it
//	            <-----------------------  LaneAccept (or LaneDown: cannot)
//	connects; the probe READ
//	LaneUp      ----------------------->  uses the lane
//	uses the lane
//	            ... either end loses it:
//	LaneDown{next}  <------------------>  LaneDown{next}
//	both send again over TCP what the other has not got, and go on there;
//	after a pause the dialler offers the next lane
//
// Each end closes its queue pair before it says LaneDown: what has arrived by then
// is consumed, and next is final.
type life struct {
	l        *link         // Immutable.
	attached chan struct{} // the TCP link is known
	gone     chan struct{} // the TCP link has ended
	done     chan struct{} // run has ended
	over     chan struct{} // the link is over for its user, too
	events   chan event
	first    chan error // the outcome of the dialler's first attempt

	// Owned by run.
	lane       *lane // not lost yet
	waiting    *lane // lost: the peer has not said what it is missing
	generation uint32
	retry      *time.Timer
	owed       *time.Timer // the peer has to say what it is missing until then
	pause      time.Duration
	up         time.Time
	beat       *time.Ticker // nil: no lane is used
}

// event is something that happened to a lane.
type event struct {
	kind       eventKind
	generation uint32
	next       uint64         // eventDown
	offer      wire.LaneOffer // eventOffer, eventAccept
	lane       *lane          // eventFailed
	err        error          // eventDown, eventFailed
}

type eventKind uint8

const (
	eventOffer eventKind = 1 + iota
	eventAccept
	eventUp
	eventDown
	eventFailed
)

// eventsMax bounds what has not been handled: a peer that talks of lanes faster
// than they can be made breaks the protocol.
const eventsMax = 64

func (f *life) init(l *link) {
	*f = life{l: l, attached: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}),
		events: make(chan event, eventsMax), first: make(chan error, 1), pause: l.n.cfg.Retry.Std()}
	f.retry, f.owed = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	f.retry.Stop()
	f.owed.Stop()
}

// post leaves an event.
func (f *life) post(e event) error {
	select {
	case f.events <- e:
		return nil
	default:
		return fmt.Errorf("%w: more than %d messages about lanes at a time", transport.ErrProtocol, eventsMax)
	}
}

// failed is told by the polling thread, once a lane.
func (f *life) failed(ln *lane, err error) {
	if f.post(event{kind: eventFailed, lane: ln, err: err}) != nil {
		f.l.tcp.Close(err)
	}
}

// begin waits for the dialler's first attempt.
func (f *life) begin(ctx context.Context) error {
	select {
	case err := <-f.first:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends it all; the lane's last messages are consumed on the way. From the TCP
// link's Closed.
func (f *life) stop() {
	close(f.gone)
	if f.l.streaming {
		<-f.done
	}
}

// run is the goroutine.
func (f *life) run() {
	defer close(f.done)
	<-f.attached
	if f.l.dialled {
		f.first <- f.raise()
	}
	for {
		select {
		case <-f.gone:
			f.end()
			return
		case e := <-f.events:
			f.handle(e)
		case <-f.retry.C:
			_ = f.raise() // it has said so, and tries again
		case <-f.owed.C:
			f.l.fail(fmt.Errorf("%w: it does not say what it is missing of lane %d", transport.ErrProtocol, f.waiting.generation))
		case <-f.ticks():
			f.l.pulse()
		}
	}
}

func (f *life) ticks() <-chan time.Time {
	if f.beat == nil {
		return nil
	}
	return f.beat.C
}

func (f *life) handle(e event) {
	switch e.kind {
	case eventOffer:
		f.answer(e.offer)
	case eventUp:
		switch {
		case f.lane == nil || f.lane.generation != e.generation: // lost meanwhile
		case f.beat != nil:
			f.l.fail(fmt.Errorf("%w: lane %d is up twice", transport.ErrProtocol, e.generation))
		default:
			f.use()
		}
	case eventDown:
		if f.lane != nil && f.lane.generation == e.generation {
			f.drop(e.err)
		}
		if w := f.waiting; w != nil && w.generation == e.generation {
			f.waiting = nil
			f.owed.Stop()
			f.l.tx.resend(w, e.next)
			f.free(w)
		}
	case eventFailed:
		if f.lane == e.lane {
			f.drop(e.err)
		}
	}
}

// raise is the dialler's attempt.
func (f *life) raise() error {
	if f.waiting != nil { // the peer still owes its LaneDown
		f.again()
		return nil
	}
	err := f.attempt()
	if err == nil {
		f.use()
		return nil
	}
	if f.lane != nil {
		f.drop(err)
	} else {
		f.l.n.cfg.Logger.Warn().Str("peer", f.l.peer.Name).Err(err).Dur("retry_ms", f.pause).Msg("no RDMA lane: this link goes over TCP")
		f.again()
	}
	return err
}

func (f *life) attempt() error {
	f.generation++
	ln, err := newLane(f.l, f.generation)
	if err != nil {
		return err
	}
	f.lane = ln
	limit := time.NewTimer(f.l.n.cfg.Attempt.Std())
	defer limit.Stop()
	m := ln.offer()
	if err := f.l.tcp.Send(m.Append(nil)); err != nil {
		return err
	}
	for {
		select {
		case <-f.gone:
			return transport.ErrClosed
		case <-limit.C:
			return fmt.Errorf("no answer within %v", f.l.n.cfg.Attempt)
		case err := <-ln.probed:
			if err != nil {
				return fmt.Errorf("probe READ: %w", err)
			}
			return nil
		case e := <-f.events:
			switch {
			case e.kind == eventAccept && e.offer.Generation == ln.generation && ln.peer.QPN == 0:
				if err = ln.connect(e.offer); err == nil {
					err = ln.probe()
				}
			case e.kind == eventDown && e.generation == ln.generation, e.kind == eventFailed && e.lane == ln:
				err = e.err
			}
			if err != nil {
				return err
			}
		}
	}
}

// answer is the listener's side of an offer. A dialler says that its lane is down
// before it offers another.
func (f *life) answer(offer wire.LaneOffer) {
	if f.lane != nil || f.waiting != nil {
		f.l.fail(fmt.Errorf("%w: lane %d is offered on top of another", transport.ErrProtocol, offer.Generation))
		return
	}
	ln, err := newLane(f.l, offer.Generation)
	if err == nil {
		f.lane = ln
		if err = ln.connect(offer); err == nil {
			m := ln.offer()
			err = f.l.tcp.Send(m.AppendAccept(nil))
		}
	}
	if err == nil {
		return
	}
	if f.lane != nil {
		f.drop(err)
		return
	}
	f.l.n.cfg.Logger.Warn().Str("peer", f.l.peer.Name).Err(err).Msg("no RDMA lane: this link goes over TCP")
	m := wire.LaneDown{Generation: offer.Generation, Text: err.Error()}
	_ = f.l.tcp.Send(m.Append(nil))
}

// use makes the lane the link's way.
func (f *life) use() {
	ln, l := f.lane, f.l
	if l.dialled {
		if err := l.tcp.Send((&wire.LaneUp{Generation: ln.generation}).Append(nil)); err != nil {
			l.tcp.Close(fmt.Errorf("lane %d is up, and the peer cannot be told: %w", ln.generation, err)) // if it is not over
			return
		}
	}
	l.reads.use(ln)
	l.tx.use(ln)
	l.overLane.Store(true)
	l.n.counters.links(+1, -1)
	l.n.counters.lanesUp.Add(1)
	f.beat = time.NewTicker(l.o.Heartbeat.Std())
	f.up = time.Now()
	l.n.log(l).Uint32("qp", ln.conn.Local().QPN).Uint32("peer_qp", ln.peer.QPN).Int("mtu", min(ln.conn.Local().MTU.Bytes(), 128<<ln.peer.MTU)).
		Uint64("slabs", ln.peer.Slabs.Size).Msg("link over RDMA")
}

// drop ends the present lane: its last messages are consumed, what it did not carry
// goes over TCP.
func (f *life) drop(why error) {
	ln, l := f.lane, f.l
	f.lane = nil
	f.lower()
	if err := ln.close(); err != nil {
		l.n.cfg.Logger.Warn().Err(err).Msg("closing a lane")
	}
	ln.letGo()
	next := l.rx.keep(ln)
	m := wire.LaneDown{Generation: ln.generation, Next: next, Text: why.Error()}
	if err := l.tcp.Send(m.Append(nil)); err != nil {
		// The peer would wait for it until it calls us rogue (owedMax), and all that
		// the lane did not carry with it.
		l.tcp.Close(fmt.Errorf("lane %d is lost, and the peer cannot be told: %w", ln.generation, err))
	}
	used := l.tx.leave(ln)
	ln.flights.shut()
	ln.flights.turn()
	l.reads.reroute(ln)
	text := "no RDMA lane: this link goes over TCP"
	if used {
		f.waiting = ln
		f.owed.Reset(owedMax)
		l.n.counters.lanesLost.Add(1)
		text = "lost the RDMA lane: this link goes on over TCP"
	} else {
		f.free(ln)
	}
	l.n.cfg.Logger.Warn().Str("peer", l.peer.Name).Uint32("lane", ln.generation).AnErr("cause", why).Msg(text)
	if l.dialled {
		f.again()
	}
}

// lower takes back what use did.
func (f *life) lower() {
	if f.beat == nil {
		return
	}
	f.beat.Stop()
	f.beat = nil
	f.l.overLane.Store(false)
	f.l.n.counters.links(-1, +1)
	if time.Since(f.up) > 10*f.l.n.cfg.Retry.Std() {
		f.pause = f.l.n.cfg.Retry.Std()
	}
}

// again plans the next attempt.
func (f *life) again() {
	f.retry.Reset(f.pause/2 + rand.N(f.pause/2+1)) // not all links of a host at once
	f.pause = min(2*f.pause, 64*f.l.n.cfg.Retry.Std())
}

// free gives a closed lane's memory back.
func (f *life) free(ln *lane) {
	if err := ln.unmap(); err != nil {
		f.l.n.cfg.Logger.Warn().Err(err).Msg("a lane's memory stays mapped")
	}
}

// end is the link's end.
func (f *life) end() {
	f.retry.Stop()
	f.owed.Stop()
	f.lower()
	if ln := f.lane; ln != nil {
		if err := ln.close(); err != nil {
			f.l.n.cfg.Logger.Warn().Err(err).Msg("closing a lane")
		}
		f.l.rx.keep(ln)
		ln.letGo()
		ln.flights.shut()
		ln.flights.turn() // what it did not make is answered with the others: see reads.close
		f.l.reads.use(nil)
	}
	f.l.tx.abandon()
	for _, ln := range []*lane{f.lane, f.waiting} {
		if ln != nil {
			f.free(ln)
		}
	}
	f.lane, f.waiting = nil, nil
}
