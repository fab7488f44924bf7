package engine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ErrHandOver is the cause when a model cannot be handed over: it stays as it was.
var ErrHandOver = errors.New("the model cannot be handed over")

// HandOver ends a model here and gives what waits for it to another engine, which serves it
// already. Requests keep their ids, deadlines and order. What runs here ends here; if its
// GPU is lost, its requests go on as well. So do those that still come here, by a route that was read just
// before, until the model is added here again or removed, or this engine is stopped.
//
//	HandOver --opHandOver--> model loop: Extract --outbox--> the other engine's rings
//
// The model loop hands them on, and never waits for the other engine: what finds its ring full
// stays in the outbox until there is room, for no longer than its deadline. If the other
// engine is stopped meanwhile, also after it has handed the model on, what is left is answered as what
// waited there was. So two engines
// may hand over to each other at the same time, on one thread. Each model has one
// place: the last engine that it was handed to serves it, so requests do not go in a circle.
func (e *Engine) HandOver(id wire.ModelID, to *Engine) error {
	if to == e {
		return fmt.Errorf("%w: model %d to the engine that it is in", ErrHandOver, id)
	}
	if !to.serves(id) { // not under this engine's lock: it may be the one that hands over to us
		return fmt.Errorf("%w: model %d is not served where it shall go", ErrHandOver, id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.models[id] || e.stopped {
		return fmt.Errorf("%w: model %d is not served here", ErrHandOver, id)
	}
	delete(e.models, id)
	e.changes.removeModel(id)
	e.orderRemoval(&input{op: opHandOver, model: id, to: to.door})
	return nil
}

func (e *Engine) serves(id wire.ModelID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.models[id] && !e.stopped
}

// door leads to an engine while it lives: who remembers where a model went must not keep
// the memory of an engine that was stopped.
type door struct{ engine atomic.Pointer[Engine] }

// entry is what became of a request at a door.
type entry uint8

const (
	entered entry = iota
	doorFull
	doorClosed
)

func (d *door) enter(s *Submission) entry {
	var e *Engine
	if d != nil {
		e = d.engine.Load()
	}
	if e == nil {
		return doorClosed
	}
	l := e.loopOf(s.Model)
	if l.stop.Load() {
		return doorClosed
	}
	if !l.push(s) {
		return doorFull
	}
	l.rider.wake()
	return entered
}

// outbox is what a model loop still has to hand on. Owned by the loop's run.
type outbox struct {
	doors map[wire.ModelID]*door // where models went
	wait  []leaving
	again mono.Time // the next try, while something waits
}

// leaving is a request and where it goes.
type leaving struct {
	door *door
	Submission
}

// outboxRetry is how long a request waits for room in another engine's ring, until the next
// try: its loop takes a burst in less.
const outboxRetry = mono.Millisecond

// opened notes where a model went.
func (o *outbox) opened(id wire.ModelID, to *door) {
	if o.doors == nil {
		o.doors = map[wire.ModelID]*door{}
	}
	o.doors[id] = to
}

func (o *outbox) nextWake() mono.Time {
	if len(o.wait) == 0 {
		return mono.Never
	}
	return o.again
}

// forwardLoop takes what the core moved into the outbox.
func (l *modelLoop) forwardLoop(now mono.Time) {
	for i := range l.out.Moved {
		m := &l.out.Moved[i]
		l.outbox.wait = append(l.outbox.wait, leaving{l.outbox.doors[m.Model], Submission{Model: m.Model, Cancel: m.Cancel, Came: m.Came, Request: m.Request}})
	}
	l.leaveLoop(now)
}

// leaveLoop hands on what it can. Behind a request that finds its door's ring full the others
// to that door wait as well, so that their order stays.
func (l *modelLoop) leaveLoop(now mono.Time) {
	o := &l.outbox
	kept, full := o.wait[:0], (*door)(nil)
	for i := range o.wait {
		p := &o.wait[i]
		became := doorFull
		if p.door == nil || p.door != full {
			became = p.door.enter(&p.Submission)
		}
		switch {
		case became == entered:
			l.stats.moved.Add(1)
		case became == doorClosed:
			l.refuseLoop(p, l.engine.stopReason)
		case p.Request.Deadline < now:
			l.refuseLoop(p, wire.ReasonFull)
		default:
			full = p.door
			kept = append(kept, *p)
		}
	}
	clear(o.wait[len(kept):]) // no door is kept by what has left
	o.wait, o.again = kept, now.Add(outboxRetry)
	if cap(o.wait) > outboxKept && len(o.wait) == 0 {
		o.wait = nil
	}
}

// outboxKept is how much room an empty outbox keeps.
const outboxKept = 1 << 10

// refuseLoop answers a request that nobody takes.
func (l *modelLoop) refuseLoop(p *leaving, reason wire.Reason) {
	if p.Cancel {
		return // what it was for is refused as well
	}
	l.engine.sink.Drop(l.index, &batching.Drop{Request: p.Request, Reason: reason})
	l.stats.drops.Add(1)
}
