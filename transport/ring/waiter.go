package ring

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Waiter lets one thread wait until an instant or until woken, whichever is
// first. The waiting goroutine must be locked to its thread (see Lock).
//
// The protocol, which loses no wake-up:
//
//	consumer                            producer
//	1. Arm: state = sleeping            a. push to a queue
//	2. look at the queues again         b. Wake: if state is sleeping,
//	3. Wait: sleep while state is          set it awake and wake the thread
//	   sleeping
//
// Both sides write before they read. If the producer's look (b) misses the
// arming (1), then the consumer's look (2) sees the push (a).
//
// A wake-up costs both sides some microseconds, so two kinds of news do without:
// what is not needed before the consumer's own instant (WakeBy), and what may wait
// for as long as a doze lasts (Wake to one that dozes): a loop to which requests come faster than
// that takes a row of them at each end of a doze, as a network card does that
// moderates its interrupts.
type Waiter struct {
	// Spin is how long before the instant Wait stops sleeping and spins: 0 is
	// never, for machines whose cores are wanted by others.
	Spin mono.Dur

	state atomic.Uint32
	until atomic.Int64 // mono.Time: when the wait that was armed ends by itself
	_     [lineSize]byte
	wakes atomic.Uint64
}

const (
	awake    = 0
	sleeping = 1
	dozing   = 2 // Wake does not end it
)

// Arm announces a wait. Look at the queues after it, then Wait or Disarm.
func (w *Waiter) Arm() { w.ArmUntil(mono.Never) }

// ArmUntil is Arm for a wait that ends at until in any case, for WakeBy to know.
func (w *Waiter) ArmUntil(until mono.Time) {
	w.until.Store(int64(until))
	w.state.Store(sleeping)
}

// ArmDoze announces a doze until then. Look after it for what must not wait, then Doze
// or Disarm.
func (w *Waiter) ArmDoze(until mono.Time) {
	w.until.Store(int64(until))
	w.state.Store(dozing)
}

// Disarm takes Arm back.
func (w *Waiter) Disarm() { w.state.Store(awake) }

// Wake ends a wait, from any goroutine; a doze goes on. It costs one load
// when nobody sleeps.
func (w *Waiter) Wake() {
	if w.state.Load() == sleeping {
		w.end(sleeping)
	}
}

// WakeBy is Wake for news that the consumer must act on at the instant at, not
// before: it does nothing when the wait ends by itself by then.
func (w *Waiter) WakeBy(at mono.Time) {
	if state := w.state.Load(); state != awake && int64(at) < w.until.Load() {
		w.end(state)
	}
}

// Rouse ends a wait or a doze.
func (w *Waiter) Rouse() {
	if state := w.state.Load(); state != awake {
		w.end(state)
	}
}

func (w *Waiter) end(state uint32) {
	if w.state.CompareAndSwap(state, awake) {
		w.wakes.Add(1)
		w.wakeThread()
	}
}

// Wakes counts the threads' wake-ups by others.
func (w *Waiter) Wakes() uint64 { return w.wakes.Load() }

// Wait returns at until (mono.Never: only when woken) or once woken; Arm first.
func (w *Waiter) Wait(until mono.Time) {
	w.sleepUntil(until, sleeping)
	w.state.Store(awake)
}

// Doze is Wait after ArmDoze.
func (w *Waiter) Doze(until mono.Time) {
	w.sleepUntil(until, dozing)
	w.state.Store(awake)
}

func (w *Waiter) sleepUntil(until mono.Time, state uint32) {
	sleepUntil := until
	if w.Spin > 0 && until != mono.Never {
		sleepUntil = until.Add(-w.Spin)
	}
	for w.state.Load() == state {
		now := mono.Now()
		if now >= sleepUntil {
			break
		}
		w.sleep(state, sleepUntil, now)
	}
	for w.state.Load() == state && mono.Now() < until { // the clock's reading is pause enough
	}
}
