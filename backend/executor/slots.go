package executor

import (
	"github.com/symphony-serving/symphony/backend/rerun"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Models come and go by slot, while others run: a device knows a model by its slot, and who
// orders names the slot, too. The device has a model before the executor is told of it, and
// until the executor has nothing of it any more:
//
//	device: load  --> Put --> orders --> Drop --> until Uses is false --> device: unload

// Put lets orders for a model in. A slot that has one already gets the new one: orders that
// are here keep theirs.
func (e *Executor) Put(slot int, m *Model) {
	e.grow(m)
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.models) <= slot {
		e.models = append(e.models, nil)
	}
	e.models[slot] = m
	if slot < len(e.records) {
		e.records[slot] = new(rerun.Record)
	}
}

// Drop lets no more orders for the slot in: they are refused as of a model that is not here. Its weights leave
// a paged device.
func (e *Executor) Drop(slot int) {
	var reports []wire.Loaded
	e.mu.Lock()
	if slot < len(e.models) {
		e.models[slot] = nil
	}
	if e.loader != nil {
		reports = e.loader.forgetLocked(slot, 0, wire.ReasonUnknownModel)
	}
	e.mu.Unlock()
	if e.loader != nil {
		e.loader.tellAll(reports)
		e.loader.resume()
	}
}

// Uses reports whether an order of the slot is under way, or weights of it are on a paged device.
func (e *Executor) Uses(slot int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loader != nil && e.loader.usesLocked(slot) {
		return true
	}
	for _, list := range [][]*order{e.orders, e.launched} {
		for _, o := range list {
			if o.ModelIndex == slot {
				return true
			}
		}
	}
	return false
}

// modelLocked is the order's model; nil: it is not here. Caller holds mu.
func (e *Executor) modelLocked(o *Order) *Model { return e.modelOf(o.ModelIndex, o.Meant) }

// modelOf is a slot's model, if it is the one that is meant; nil: it is not here. Caller holds mu.
func (e *Executor) modelOf(slot int, meant *Model) *Model {
	if slot < 0 || slot >= len(e.models) {
		return nil
	}
	m := e.models[slot]
	if meant != nil && meant != m {
		return nil // another one has the slot by now
	}
	return m
}

// Hold takes the device for runs of the caller's own, between orders; false: it is not free
// now. Orders that come meanwhile wait for Release.
func (e *Executor) Hold() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held || e.closed || e.suspended || len(e.launched) > 0 || len(e.orders) > 0 {
		return false
	}
	e.held = true
	return true
}

// HoldNext is Hold for a device that is never free: from the first call on no further order begins,
// and a call after those that run have ended holds the device. Release ends both.
func (e *Executor) HoldNext() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held || e.closed || e.suspended {
		return false
	}
	e.held = len(e.launched) == 0
	e.claimed = !e.held
	return e.held
}

// Quiet is how long the device has had no order: 0 while it has one, mono.Never where none came.
func (e *Executor) Quiet(now mono.Time) mono.Dur {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.launched) > 0 || len(e.orders) > 0 {
		return 0
	}
	if e.lately == 0 {
		return mono.Dur(mono.Never)
	}
	return max(0, now.Sub(e.lately))
}

// Release gives it back.
func (e *Executor) Release() {
	e.mu.Lock()
	e.held, e.claimed = false, false
	e.mu.Unlock()
	if e.loader != nil {
		e.loader.resume() // weights could not leave meanwhile, and loads waited for their pages
	}
	e.start()
}

// grow gives spare orders buffers for a model that comes later: see warm. It does not hold
// orders up, which take what there is meanwhile.
func (e *Executor) grow(m *Model) {
	if _, heap := e.memory.(transport.Heap); heap {
		return
	}
	in, out := e.buffersOf(m)
	for range e.depth + 1 {
		o := e.smaller(in, out)
		if o == nil {
			return
		}
		if cap(o.in) < in {
			o.in = e.buffer(o.in, in)
		}
		if cap(o.out) < out {
			o.out = e.buffer(o.out, out)
		}
		e.mu.Lock()
		keep := !e.closed
		if keep {
			e.spare = append(e.spare, o)
		}
		e.mu.Unlock()
		if !keep {
			o.free()
		}
	}
}

// smaller takes a spare order out whose buffers are too small; nil: there is none.
func (e *Executor) smaller(in, out int) *order {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, o := range e.spare {
		if cap(o.in) < in || cap(o.out) < out {
			e.spare = append(e.spare[:i], e.spare[i+1:]...)
			return o
		}
	}
	if len(e.spare) == 0 && len(e.launched)+len(e.orders) == 0 && !e.closed {
		return e.newOrder()
	}
	return nil
}
