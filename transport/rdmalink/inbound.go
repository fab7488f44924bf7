package rdmalink

import (
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// inbound puts the messages of the stream in order, whichever way they came, and
// hands their frames on.
//
// Invariants:
//  1. Message n is consumed after n-1 and once, whatever comes twice.
//  2. A message that came over a lane too early is held in the receive, or in the
//     landing zone, that it lies in: so the credits bound what is held.
//  3. What the control plane says (documents of any size, members) is not handled
//     on the polling thread, where it would hold up every lane of the process: it is
//     consumed apart, by a goroutine that is made for it, and so is what comes behind
//     it, until that has caught up.
type inbound struct {
	l *link // Immutable.

	mu     sync.Mutex // Guards what follows; held while the handler is called, but not when apart.
	next   uint64     // the message that is consumed next
	held   map[uint64]arrival
	stream stream // Owned by the goroutine apart, while there is one.
	over   bool
	refill *lane // held messages of it were consumed: it can post receives

	apart  bool
	behind []arrival  // what the goroutine apart has to consume, in order
	caught *sync.Cond // apart became false
}

// arrival is a message that came over a lane.
type arrival struct {
	data    []byte // without the header
	lane    *lane  // nil: data is ours
	buffer  uint32 // the receive to post again
	landed  int    // bytes it takes of the landing zone; 0: none
	landing uint32 // where in it
}

func (r *inbound) init(l *link) {
	r.l, r.next, r.held = l, 1, map[uint64]arrival{}
	r.caught = sync.NewCond(&r.mu)
	r.stream = stream{payloadMax: l.o.PayloadMax, sink: (*frames)(l)}
}

// tunnelled takes a message that came over TCP. On the TCP link's goroutine.
func (r *inbound) tunnelled(sequence uint64, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	switch {
	case sequence < r.next || r.over:
		return nil // sent again, and it had come
	case r.held[sequence].data != nil:
		return nil
	case sequence > r.next:
		return fmt.Errorf("%w: message %d over TCP where %d is due", transport.ErrProtocol, sequence, r.next)
	}
	r.next++
	r.apart = true // the lane's messages must not wait for the handler
	err := r.catch(data)
	if err != nil {
		return err
	}
	return r.drain()
}

// laned takes a message that came over a lane; sequence 0 carries credits alone.
// On the polling thread.
func (r *inbound) laned(sequence uint64, a arrival) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case sequence == 0 || sequence < r.next || r.over:
		a.giveBack()
		return nil
	case sequence > r.next:
		if len(r.held) >= r.l.n.cfg.Buffers || r.held[sequence].data != nil {
			return fmt.Errorf("%w: message %d where %d is due", transport.ErrProtocol, sequence, r.next)
		}
		r.held[sequence] = a
		return nil
	}
	if err := r.consume(a); err != nil {
		return err
	}
	return r.drain()
}

// drain consumes what was held and is due. Caller holds mu.
func (r *inbound) drain() error {
	for {
		a, ok := r.held[r.next]
		if !ok {
			return nil
		}
		delete(r.held, r.next)
		r.refill = a.lane
		if err := r.consume(a); err != nil {
			return err
		}
	}
}

// consume takes the message that is due, apart if it must be. Caller holds mu.
func (r *inbound) consume(a arrival) error {
	r.next++
	if r.apart {
		r.behind = append(r.behind, a)
		return nil
	}
	rest, err := r.stream.feed(a.data, true)
	if err != nil || len(rest) == 0 {
		r.over = r.over || err != nil
		a.giveBack()
		return err
	}
	a.data = rest
	r.apart, r.behind = true, append(r.behind, a)
	go r.consumeApart()
	return nil
}

// consumeApart is the goroutine apart.
func (r *inbound) consumeApart() {
	r.mu.Lock()
	err := r.catch(nil)
	r.mu.Unlock()
	if err != nil {
		r.l.fail(err)
	}
	r.settle()
}

// catch consumes a message and what is behind, without mu, until it has caught up.
// Caller holds mu and has set apart.
func (r *inbound) catch(data []byte) (err error) {
	feed := func(b []byte) {
		if err == nil {
			r.mu.Unlock()
			_, err = r.stream.feed(b, false)
			r.mu.Lock()
		}
	}
	feed(data)
	for k := 0; k < len(r.behind); k++ {
		a := r.behind[k]
		feed(a.data)
		a.giveBack()
		r.refill = a.lane
	}
	r.over = r.over || err != nil // nothing behind a breach is handed on
	clear(r.behind)
	r.apart, r.behind = false, r.behind[:0]
	r.caught.Broadcast()
	return err
}

// catchUp waits until nothing is consumed apart. Caller holds mu.
func (r *inbound) catchUp() {
	for r.apart {
		r.caught.Wait()
	}
}

// settle follows what was consumed off the polling thread: what that freed of a lane
// is used again.
func (r *inbound) settle() {
	r.mu.Lock()
	ln := r.refill
	r.refill = nil
	r.mu.Unlock()
	if ln != nil {
		ln.refill()
	}
	r.l.tx.pump()
}

// keep copies what is held of a lane that ends, and tells what is due next: the
// peer may have been told that the held ones arrived, so they are not sent again.
func (r *inbound) keep(ln *lane) (next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	for sequence, a := range r.held {
		if a.lane == ln {
			r.held[sequence] = arrival{data: append(make([]byte, 0, len(a.data)+1), a.data...)}
		}
	}
	r.refill = nil
	return r.next
}

// close ends it; nothing is handed on any more.
func (r *inbound) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	r.over, r.held = true, nil
}

// giveBack lets the lane use the memory again. Caller holds the inbound's mu.
func (a *arrival) giveBack() {
	if a.lane == nil {
		return
	}
	a.lane.repost = append(a.lane.repost, rdma.RecvWR{ID: uint64(a.buffer), SGE: a.lane.receiveSGE(a.buffer)})
	a.lane.freed = landingEnd(a.lane.freed, a.landing, a.landed, len(a.lane.landing))
}

// frames is the link as the stream's sink.
type frames link

func (s *frames) buffer(kind wire.Kind, body []byte, n int) ([]byte, error) {
	l := (*link)(s)
	if l.parting.Load() || kind < wire.KindDoc {
		return nil, nil
	}
	if err := transport.CheckPayload(l, l.handler, kind, n); err != nil {
		return nil, err
	}
	return l.handler.Buffer(l, kind, body, n), nil
}

// frame handles one frame of the stream.
func (s *frames) frame(kind wire.Kind, body, payload []byte) error {
	l := (*link)(s)
	if l.parting.Load() {
		return nil
	}
	l.framesIn.Add(1)
	switch {
	case kind == wire.KindPing:
		var p wire.Ping
		if err := p.Decode(body); err != nil {
			return fmt.Errorf("%w: %w", transport.ErrProtocol, err)
		}
		var space [64]byte
		_ = l.out.Ping(l.heart.AppendPong(space[:0], p)) // left out when the box is overfull
	case kind == wire.KindPong:
		var p wire.Pong
		if err := p.Decode(body); err != nil {
			return fmt.Errorf("%w: %w", transport.ErrProtocol, err)
		}
		l.heart.Pong(p)
	case kind < wire.KindDoc || kind == wire.KindRead || kind == wire.KindReadReply:
		return fmt.Errorf("%w: frame of kind %d inside the stream", transport.ErrProtocol, kind)
	default:
		l.handler.Receive(l, transport.Frame{Kind: kind, Body: body, Payload: payload})
	}
	return nil
}
