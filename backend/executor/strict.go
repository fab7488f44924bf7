package executor

import (
	"math"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Strict has no batch begin before its planned Exec, as Clockwork's workers do: what the device does is then what was planned, and
// how far off the plan is can be read off its reports. It costs the time by which inputs are there early, and a timer's
// lateness. Call it before the first order.
//
// An Exec beyond an order's Latest, or its first deadline, is no plan: it holds the order until then.
func (e *Executor) Strict() {
	e.early = time.AfterFunc(math.MaxInt64, e.start)
	e.early.Stop()
}

// begins is when an order may, where the device is strict.
func (o *order) begins() mono.Time {
	at := min(o.Exec, o.Latest)
	for i := range o.Items {
		at = min(at, o.Items[i].Deadline)
	}
	return at
}

// tooEarlyLocked tells whether an order is to wait for its Exec, and until when at the latest the device is to be looked at again: by
// now, or what was known before. Caller holds mu.
func (e *Executor) tooEarlyLocked(o *order, now, wake mono.Time) (bool, mono.Time) {
	if e.early == nil {
		return false, wake
	}
	at := o.begins()
	if at <= now {
		return false, wake
	}
	return true, min(wake, at)
}

// wakeLocked has start look again at an instant; Never: not by itself. Caller holds mu.
func (e *Executor) wakeLocked(now, at mono.Time) {
	if at != mono.Never {
		e.early.Reset(at.Sub(now).Std())
	}
}
