package loopback

import (
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// delayed is what left at the same time and arrives at due.
type delayed struct {
	due   mono.Time
	batch transport.Batch
	reads []transport.ReadOp
}

// frozenPoll is how often a frozen end looks whether it is let on.
const frozenPoll = 2 * time.Millisecond

// run is the receiving goroutine.
func (e *end) run() {
	if e.n.faults.DelayMax > 0 {
		e.slowLoop()
	} else {
		e.loop()
	}
	e.discard()
	close(e.drained)
	e.awaitPeer()
	e.finish()
}

// loop delivers as fast as things come.
func (e *end) loop() {
	for !e.stopped.Load() {
		if e.frozen() {
			continue
		}
		e.takeReads()
		got, open := e.in.TryTake(&e.ready)
		switch {
		case got || len(e.taken) > 0:
			e.deliver(&e.ready)
			e.serveReads(e.taken)
			clear(e.taken)
			e.taken = e.taken[:0]
		case !open:
			e.finishWith(fmt.Errorf("%w: by the peer", transport.ErrClosed), false)
		default:
			select {
			case <-e.in.Wake():
			case <-e.wake:
			}
		}
	}
}

// slowLoop lets everything lie in line until it is due. The line is bounded by
// the outbox, which counts what was not delivered, and by ReadsMax.
func (e *end) slowLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !e.stopped.Load() {
		if e.frozen() {
			continue
		}
		var d delayed
		e.takeReads()
		got, open := e.in.TryTake(&d.batch)
		if got || len(e.taken) > 0 {
			d.reads, e.taken = e.taken, nil
			d.due = e.dueNext()
			e.line = append(e.line, d)
		}
		switch {
		case len(e.line) > 0 && e.line[0].due <= mono.Now():
			head := e.line[0]
			e.line = append(e.line[:0], e.line[1:]...)
			e.deliver(&head.batch)
			e.serveReads(head.reads)
		case got:
		case !open && len(e.line) == 0:
			e.finishWith(fmt.Errorf("%w: by the peer", transport.ErrClosed), false)
		default:
			wait := time.Hour
			if len(e.line) > 0 {
				wait = e.line[0].due.Sub(mono.Now()).Std()
			}
			timer.Reset(wait)
			select {
			case <-e.in.Wake():
			case <-e.wake:
			case <-timer.C:
			}
		}
	}
}

// dueNext draws a delay; nothing overtakes what left before.
func (e *end) dueNext() mono.Time {
	f := e.n.faults
	d := f.DelayMin
	if f.DelayMax > f.DelayMin {
		d += mono.Dur(e.rng.Int64N(int64(f.DelayMax - f.DelayMin)))
	}
	due := mono.Now().Add(d)
	if n := len(e.line); n > 0 {
		due = max(due, e.line[n-1].due)
	}
	return due
}

// frozen waits a moment when the network is.
func (e *end) frozen() bool {
	if !e.n.frozen.Load() {
		return false
	}
	time.Sleep(frozenPoll)
	return true
}

// takeReads swaps the READs that came since against the empty served list.
func (e *end) takeReads() {
	e.mu.Lock()
	e.taken, e.pending = e.pending, e.taken
	e.mu.Unlock()
}

