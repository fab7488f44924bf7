package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// sink carries out a pool's decisions: it gathers a turn's messages per link
// and sends each link's with one call.
type sink struct {
	server *Server
	pool   *pool
	loops  []loopSink
	loads  loadSink

	paged      bool          // Immutable: the pool is.
	cold, warm atomic.Uint64 // requests of paged pools that were executed: in the first batch with their weights, and in others
}

// loopSink is what one model loop has gathered. Owned by that loop.
type loopSink struct {
	pending map[transport.Link]*pending
	dirty   []*pending
	batch   wire.Batch // scratch
	answer  wire.Answer
	flights flights
}

// pendingSpare is how many dead links a loop may remember beside the living.
const pendingSpare = 16

// pending is the frames for one link.
type pending struct {
	link    transport.Link
	frames  []byte
	backend *backend // nil for a frontend's link
}

func newSink(s *Server, p *pool, loops int) *sink {
	k := &sink{server: s, pool: p, paged: p.paged != nil, loops: make([]loopSink, loops)}
	for i := range k.loops {
		k.loops[i].pending = map[transport.Link]*pending{}
	}
	k.loads.pending = map[transport.Link]*pending{}
	return k
}

// to finds the link's pending frames and marks them for Flush.
func (l *loopSink) to(link transport.Link, b *backend) *pending {
	p, ok := l.pending[link]
	if !ok {
		p = &pending{link: link, backend: b}
		l.pending[link] = p
	}
	if len(p.frames) == 0 {
		l.dirty = append(l.dirty, p)
	}
	return p
}

// Dispatch implements engine.Sink.
func (k *sink) Dispatch(loop int, d *shard.Dispatch) {
	g := k.pool.gpu(d.GPU)
	seat := g.seat.Load()
	if seat == nil || seat.life.Life != d.Life {
		return // it left just now: Lost is on its way to the loop and queues the batch again
	}
	seat.undone.Add(1)
	seat.until.Store(int64(d.Until))
	seat.length.Store(int64(d.Until.Sub(d.Exec)))
	l := &k.loops[loop]
	m := &l.batch
	m.Epoch, m.Batch, m.Model, m.GPU = seat.reign, d.Batch, d.Model, d.GPU
	m.Device, m.Pool, m.Exec, m.Until = seat.device, seat.pool, d.Exec, d.Until
	m.Latest, m.Generation = d.Latest, wire.Generation(d.Generation)
	m.Items = m.Items[:0]
	for i := range d.Requests {
		r := &d.Requests[i]
		m.Items = append(m.Items, wire.BatchItem{Request: r.ID, Frontend: r.Frontend, Deadline: r.Deadline, Input: r.Input, Suspicion: r.Suspicion})
	}
	l.flights.begin(d)
	p := l.to(seat.backend.link, seat.backend)
	p.frames = m.Append(p.frames)
	if w := k.server.cfg.Watch.Dispatched; w != nil {
		w(d)
	}
}

// Drop implements engine.Sink.
func (k *sink) Drop(loop int, d *batching.Drop) {
	if d.Reason == wire.ReasonCancelled { // who asked knows, and nobody lost anything
		if c := k.server.count(d.Request.Model); c != nil {
			c.cancelled.Add(1)
		}
		k.server.metrics.drop(d.Reason)
		return
	}
	if c := k.server.count(d.Request.Model); c != nil {
		c.drop(d.Request.Class, d.Reason)
	}
	f := k.server.frontend(d.Request.Frontend)
	if f == nil {
		return // it is gone, and with it who asked
	}
	k.server.metrics.drop(d.Reason)
	l := &k.loops[loop]
	l.answer = wire.Answer{Request: d.Request.ID, Reason: d.Reason}
	p := l.to(f.link, nil)
	p.frames = l.answer.Append(p.frames)
}

// Completed implements engine.Sink.
func (k *sink) Completed(loop int, r *shard.Run, d *engine.Done) {
	c := k.server.count(r.Model)
	if c != nil {
		late := k.loops[loop].flights.end(d)
		if d.Parts { // outputs left with each part, before the batch's end
			late = 0
		}
		if d.Refused == wire.ReasonNone { // else they wait again
			c.late.Add(uint64(late))
			c.served.Add(uint64(r.Size - late))
		}
	}
	if k.paged && d.Refused == wire.ReasonNone {
		k.countStart(c, r.Size, d.Cold)
	}
	g := k.pool.gpu(r.GPU)
	if seat := g.seat.Load(); seat != nil && seat.life.Life == r.Life {
		seat.undone.Add(-1)
	}
	g.batches.Add(1)
	if d.Ran > 0 && d.End > d.Start {
		g.busy.Add(int64(d.End.Sub(d.Start)))
	}
}

// Flush implements engine.Sink.
func (k *sink) Flush(loop int) { k.flush(&k.loops[loop]) }

func (k *sink) flush(l *loopSink) {
	for _, p := range l.dirty {
		var err error
		if !k.server.mute.Load() {
			err = p.link.Send(p.frames)
		}
		p.frames = p.frames[:0]
		if err == nil {
			continue
		}
		delete(l.pending, p.link)
		// A link that is full or gone loses its orders: once it is closed, they are
		// queued again, and a frontend answers what it has open.
		k.server.refused(p.link, err)
	}
	l.dirty = l.dirty[:0]
	// Links come and go, and each holds its buffers: forget the dead ones. The
	// living are found again at once.
	if len(l.pending) > pendingSpare+2*int(k.server.peers.Load()) {
		clear(l.pending)
	}
}

// overdue reports whether the GPU has not reported long after it should have.
func (s *seat) overdue(now mono.Time, least mono.Dur) bool {
	grace := max(least, 4*mono.Dur(s.length.Load()))
	return s.undone.Load() > 0 && s.overdueFor(now) > grace
}

// overdueFor is how long ago it should have reported.
func (s *seat) overdueFor(now mono.Time) mono.Dur { return now.Sub(mono.Time(s.until.Load())) }

// dropCounters are one counter per reason, found without a map.
type dropCounters [wire.ReasonCount]prometheus.Counter

func (c *dropCounters) drop(r wire.Reason) {
	if int(r) < len(c) && c[r] != nil {
		c[r].Inc()
	}
}
