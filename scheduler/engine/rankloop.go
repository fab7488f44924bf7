package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// rankLoop drives the matchmaker on one thread.
type rankLoop struct {
	engine *Engine // Immutable.
	events *ring.Queue[rankInput]
	waiter ring.Waiter

	rank *rank.Rank // Owned by run.
	out  rank.Out   // Owned by run.
	in   rankInput  // Owned by run: scratch

	stats loopStats   // Shared: written by run.
	stop  atomic.Bool // Shared.
}

func (l *rankLoop) run() {
	defer l.engine.wait.Done()
	ring.Lock()
	for now := mono.Now(); ; {
		from := now
		worked := l.turn(now)
		if l.stop.Load() && !l.events.Ready() {
			return
		}
		if !worked {
			l.waiter.Arm()
			if l.events.Ready() || l.stop.Load() {
				l.waiter.Disarm()
			} else {
				l.waiter.Wait(l.rank.NextWake())
			}
			now = mono.Now()
			continue
		}
		now = mono.Now()
		l.stats.busy.Add(int64(now.Sub(from)))
	}
}

// turn takes the events that wait, fires the timers, sends the grants out.
func (l *rankLoop) turn(now mono.Time) bool {
	l.stats.turns.Add(1)
	n := 0
	for ; n < burst && l.events.Pop(&l.in); n++ {
		if l.in.op == rankMail {
			l.in.mail = l.engine.boxes[l.in.model].take()
		}
		l.in.apply(l.rank)
		l.engine.cfg.Record.rankEvent(now, &l.in)
	}
	if n == 0 && l.rank.NextWake() > now {
		return false
	}
	l.out.Grants = l.out.Grants[:0]
	l.rank.Step(now, &l.out)
	l.engine.cfg.Record.rankStep(now, l.out.Grants)
	for _, g := range l.out.Grants {
		l.engine.command(l.engine.loopOf(g.Model), &input{op: opGranted, grant: g})
	}
	l.stats.dispatches.Add(uint64(len(l.out.Grants)))
	return true
}
