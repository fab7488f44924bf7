package executor

import "github.com/symphony-serving/symphony/transport/wire"

// Fence lets no order of an epoch below this one in any more, and gives up those that have not
// begun, unless they are kept: nothing of them is sent, neither answers nor a report. goes is
// called, in the order in which they end, for each that goes on: its outputs and its report are
// to come. It must not call the executor. Fence says how many were given up.
//
// Begun is what the device was given (launched): also what a Pipelined one only copies so far,
// for it cannot be taken back, and will be executed. What the device has done and whose outputs
// are being sent goes on, too. Loads that are under way are void; who is obeyed now is to be told what
// is held (Held) after this.
func (e *Executor) Fence(epoch wire.Epoch, keep bool, goes func(*Order)) (dropped int) {
	e.mu.Lock()
	e.fence = max(e.fence, epoch)
	var waiting []*order
	if !keep {
		waiting, e.orders = e.orders, nil
	}
	for _, o := range e.finishing {
		if !o.over.Load() {
			goes(&o.Order)
		}
	}
	for _, o := range e.launched {
		if !o.forgotten {
			goes(&o.Order)
		}
	}
	for _, o := range e.orders {
		goes(&o.Order)
	}
	if e.loader != nil {
		e.loader.voidLocked()
		go e.loader.resume() // what is kept may have waited for a load; the caller's locks are not to be met here
	}
	e.mu.Unlock()
	for _, o := range waiting {
		o.forget()
	}
	return len(waiting)
}

// linksOf are the links to an order's frontends: ids are its scheduler's own.
func (e *Executor) linksOf(o *Order) Links {
	if o.Links != nil {
		return o.Links
	}
	return e.links
}
