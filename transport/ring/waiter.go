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
type Waiter struct {
	// Spin is how long before the instant Wait stops sleeping and spins: 0 is
	// never, for machines whose cores are wanted by others.
	Spin mono.Dur

	state atomic.Uint32
	_     [lineSize]byte
	wakes atomic.Uint64
}

const (
	awake    = 0
	sleeping = 1
)

// Arm announces the wait. Look at the queues after it, then Wait or Disarm.
func (w *Waiter) Arm() { w.state.Store(sleeping) }

// Disarm takes Arm back.
func (w *Waiter) Disarm() { w.state.Store(awake) }

// Wake ends the wait, from any goroutine. It costs one load when nobody sleeps.
func (w *Waiter) Wake() {
	if w.state.Load() == sleeping && w.state.CompareAndSwap(sleeping, awake) {
		w.wakes.Add(1)
		w.wakeThread()
	}
}

// Wakes counts the threads' wake-ups by Wake.
func (w *Waiter) Wakes() uint64 { return w.wakes.Load() }

// Wait returns at until (mono.Never: only when woken) or once woken; Arm first.
func (w *Waiter) Wait(until mono.Time) {
	sleepUntil := until
	if w.Spin > 0 && until != mono.Never {
		sleepUntil = until.Add(-w.Spin)
	}
	for w.state.Load() == sleeping {
		now := mono.Now()
		if now >= sleepUntil {
			break
		}
		w.sleep(sleepUntil, now)
	}
	for w.state.Load() == sleeping && mono.Now() < until {
		spinPause()
	}
	w.state.Store(awake)
}

// spinPause keeps the spin from being a single-instruction loop.
func spinPause() {
	for range 16 {
		_ = mono.Nanosecond
	}
}
