package executor

import "github.com/symphony-serving/symphony/transport/wire"

// Suspend takes the device out of service: what waits and what was launched is forgotten,
// and what comes is not taken. Nothing is said of it, neither answers nor reports: the
// scheduler, which is told next, queues it again. What the device still executes goes
// nowhere. Its weights go, too: nobody knows whether they are still there.
func (e *Executor) Suspend() {
	e.mu.Lock()
	e.suspended = true
	waiting := e.orders
	e.orders = nil
	for _, o := range e.launched {
		o.forgotten = true
	}
	if e.loader != nil {
		e.loader.voidLocked()
		for slot := range e.loader.slots {
			e.loader.forgetLocked(slot, 0, wire.ReasonUnavailable) // no load is left to be reported
		}
	}
	e.mu.Unlock()
	for _, o := range waiting {
		o.forget()
	}
	if e.loader != nil {
		e.loader.step()
	}
}

// Resume puts it back.
func (e *Executor) Resume() {
	e.mu.Lock()
	e.suspended = false
	e.mu.Unlock()
}

// forget gives up an order that was not launched, once its READs have ended.
func (o *order) forget() {
	o.mu.Lock()
	o.dropped = true
	reading := o.reading > 0
	o.mu.Unlock()
	if !reading {
		o.recycle()
	}
}

// recycle makes an order that nobody refers to any more a spare.
func (o *order) recycle() {
	o.mu.Lock()
	o.holding = 1
	o.mu.Unlock()
	o.release()
}