// deliver hands a batch's frames to the handler.
func (e *end) deliver(b *transport.Batch) {
	if len(b.Bytes) == 0 {
		return
	}
	if e.n.faults.Break > 0 && e.rng.Float64() < e.n.faults.Break {
		b.Release()
		e.sever(fmt.Errorf("%w: broken on purpose", transport.ErrClosed))
		return
	}
	e.heart.Heard()
	e.handling.Store(true)
	size := b.Counted()
	from, part, frames := 0, 0, uint64(0)
	for from < len(b.Bytes) && !e.stopped.Load() {
		h, err := wire.ParseHeader(b.Bytes[from:], e.o.PayloadMax)
		if err != nil {
			e.sever(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
			break
		}
		frame := b.Bytes[from : from+h.Size()]
		from += h.Size()
		frames++
		var p *transport.Part
		f := transport.Frame{Kind: h.Kind, Body: frame[wire.HeaderSize:]}
		if part < len(b.Parts) && b.Parts[part].End == from {
			p = &b.Parts[part]
			f.Payload = p.Payload
			part++
		}
		e.frame(f)
		if p != nil {
			p.Release()
		}
	}
	b.Release()
	e.handling.Store(false)
	e.heart.Heard()
	e.in.Moved(size)
	e.framesIn.Add(frames)
	e.bytesIn.Add(uint64(size))
}

// frame handles one frame. READs and their replies never travel as frames
// here, hellos neither.
func (e *end) frame(f transport.Frame) {
	switch f.Kind {
	case wire.KindPing:
		var p wire.Ping
		if p.Decode(f.Body) == nil {
			e.reply = e.heart.AppendPong(e.reply[:0], p)
			e.out.Ping(e.reply)
		}
		return
	case wire.KindPong:
		var p wire.Pong
		if p.Decode(f.Body) == nil {
			e.heart.Pong(p)
		}
		return
	case wire.KindHello, wire.KindWelcome, wire.KindReject, wire.KindRead, wire.KindReadReply:
		e.sever(fmt.Errorf("%w: frame of kind %d from above the link", transport.ErrProtocol, f.Kind))
		return
	}
	if len(f.Payload) > 0 {
		if err := transport.CheckPayload(e, e.handler, f.Kind, len(f.Payload)); err != nil {
			e.sever(err)
			return
		}
		if dst := e.handler.Buffer(e, f.Kind, f.Body, len(f.Payload)); len(dst) >= len(f.Payload) {
			f.Payload = dst[:copy(dst, f.Payload)]
		}
	}
	e.handler.Receive(e, f)
}

// serveReads copies from the peer's slabs to where the bytes belong.
func (e *end) serveReads(ops []transport.ReadOp) {
	if len(ops) == 0 {
		return
	}
	e.handling.Store(true)
	for i := range ops {
		err := e.fetch(&ops[i])
		e.mu.Lock()
		e.inFlight--
		e.mu.Unlock()
		ops[i].Done(ops[i].Token, err)
	}
	e.handling.Store(false)
}

// fetch is one READ. The peer's lock keeps its Closed behind our Unpin.
func (e *end) fetch(op *transport.ReadOp) error {
	o := e.other
	o.serve.Lock()
	defer o.serve.Unlock()
	if o.gone || e.stopped.Load() {
		return transport.ErrClosed
	}
	if o.o.Slabs == nil {
		return fmt.Errorf("%w: READ refused: %v", transport.ErrRejected, wire.ReasonUnavailable)
	}
	data, err := o.o.Slabs.Pin(op.Input, op.Request)
	if err != nil {
		return transport.ErrStale
	}
	defer o.o.Slabs.Unpin(op.Input)
	if len(data) != len(op.Dst) {
		return transport.ErrStale
	}
	e.bytesIn.Add(uint64(copy(op.Dst, data)))
	return nil
}

// discard releases what will not be delivered.
func (e *end) discard() {
	for i := range e.line {
		e.line[i].batch.Release()
	}
	for {
		got, open := e.in.TryTake(&e.ready)
		if !got && open { // cannot be: whoever stops an end closes its box
			e.in.Close(transport.ErrClosed)
			continue
		}
		if !got {
			return
		}
		e.ready.Release()
	}
}

// awaitPeer waits until the peer has taken or released all that we had queued.
func (e *end) awaitPeer() {
	t := time.NewTimer(lingerMax)
	defer t.Stop()
	select {
	case <-e.other.drained:
		return
	case <-t.C:
	}
	e.other.stopped.Store(true)
	e.other.rouse()
}

// finish answers the open READs and tells the handler.
func (e *end) finish() {
	e.serve.Lock()
	e.gone = true
	e.serve.Unlock()
	e.mu.Lock()
	e.over = true
	if e.cause == nil { // the peer's end decided
		e.cause = fmt.Errorf("%w: by the peer", transport.ErrClosed)
	}
	e.beat.Stop()
	cause, ended, pending := e.cause, e.ended, e.pending
	e.pending = nil
	e.mu.Unlock()
	for i := range e.line {
		transport.RefuseReads(e.line[i].reads, closedBy(cause))
	}
	transport.RefuseReads(e.taken, closedBy(cause))
	transport.RefuseReads(pending, closedBy(cause))
	e.n.mu.Lock()
	delete(e.n.ends, e)
	e.n.mu.Unlock()
	e.handler.Closed(e, cause)
	if ended != nil {
		ended(e)
	}
	close(e.done)
}
