package transport

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Direct lets senders move what they sent themselves while the link is at rest: a
// hand-over to the mover's goroutine is most of what a frame's way costs then, above
// all when the sender is locked to its thread. write moves what it can without
// waiting and returns how much that was; the mover does the rest. It is called by one
// sender at a time, never while the mover moves, with at most directMax bytes. Call
// Direct before the mover runs.
//
// On a link that is busy the mover is better: while it writes, more comes, and shares
// the next system call. (Writing whenever the mover slept cost a quarter more
// processor time at the highest rate.) Batches with payloads by reference are left to
// the mover, too: their releases are the mover's to call.
func (o *Outbox) Direct(write func(b []byte) int) { o.near = write }

// directMax is the most that a sender moves itself: what fits into any socket's
// buffer, and does not hold the sender up.
const directMax = 32 << 10

// Later is Send without Flush.
func (o *Outbox) Later(frames []byte) error {
	n, ok := wire.Count(frames)
	if !ok {
		return notFrames(frames, n)
	}
	return o.put(frames, n, o.limit, nil, false)
}

// PayloadLater is SendPayload without Flush.
func (o *Outbox) PayloadLater(frame, payload []byte, release func()) error {
	return o.sendPayload(frame, payload, release, false)
}

// Flush lets what was queued without it leave. What others queue takes it along. calm is
// Gatherer's.
func (o *Outbox) Flush() (calm bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flushLocked() && o.pace.calm
}

// flushLocked lets what is pending leave, and says whether all of it has: a sender on a
// link at rest takes the turn and moves it, else the mover is given the turn. Where
// somebody has the turn already there is nothing to do: whoever has it looks again
// before it is given back.
func (o *Outbox) flushLocked() (moved bool) {
	if len(o.pending.Bytes) == 0 {
		return false
	}
	o.pace.flushes++
	if !o.idle {
		return false
	}
	o.idle = false
	if o.near == nil || len(o.pending.Parts) > 0 || len(o.pending.Bytes) > directMax || !o.pace.light() {
		o.rouse()
		return false
	}
	all := o.moveLocked()
	if len(o.pending.Bytes) > 0 || o.closed != nil { // came meanwhile, or could not leave: the turn is the mover's
		o.rouse()
		return all && o.closed == nil
	}
	o.idle = true
	return all
}

// moveLocked moves what is pending from the sender's goroutine, without the lock while it
// writes. What could not leave is pending again.
func (o *Outbox) moveLocked() (all bool) {
	o.own.reset()
	o.own, o.pending = o.pending, o.own
	o.mu.Unlock()
	n := o.near(o.own.Bytes)
	o.mu.Lock()
	o.queued -= o.own.Settle(n)
	if all = n == len(o.own.Bytes); all {
		o.replies -= o.own.replies
	} else {
		o.restLocked(n)
	}
	o.own.replies = 0
	return all
}

// restLocked puts what a sender could not move back in front.
func (o *Outbox) restLocked(n int) {
	rest := o.own.Bytes[n:]
	p := &o.pending
	p.Bytes = slices.Concat(rest, p.Bytes) // rare: the socket is full
	p.free += o.own.free
	p.replies += o.own.replies // some may have left: counted until all have
	for i := range p.Parts {
		p.Parts[i].End += len(rest)
	}
}

// pace tells a link at rest from a busy one by the flushes per time.
type pace struct {
	flushes int
	since   mono.Time
	busy    bool
	calm    bool
}

// A link is busy at more than paceMost flushes in paceSpan, and calm at no more than
// calmMost.
const (
	paceSpan = mono.Millisecond
	paceMost = 40
	calmMost = 8
)

// light judges once in paceSpan, over the time since then.
func (p *pace) light() bool {
	now := mono.Now()
	if d := now.Sub(p.since); d >= paceSpan {
		p.busy = mono.Dur(p.flushes)*paceSpan > paceMost*d
		p.calm = mono.Dur(p.flushes)*paceSpan <= calmMost*d
		p.flushes, p.since = 0, now
	}
	return !p.busy
}
