package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
)

// loop is a model loop or a rank loop, to its thread.
type loop interface {
	step(now mono.Time) (after mono.Time, worked bool)
	news() bool          // something waits for a step
	nextWake() mono.Time // when its next timer fires
	over() bool
	of() *Engine
	begun(thread int64)
}

// rider is a loop's place on a thread. Where a thread was made for the loop, it looks
// at the loop in each turn. Loops that ride on the threads of others may be many: such a loop is
// marked by who has news for it, and looked at then, or when its timer fires. So one that is
// idle costs its thread nothing.
//
//	producer: push to the loop's ring, mark it, wake the thread
//	thread:   take the marks away, then look at the rings
type rider struct {
	thread *thread // Immutable once seated.
	loop   loop    // Immutable.

	riding atomic.Bool // it is marked; from start on
	marked atomic.Bool
	next   *rider // in thread.marked; owned by who marked it, then by the thread

	slot   int // Owned by the thread: in crowd.riders, plus 1; 0: not seen yet
	queued bool
	gone   bool
}

// own seats the loop on a thread that is made for it, ride on one that is there. Caller holds
// Threads.mu.
func (r *rider) own(t *thread) {
	r.thread = t
	t.loops++
}

func (r *rider) ride(t *thread, l loop) {
	r.thread, r.loop = t, l
	t.loops++
}

// begin lets a riding loop be looked at.
func (r *rider) begin() {
	if r.loop != nil {
		r.riding.Store(true)
		r.rouse()
	}
}

// wake, wakeBy and rouse are ring.Waiter's, for news of this loop.
func (r *rider) wake() {
	r.mark()
	r.thread.waiter.Wake()
}

func (r *rider) wakeBy(at mono.Time) {
	r.mark()
	r.thread.waiter.WakeBy(at)
}

func (r *rider) rouse() {
	r.mark()
	r.thread.waiter.Rouse()
}

// wakes counts the wake-ups of its thread by others.
func (r *rider) wakes() uint64 { return r.thread.waiter.Wakes() }

func (r *rider) mark() {
	if !r.riding.Load() || r.marked.Swap(true) {
		return
	}
	for head := &r.thread.marked; ; {
		r.next = head.Load()
		if head.CompareAndSwap(r.next, r) {
			return
		}
	}
}

// crowd is the loops that ride on a thread. Owned by the thread's run.
type crowd struct {
	riders []*rider // by slot
	free   []int
	n      int
	wakes  pq.Heap // slot -> next wake
	due    []*rider
	spare  []*rider
}

// put queues a loop for the next turn.
func (c *crowd) put(r *rider) {
	if !r.queued && !r.gone {
		r.queued = true
		c.due = append(c.due, r)
	}
}

// gather queues the loops that have news or whose timer fires.
func (t *thread) gather(now mono.Time) {
	c := &t.crowd
	if t.marked.Load() != nil {
		for r := t.marked.Swap(nil); r != nil; {
			next := r.next
			r.next = nil
			r.marked.Store(false) // before the look: who pushes after it marks again
			c.put(r)
			r = next
		}
	}
	for c.wakes.Len() > 0 {
		slot, at := c.wakes.Min()
		if at > int64(now) {
			return
		}
		c.wakes.Remove(slot)
		c.put(c.riders[slot])
	}
}

// stepCrowd is a turn of each loop that has something to do.
func (t *thread) stepCrowd(now mono.Time) (after mono.Time, worked bool) {
	t.gather(now)
	c := &t.crowd
	if len(c.due) == 0 {
		return now, false
	}
	due := c.due
	c.due = c.spare[:0]
	for _, r := range due {
		r.queued = false
		if r.slot == 0 {
			t.admit(r)
		}
		now, _ = r.loop.step(now)
		if r.loop.over() {
			t.dismiss(r)
			continue
		}
		if r.loop.news() { // more than a turn takes
			c.put(r)
		}
		if wake := r.loop.nextWake(); wake == mono.Never {
			c.wakes.Remove(uint32(r.slot - 1))
		} else {
			c.wakes.Set(uint32(r.slot-1), int64(wake))
		}
	}
	clear(due)
	c.spare = due[:0]
	return now, true
}

func (t *thread) admit(r *rider) {
	c := &t.crowd
	if len(c.free) == 0 {
		c.free = append(c.free, len(c.riders))
		c.riders = append(c.riders, nil)
	}
	last := len(c.free) - 1
	slot := c.free[last]
	c.free = c.free[:last]
	c.riders[slot], r.slot = r, slot+1
	c.n++
	r.loop.begun(t.number)
}

// dismiss forgets a loop that has ended.
func (t *thread) dismiss(r *rider) {
	c := &t.crowd
	c.wakes.Remove(uint32(r.slot - 1))
	c.riders[r.slot-1] = nil
	c.free = append(c.free, r.slot-1)
	c.n--
	r.gone = true // it may be marked once more
	r.riding.Store(false)
	t.left()
	r.loop.of().wait.Done()
}
