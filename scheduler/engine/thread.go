package engine

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// thread runs a model loop, the rank loop, or both: where cores are few, the rank
// loop rides on the first model loop's thread (Placement.Joined). The loops then still
// speak through their rings and the mailbox, but neither wakes the other: a grant
// does not wait for the kernel twice.
type thread struct {
	engine *Engine
	index  int         // place in Placement.Cores
	model  *modelLoop  // nil: none
	rank   *rankLoop   // nil: none
	waiter ring.Waiter // Shared: others wake it.

	// Owned by run.
	slept mono.Time // when it last went to sleep
	dense bool      // requests came since then
}

func (t *thread) run() {
	defer t.engine.wait.Done()
	ring.Lock()
	t.pin()
	t.tellThread()
	for now := mono.Now(); !t.ended(); {
		worked := false
		if t.model != nil && !t.model.ended {
			now, worked = t.model.step(now)
			t.dense = t.dense || t.model.taken > 0
		}
		if t.rank != nil && !t.rank.ended {
			after, too := t.rank.step(now)
			now, worked = after, worked || too
		}
		if !worked && !t.ended() {
			now = t.idle(now)
		}
	}
}

// pin ties the thread to its core, if one is named for it, and lets it go first
// there. Where the kernel refuses (a container with fewer cores) the loop floats.
func (t *thread) pin() {
	if cores := t.engine.cfg.Cores; t.index < len(cores) && ring.Pin(cores[t.index]) == nil {
		ring.Prefer()
	}
}

// tellThread puts the thread's number into its loops' statistics.
func (t *thread) tellThread() {
	id := int64(ring.Thread())
	if t.model != nil {
		t.model.stats.thread.Store(id)
	}
	if t.rank != nil {
		t.rank.stats.thread.Store(id)
	}
}

func (t *thread) ended() bool {
	return (t.model == nil || t.model.ended) && (t.rank == nil || t.rank.ended)
}

func (t *thread) news() bool {
	return t.model != nil && t.model.news() || t.rank != nil && t.rank.news()
}

// urgent is the news that a doze must not hold up: all but requests.
func (t *thread) urgent() bool {
	return t.model != nil && (t.model.commands.Ready() || t.model.stop.Load() && !t.model.drained) || t.rank != nil && t.rank.news()
}

// wake is when the next timer fires.
func (t *thread) wake() mono.Time {
	wake := mono.Never
	if t.model != nil {
		wake = t.model.nextWake()
	}
	if t.rank != nil {
		wake = min(wake, t.rank.rank.NextWake())
	}
	return wake
}

// idle waits for news or the next timer, as configured, and tells the time.
func (t *thread) idle(now mono.Time) mono.Time {
	wake := t.wake()
	if poll := t.polls(); poll > 0 {
		var found bool
		if now, found = t.poll(poll, wake); found {
			return now
		}
	}
	// A dense row: requests came since it last slept, and that was a moment ago.
	doze := t.engine.cfg.Doze
	dense := t.dense && now.Sub(t.slept) < 2*doze
	t.slept, t.dense = now, false
	if dense {
		until := min(wake, now.Add(doze))
		if t.waiter.ArmDoze(until); t.urgent() {
			t.waiter.Disarm()
		} else {
			t.waiter.Doze(until)
		}
		return mono.Now()
	}
	t.waiter.ArmUntil(wake)
	if t.news() {
		t.waiter.Disarm()
	} else {
		t.waiter.Wait(wake)
	}
	return mono.Now()
}

// polls is how long it looks for news before it sleeps.
func (t *thread) polls() mono.Dur {
	if t.model == nil {
		return t.engine.cfg.RankPoll
	}
	return t.engine.cfg.ModelPoll
}

// poll looks for news for so long, and no longer than until; found says that there
// are some, or that it is time. The clock is read at every look: it tells the next
// turn the time, and is pause enough for the core's other thread.
func (t *thread) poll(poll mono.Dur, until mono.Time) (now mono.Time, found bool) {
	for end := mono.Now().Add(poll); ; {
		now = mono.Now()
		if t.news() || now >= until {
			return now, true
		}
		if now >= end {
			return now, false
		}
	}
}
