package engine

import (
	"math"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// rankLoop drives the matchmaker, on one thread (see thread).
type rankLoop struct {
	engine *Engine // Immutable.
	events *ring.Growing[rankEvent]
	rider  rider // on its thread

	rank   *rank.Rank  // Owned by run.
	paging *paging     // likewise: in its place in a paged engine; else nil
	out    rank.Out    // Owned by run.
	told   []mono.Time // Owned by run; by GPU: when its last report came to the engine
	log    *rankLog    // Owned by run; nil: nothing is recorded.
	wants  wants       // Owned by run: scratch
	ended  bool        // Owned by run.
	needs  mono.Time   // Owned by run; when the need is told next.

	stats loopStats   // Shared: written by run.
	stop  atomic.Bool // Shared.
}

// step is one turn, and the time after it; false when there was nothing to do.
func (l *rankLoop) step(now mono.Time) (mono.Time, bool) {
	worked := l.turn(now)
	l.ended = l.stop.Load() && !l.events.Ready()
	if !worked {
		return now, false
	}
	after := mono.Now()
	l.stats.busy.Add(int64(after.Sub(now)))
	for i := range l.out.Grants {
		l.stats.late.Add(after.Sub(l.out.Grants[i].Due))
	}
	return after, true
}

func (l *rankLoop) news() bool { return l.events.Ready() || l.stop.Load() && !l.ended }

func (l *rankLoop) nextWake() mono.Time {
	if l.paging != nil {
		return l.paging.match.NextWake()
	}
	return l.rank.NextWake()
}

func (l *rankLoop) over() bool { return l.ended }

func (l *rankLoop) of() *Engine { return l.engine }

func (l *rankLoop) begun(thread int64) { l.stats.thread.Store(thread) }

// turn takes the events that wait, fires the timers, sends the grants out.
func (l *rankLoop) turn(now mono.Time) bool {
	l.stats.turns.Add(1)
	l.out.Grants = l.out.Grants[:0]
	n := 0
	for ; n < burst; n++ {
		ev := l.events.Next()
		if ev == nil {
			break
		}
		l.event(now, ev)
	}
	l.stats.took(n)
	if n > 0 {
		l.events.Release()
	} else if l.nextWake() > now {
		return false
	}
	if l.paging != nil {
		l.out.Grants, l.out.Fills = l.paging.step(now, l)
	} else {
		l.rank.Step(now, &l.out)
		l.log.step(now, l.out.Grants)
	}
	if now >= l.needs {
		l.needs = now.Add(needEvery)
		l.tellNeed(now)
	}
	for i := range l.out.Grants {
		g := &l.out.Grants[i]
		if int(g.GPU) < len(l.told) { // nobody could have granted what was not known to be free
			g.Due, g.Ready = max(g.Due, l.told[g.GPU]), max(g.Ready, l.told[g.GPU])
		}
		l.engine.command(l.engine.loopOf(g.Model), &input{op: opGranted, grant: *g})
	}
	l.stats.dispatches.Add(uint64(len(l.out.Grants)))
	if len(l.out.Fills) > 0 {
		l.lendLoop()
	}
	return true
}

// tellNeed is for who adds and releases GPUs.
func (l *rankLoop) tellNeed(now mono.Time) {
	need, kept := 0.0, 0
	if p := l.paging; p != nil {
		need, kept = p.match.Need(now), p.match.GPUs() // early batches go to whoever holds the model
		p.stats.pages(p.match, len(p.lives))
	} else {
		need, kept = l.rank.Need(now), l.rank.Kept()
	}
	l.stats.need.Store(math.Float64bits(need))
	l.stats.needAt.Store(int64(now))
	l.stats.kept.Store(int64(kept))
}

// needEvery is how often the rank loop tells the need while it has work.
const needEvery = mono.Second

// event hands one event to the core. A mailbox that was emptied meanwhile has
// nothing to say.
func (l *rankLoop) event(now mono.Time, ev *rankEvent) {
	var m *mail
	if ev.op == rankMail {
		ev.box.told.Store(false) // before the look: who writes after it tells again
		if m = ev.box.take(); m == nil {
			return
		}
	}
	if ev.effort != nil {
		l.effortEvent(now, ev)
		return
	}
	if ev.op == rankLook {
		l.paging.lookLoop(now)
		return
	}
	if ev.op == rankDone {
		for int(ev.gpu.ID) >= len(l.told) {
			l.told = append(l.told, 0)
		}
		l.told[ev.gpu.ID] = ev.told
	}
	if l.paging != nil {
		l.eventPaged(now, ev, m)
		return
	}
	ev.apply(l.rank, m)
	l.log.event(now, ev, m, nil)
	if ev.op == rankGone {
		l.engine.changed()
	}
}

func (l *rankLoop) eventPaged(now mono.Time, ev *rankEvent, m *mail) {
	var w *wants
	if m != nil {
		l.wants = ev.box.takeWants()
		w = &l.wants
	}
	if l.paging.event(now, ev, m, w) {
		l.log.event(now, ev, m, w)
	}
	if ev.op == rankGone || ev.op == rankModel {
		l.engine.changed()
	}
}
