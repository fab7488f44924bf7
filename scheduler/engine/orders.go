package engine

import (
	"runtime"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// order puts a report, or a change of membership or settings, into a loop's ring, and
// leaves room there for grants: the rank loop may share the thread that empties the
// ring, and must never wait for it. Not for the loops' own threads.
func (e *Engine) order(l *modelLoop, in *input) {
	for l.commands.Len() >= l.commands.Cap()-e.inFlight()-e.floorsKept()-ordersAtOnce && !l.stop.Load() {
		l.rider.rouse()
		runtime.Gosched()
	}
	e.command(l, in)
}

// orderRemoval is order for the end of a model, of which the rank is told: it waits until the
// rank loop has room for that, too. Caller holds mu.
func (e *Engine) orderRemoval(in *input) {
	e.awaitChange()
	l := e.loopOf(in.model)
	l.endsAsked++
	e.order(l, in)
}

// awaitRank waits until the rank's ring has room beyond what the loops may put there.
func (e *Engine) awaitRank() {
	r := e.rank
	for r.events.Len() >= r.events.Cap()-e.eventsKept() && !r.stop.Load() {
		r.rider.rouse()
		runtime.Gosched()
	}
}

// awaitChange counts a model's beginning or end, when few enough of them are under way: its loop tells the rank of it, and must not
// wait for room there. What they may take is kept (eventsKept), also where the loops' rings have room for far
// more of such orders: rings grow with models and GPUs, and to powers of two. Caller holds mu.
func (e *Engine) awaitChange() {
	for e.changing.Load() >= changesMax && !e.rank.stop.Load() {
		for _, l := range e.loops {
			l.rider.rouse()
		}
		e.rank.rider.rouse()
		runtime.Gosched()
	}
	e.awaitRank()
	e.changing.Add(1)
}

// changed counts one whose event the rank has taken, or of which it need not be told.
func (e *Engine) changed() { e.changing.Add(-1) }

// awaitModels waits until the rank's ring has the models that were added. Caller holds mu.
func (e *Engine) awaitModels() {
	for _, l := range e.loops {
		for e.started && l.added.Load() > 0 && !l.stop.Load() {
			l.rider.rouse()
			runtime.Gosched()
		}
	}
}

// inFlight is how many grants and reports can be under way at a time.
func (e *Engine) inFlight() int { return int(e.room.Load()) * (1 + e.cfg.Outstanding) }

const (
	// ordersAtOnce is more than the goroutines that give orders at a time.
	ordersAtOnce = 64
	// ordersRoom is how many orders a ring has room for beside what is in flight.
	ordersRoom = 192
	// changesMax is how many models may begin and end at a time.
	changesMax = 128
	// roomLeast GPUs, modelsLeast models and ringLeast requests have room from the start.
	roomLeast, modelsLeast, ringLeast = 16, 64, 256
)

// commandsRoom and eventsRoom are the rings' sizes: for what can be under way, and for orders.
func (e *Engine) commandsRoom() int { return e.inFlight() + e.floorsKept() + ordersRoom }

// floorsKept is how many floors a paged engine's rank loop may put into a model loop's ring: one for each model,
// and one for each that is ending (changesMax).
func (e *Engine) floorsKept() int {
	if e.cfg.Paged == nil {
		return 0
	}
	return int(e.roomModels.Load()) + changesMax
}

func (e *Engine) eventsRoom() int { return e.eventsKept() + e.cfg.ModelLoops*ordersRoom }

// eventsKept is how many events the loops may put into the rank's ring, which must never wait for
// room there: grants' answers and reports, one of each model's mailbox and wishBox, and of each that begins or ends three: that it
// does, and those of the boxes that it had.
func (e *Engine) eventsKept() int {
	return e.inFlight() + 2*int(e.roomModels.Load()) + 3*changesMax + ordersAtOnce
}

// makeRoom lets the rings grow for so many GPUs. Caller holds mu.
func (e *Engine) makeRoom(gpus int) {
	if gpus <= int(e.room.Load()) {
		return
	}
	before := e.inFlight()
	room := min(e.cfg.GPUsMax, max(gpus, 2*int(e.room.Load())))
	more := room*(1+e.cfg.Outstanding) - before
	for _, l := range e.loops {
		l.commands.Grow(e.commandsRoom() + more)
	}
	e.rank.events.Grow(e.eventsRoom() + more)
	e.room.Store(int64(room)) // last: who waits for room must not see less than there is
}

// makeRoomForModels is the same for models.
func (e *Engine) makeRoomForModels(n int) {
	if more := n - int(e.roomModels.Load()); more > 0 {
		e.rank.events.Grow(e.eventsRoom() + 2*more)
		for _, l := range e.loops {
			if e.cfg.Paged != nil {
				l.commands.Grow(e.commandsRoom() + more)
			}
		}
		e.roomModels.Store(int64(n))
	}
}

// push puts a request into the loop's ring, which grows up to RingSize.
func (l *modelLoop) push(s *Submission) bool {
	for !l.requests.Push(s) {
		if !l.widen() {
			return false
		}
	}
	return true
}

// widen doubles the ring of requests; false when it must not grow.
func (l *modelLoop) widen() bool {
	n := l.requests.Cap()
	if n >= l.engine.cfg.RingSize || l.stop.Load() {
		return false
	}
	l.requests.Grow(min(l.engine.cfg.RingSize, 2*n))
	return true
}

// command puts a grant or a report into a ring that has room by construction; the
// yield is for a loop that the kernel keeps from running.
func (e *Engine) command(l *modelLoop, in *input) {
	for !l.commands.Push(in) {
		if l.stop.Load() { // it takes no commands any more
			return
		}
		l.rider.rouse()
		runtime.Gosched()
	}
	l.rider.rouse()
}

// orderRank is order for the rank's ring.
func (e *Engine) orderRank(ev *rankEvent) {
	e.awaitRank()
	e.toRank(ev, mono.Past)
}

// toRank puts an event into the rank's ring, likewise; the rank must act on it by
// the instant at.
func (e *Engine) toRank(ev *rankEvent, at mono.Time) {
	for !e.rank.events.Push(ev) {
		if e.rank.stop.Load() {
			return
		}
		e.rank.rider.rouse()
		runtime.Gosched()
	}
	e.rank.rider.wakeBy(at)
}

// mail puts a model's news into its mailbox and tells the rank loop, at once if
// there is an answer.
func (e *Engine) mail(id wire.ModelID, box *mailbox, a *rank.Answer, c *batching.Candidate) {
	box.put(a, c)
	at := mono.Never // nobody is waiting for a candidate to go away
	switch {
	case a != nil:
		at = mono.Past
	case c.Size > 0:
		at = c.Exec.Add(-c.Delay)
	}
	e.tell(id, box, at)
}

// tell has the rank loop look into a mailbox by the instant at.
func (e *Engine) tell(id wire.ModelID, box *mailbox, at mono.Time) {
	if !box.told.Swap(true) {
		e.toRank(&rankEvent{op: rankMail, model: id, box: box}, at)
	} else {
		e.rank.rider.wakeBy(at)
	}
}
