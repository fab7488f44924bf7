package executor

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Pages are those that are free for weights, and all; 0 and 0: the device has none.
func (e *Executor) Pages() (free, all int) {
	if e.loader == nil {
		return 0, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loader.free, e.loader.all
}

// Held are the weights that are here, least recently used first.
func (e *Executor) Held() []Weights {
	if e.loader == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loader.heldLocked()
}

// Introduce is Held for a scheduler that knows of nothing that is under way, and is told of so many weights at
// most: the others leave, loads that wait or are copied are void, and what it is told is all there is.
func (e *Executor) Introduce(most int) []Weights {
	if e.loader == nil {
		return nil
	}
	e.mu.Lock()
	e.loader.voidLocked()
	held := e.loader.heldLocked()
	for len(held) > most {
		e.loader.leaveLocked(held[0].Slot)
		held = held[1:]
	}
	e.mu.Unlock()
	e.loader.resume()
	return held
}

// Forget has weights leave that no order names: by one of that epoch, which does not count below the fence.
func (e *Executor) Forget(epoch wire.Epoch, w Weights) {
	if e.loader == nil {
		return
	}
	e.mu.Lock()
	if epoch >= e.fence && w.Slot < len(e.loader.slots) && w.Generation != 0 && e.loader.slots[w.Slot].generation == w.Generation {
		e.loader.leaveLocked(w.Slot)
	}
	e.mu.Unlock()
	e.loader.resume()
}

// verdictLocked says whether an order whose inputs are there may begin: with ReasonNone and false it may, with a
// reason it never will, and else its weights are on their way. Caller holds mu.
func (e *Executor) verdictLocked(o *Order) (why wire.Reason, waits bool) {
	if o.Latest != mono.Never && mono.Now() > o.Latest {
		return wire.ReasonLate, false
	}
	if e.loader == nil {
		if o.Generation != 0 { // weights of one are on no device whose models are there for good
			return wire.ReasonCold, false
		}
		return wire.ReasonNone, false
	}
	there, coming := e.loader.weighLocked(o.ModelIndex, o.Generation)
	if !there && !coming {
		why = wire.ReasonCold
	}
	return why, coming
}

// chilledLocked reports whether an order has run with weights that are not here any more. Caller holds mu.
func (e *Executor) chilledLocked(o *Order) bool {
	if e.loader == nil {
		return false
	}
	there, _ := e.loader.weighLocked(o.ModelIndex, o.Generation)
	if there {
		e.loader.useLocked(o.ModelIndex)
	}
	return !there
}

// runsLocked reports whether the device may be using a slot's weights. Caller holds mu.
func (e *Executor) runsLocked(slot int) bool {
	for _, o := range e.launched {
		if o.ModelIndex == slot {
			return true
		}
	}
	return e.held
}

// returnWhole reports an order that was not begun, and of whose items none is answered: the scheduler
// queues them again, as far as they have time.
func (e *Executor) returnWhole(o *Order, ready mono.Time, why wire.Reason) {
	now := mono.Now()
	e.returned(o, why)
	e.report.Report(&wire.Done{Epoch: o.Epoch, Batch: o.Batch.Batch, Ready: ready, Start: now, End: now, Fetch: ready.Sub(o.Arrived), Reason: why})
}

func (e *Executor) returned(o *Order, why wire.Reason) {
	if e.obs.Returned != nil {
		e.obs.Returned(o, why)
	}
}
