package executor

import (
	"slices"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// latest looks at orders when they are too late to be begun. Whatever they wait for, weights, inputs or the batch before them,
// may take far longer, and then their requests would have no time left for another device.
type latest struct {
	timer *time.Timer // nil: none was needed yet
	at    mono.Time   // it fires; Never: it does not
}

// awaitLocked looks at the orders when this latest start has passed. Caller holds mu.
func (e *Executor) awaitLocked(start mono.Time) {
	l := &e.latest
	if start >= l.at || e.closed {
		return
	}
	l.at = start
	in := max(0, start.Sub(mono.Now())+1).Std()
	if l.timer == nil {
		l.timer = time.AfterFunc(in, e.returnLate)
	} else {
		l.timer.Reset(in)
	}
}

// returnLate gives back the orders that have not begun and are too late to.
func (e *Executor) returnLate() {
	e.mu.Lock()
	now, next := mono.Now(), mono.Never
	e.latest.at = mono.Never
	var late []*order
	e.orders = slices.DeleteFunc(e.orders, func(o *order) bool {
		gone := o.Latest != mono.Never && now > o.Latest
		if gone {
			late = append(late, o)
		} else {
			next = min(next, o.Latest)
		}
		return gone
	})
	e.awaitLocked(next)
	e.mu.Unlock()
	for _, o := range late {
		ready := o.readyAt()
		if ready == 0 { // its READs may be under way, and keep its buffers
			ready = now
		}
		e.returnWhole(&o.Order, ready, wire.ReasonLate)
		o.forget()
	}
}

// readyAt is when the order's inputs were there; 0: they are not.
func (o *order) readyAt() mono.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready
}
