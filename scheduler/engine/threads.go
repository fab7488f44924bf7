package engine

import (
	"sync"
	"sync/atomic"
)

// Threads are those that the loops of one or many engines run on. Engines come and go
// while they run.
//
// The first engine's loops get threads as Placement says. So do those of each further one, as long
// as all are no more than Placement.ThreadsMax; from then on loops ride on the threads that are
// there: each on the one with the fewest loops, an engine's rank loop beside its first model
// loop, for a grant then takes one wake-up. A loop stays on its thread, and a thread ends with its
// last loop.
type Threads struct {
	place Placement // Immutable.

	mu   sync.Mutex // Guards what follows.
	list []*thread  // by place in Placement.Cores; nil: none

	live   atomic.Int64 // Shared: threads
	tuners atomic.Int64 // Shared: engines whose tuner has something to do
}

// NewThreads makes a set of threads, without any. They begin and end with the engines that run on
// them (Config.Threads).
func NewThreads(p Placement) *Threads { return &Threads{place: p} }

// seat gives each loop of an engine a thread, which waits for start.
func (ts *Threads) seat(e *Engine) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	wanted := len(e.loops)
	if !ts.place.Joined {
		wanted++
	}
	if most := ts.place.ThreadsMax; most > 0 && int(ts.live.Load())+wanted > most && ts.least() != nil {
		for _, l := range e.loops {
			l.rider.ride(ts.least(), l)
		}
		e.rank.rider.ride(e.loops[0].rider.thread, e.rank)
		return
	}
	for _, l := range e.loops {
		t := ts.add()
		t.model = l
		l.rider.own(t)
	}
	t := e.loops[0].rider.thread
	if !ts.place.Joined {
		t = ts.add()
		t.ranks = true
	}
	t.rank = e.rank
	e.rank.rider.own(t)
}

// add makes a thread in the first place that is free.
func (ts *Threads) add() *thread {
	t := &thread{threads: ts, index: len(ts.list)}
	for i, other := range ts.list {
		if other == nil {
			t.index = i
			break
		}
	}
	if t.index == len(ts.list) {
		ts.list = append(ts.list, nil)
	}
	ts.list[t.index] = t
	ts.live.Add(1)
	t.waiter.Spin = ts.place.Spin
	return t
}

// least is the running thread with the fewest loops; nil: none runs.
func (ts *Threads) least() *thread {
	var best *thread
	for _, t := range ts.list {
		if t != nil && t.running && (best == nil || t.loops < best.loops) {
			best = t
		}
	}
	return best
}

// start lets an engine's loops run.
func (ts *Threads) start(e *Engine) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, r := range e.riders() {
		if r.begin(); !r.thread.running {
			r.thread.running = true
			go r.thread.run()
		}
	}
}

// leave takes note that a loop of the thread has ended; last: the thread ends with it.
func (ts *Threads) leave(t *thread) (last bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.loops--; t.loops > 0 {
		return false
	}
	ts.list[t.index] = nil
	ts.live.Add(-1)
	return true
}

// tunerWeight is what a tuner's time counts: all tuners together take no more than one share for
// each thread of the loops.
func (ts *Threads) tunerWeight() float64 {
	return max(1, float64(ts.tuners.Load())/float64(max(1, ts.live.Load())))
}
