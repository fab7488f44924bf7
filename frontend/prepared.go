package frontend

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Reservation is an inference whose input the caller writes straight into the slab
// that backends READ: for those who receive inputs from elsewhere, and would copy them
// once more for a Request.
//
//	var r frontend.Reservation            // may be used again and again, by one goroutine
//	err := client.Reserve(&r, "m", "")    // takes the slab
//	read(r.Input)                         // the tensors, one after the other, in the model's order
//	reply, err := client.InferReserved(ctx, &r, 0)
//
// What was reserved must be given to InferReserved or Release: it is a part of the
// arena. The deadline begins with InferReserved, so reserve late what comes slowly.
type Reservation struct {
	Model   string
	Version string
	Any     bool   // Request's
	Input   []byte // of the model's inputs; whatever was in the slab before

	// Request's; set them between Reserve and InferReserved.
	Priority wire.Priority
	Class    wire.Class
	ID       *atomic.Uint64
	Trace    TraceID
	Source   uint64

	model *model
	slab  wire.SlabHandle
}

// Reserve takes a slab for one input of the model; version "" is whichever answers now
// (Choose). Errors are those of Infer, at once: unknown model, unavailable, overloaded (the
// arena is full).
func (c *Client) Reserve(r *Reservation, name, version string) error {
	m, err := c.admit(&Request{Model: name, Version: version})
	var slab wire.SlabHandle
	var bytes []byte
	if err == nil {
		slab, bytes, err = c.alloc(m, m.inputs)
	}
	if err != nil {
		if err.Model == "" {
			err.Model = name
		}
		if m != nil {
			m.metrics.count(err)
		}
		return err
	}
	r.Model, r.Version, r.Any, r.Input, r.model, r.slab = name, version, version == "", bytes, m, slab
	return nil
}

// Release gives back what was reserved and will not be asked for. Where nothing is
// reserved (any more) it does nothing.
func (c *Client) Release(r *Reservation) {
	if r.model != nil {
		c.arena.Free(r.slab)
	}
	r.clear()
}

func (r *Reservation) clear() {
	*r = Reservation{}
}

// InferReserved asks for the inference whose input has been written, and waits for its
// answer. timeout is Request's. The reservation is used up, however it ends.
func (c *Client) InferReserved(ctx context.Context, r *Reservation, timeout time.Duration) (*Response, error) {
	if r.model == nil {
		return nil, badInput("", "nothing is reserved")
	}
	w := c.waiter()
	c.submitReserved(ctx, r, timeout, w.done)
	r.clear()
	return c.await(w)
}

// submitReserved sees to it that done is called, once.
func (c *Client) submitReserved(ctx context.Context, r *Reservation, timeout time.Duration, done func(*Response, error)) {
	now := mono.Now()
	deadline, err := c.deadline(ctx, now, &Request{Model: r.Model, Timeout: timeout, Class: r.Class}, r.model)
	if err == nil && c.draining.Load() {
		err = reasonError(r.Model, wire.ReasonDraining)
	}
	if err != nil {
		c.arena.Free(r.slab)
		c.refuse(r.model, r.Model, err, done)
		return
	}
	k := call{done: done, model: r.model, slab: r.slab, arrival: now, deadline: deadline, submitted: now, any: r.Any, priority: r.Priority, class: r.Class, trace: r.Trace}
	var ok bool
	if k.graded, ok = r.model.metrics.doubts.grade(r.Source, r.Input); !ok {
		c.isolate(&k)
		return
	}
	if id, ok := c.register(&k); ok {
		c.submit(id, &k, r.Input)
		c.watch(ctx, r.ID, id)
	}
}
