package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// thread runs a model loop, the rank loop, or both: where cores are few, the rank
// loop rides on the first model loop's thread (Placement.Joined). The loops then still
// speak through their rings and the mailbox, but neither wakes the other: a grant
// does not wait for the kernel twice. Where engines are many, others' loops ride on it
// as well (rider).
type thread struct {
	threads *Threads
	index   int         // place in Placement.Cores
	ranks   bool        // it was made for a rank loop alone
	waiter  ring.Waiter // Shared: others wake it.
	marked  atomic.Pointer[rider]

	loops   int  // Guarded by Threads.mu: loops seated here
	running bool // likewise

	// Owned by run. The loops that it was made for are set before it runs.
	model  *modelLoop // nil: none
	rank   *rankLoop  // nil: none
	crowd  crowd
	number int64     // the kernel's
	over   bool      // its last loop has ended
	slept  mono.Time // when it last went to sleep
	dense  bool      // requests came since then
}

func (t *thread) run() {
	ring.Lock()
	t.pin()
	t.tellThread()
	for now := mono.Now(); ; {
		worked := false
		if t.model != nil {
			now, worked = t.model.step(now)
			t.dense = t.dense || t.model.taken > 0
		}
		if t.rank != nil {
			after, too := t.rank.step(now)
			now, worked = after, worked || too
		}
		if after, too := t.stepCrowd(now); too {
			now, worked = after, true
		}
		if t.model != nil && t.model.ended {
			e := t.model.engine
			t.model = nil
			t.left()
			e.wait.Done()
		}
		if t.rank != nil && t.rank.ended {
			e := t.rank.engine
			t.rank = nil
			t.left()
			e.wait.Done()
		}
		if t.over {
			return
		}
		if !worked {
			now = t.idle(now)
		}
	}
}

// left takes note that a loop has ended.
func (t *thread) left() { t.over = t.threads.leave(t) }

// pin ties the thread to its core, if one is named for it, and lets it go first
// there. Where the kernel refuses (a container with fewer cores) the loop floats.
func (t *thread) pin() {
	if cores := t.threads.place.Cores; t.index < len(cores) && ring.Pin(cores[t.index]) == nil {
		ring.Prefer()
	}
}

// tellThread puts the thread's number into its loops' statistics.
func (t *thread) tellThread() {
	t.number = int64(ring.Thread())
	if t.model != nil {
		t.model.begun(t.number)
	}
	if t.rank != nil {
		t.rank.begun(t.number)
	}
}

func (t *thread) news() bool {
	return t.model != nil && t.model.news() || t.rank != nil && t.rank.news() || t.marked.Load() != nil
}

// urgent is the news that a doze must not hold up: all but requests.
func (t *thread) urgent() bool {
	return t.model != nil && (t.model.commands.Ready() || t.model.stop.Load() && !t.model.drained) || t.rank != nil && t.rank.news() || t.marked.Load() != nil
}

// wake is when the next timer fires.
func (t *thread) wake() mono.Time {
	wake := mono.Never
	if t.model != nil {
		wake = t.model.nextWake()
	}
	if t.rank != nil {
		wake = min(wake, t.rank.nextWake())
	}
	if t.crowd.wakes.Len() > 0 {
		_, at := t.crowd.wakes.Min()
		wake = min(wake, mono.Time(at))
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
	doze := t.threads.place.Doze
	dense := t.dense && t.crowd.n == 0 && now.Sub(t.slept) < 2*doze
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
	if t.ranks {
		return t.threads.place.RankPoll
	}
	return t.threads.place.ModelPoll
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
