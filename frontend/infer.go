package frontend

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-serving/symphony/frontend/arena"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// timeoutMax bounds Request.Timeout.
const timeoutMax = time.Hour

// effortPart: best effort begins no requests once one in so many of those that may be open is: the others are for requests with deadlines.
const effortPart = 2

// expiryGrace is how long after the deadline the client waits for an answer
// that may be on its way, before it answers by itself.
const expiryGrace = mono.Millisecond

// call is an open request.
type call struct {
	done       func(*Response, error)
	model      *model
	slab       wire.SlabHandle
	arrival    mono.Time
	deadline   mono.Time
	width      int32 // of its image; 0: tensors
	height     int32
	preprocess mono.Dur
	submitted  mono.Time // zero: the image is not decoded
	stopCtx    func() bool
	any        bool   // another version may answer
	refused    uint64 // groups whose schedulers gave it back, a bit each
	at         *reign // of its model's group, that it was sent to; nil: to none. Of a group of one: nil
	priority   wire.Priority
	class      wire.Class
	again      bool // it may have been sent to an earlier reign, too
	trace      TraceID
	room       int64 // bytes of Client.outputs
	graded
}

// waiter is a goroutine in Infer.
type waiter struct {
	answered chan struct{} // capacity 1
	response *Response
	err      error
	done     func(*Response, error) // bound once
}

func newWaiter() *waiter {
	w := &waiter{answered: make(chan struct{}, 1)}
	w.done = func(r *Response, err error) {
		w.response, w.err = r, err
		w.answered <- struct{}{}
	}
	return w
}

// waiter takes a spare one, or makes one.
func (c *Client) waiter() *waiter {
	if w, _ := c.waits.Get().(*waiter); w != nil {
		return w
	}
	return newWaiter()
}

// await waits for the answer, which comes by the deadline at the latest, or when the
// caller's ctx ends, and makes the waiter a spare.
func (c *Client) await(w *waiter) (*Response, error) {
	<-w.answered
	response, err := w.response, w.err
	w.response, w.err = nil, nil
	c.waits.Put(w)
	return response, err
}

// Infer asks for one inference and waits for its answer.
func (c *Client) Infer(ctx context.Context, r Request) (*Response, error) {
	w := c.waiter()
	c.InferAsync(ctx, r, w.done)
	return c.await(w)
}

// InferAsync asks for one inference. done is called exactly once: from this
// goroutine when the request is refused at once, else from one of the
// client's own, which it must not block: over RDMA it is the one that serves all
// links of the process. There is no goroutine per request, and no allocation
// where tensors are sent, done is the same func for all, ctx cannot end and the
// responses are released (Response.Release).
func (c *Client) InferAsync(ctx context.Context, r Request, done func(*Response, error)) {
	arrival := mono.Now()
	m, err := c.admit(&r)
	if err != nil {
		c.refuse(m, r.Model, err, done)
		return
	}
	deadline, err := c.deadline(ctx, arrival, &r, m)
	if err != nil {
		c.refuse(m, r.Model, err, done)
		return
	}
	k := call{done: done, model: m, arrival: arrival, deadline: deadline, any: r.Any || r.Version == "", priority: r.Priority, class: r.Class, trace: r.Trace}
	k.keys.Source = r.Source
	if r.Image != nil {
		c.queueImage(ctx, &r, &k)
		return
	}
	var few [8]*Tensor
	tensors, err := m.order(r.Inputs, few[:0])
	if err != nil {
		c.refuse(m, r.Model, err, done)
		return
	}
	slab, bytes, err := c.alloc(m, m.inputs)
	if err != nil {
		c.refuse(m, r.Model, err, done)
		return
	}
	m.write(bytes, tensors)
	k.slab, k.submitted = slab, mono.Now()
	var ok bool
	if k.graded, ok = m.metrics.doubts.grade(r.Source, bytes); !ok {
		c.isolate(&k)
		return
	}
	if id, ok := c.register(&k); ok {
		c.submit(id, &k, bytes)
		c.watch(ctx, r.ID, id)
	}
}

// admit finds the model, or says why the request cannot be taken at all.
func (c *Client) admit(r *Request) (*model, *Error) {
	m, err := c.choose(r.Model, r.Version)
	if err != nil {
		return nil, err
	}
	up, ready := m.uplink.group.up(), m.ready() // once: what goes from here on is submit's to follow
	if !up || !ready {                          // it has gone or moved just now, or none serves it
		if again, _ := c.choose(r.Model, r.Version); again != nil {
			m, up, ready = again, again.uplink.group.up(), again.ready()
		}
	}
	switch {
	case c.draining.Load():
		return m, reasonError(r.Model, wire.ReasonDraining)
	case !up:
		return m, m.uplink.group.unavailable(r.Model, "cannot be reached")
	case !ready:
		return m, reasonError(r.Model, wire.ReasonUnavailable)
	case m.inputs < 0 || m.outputs < 0:
		return m, m.unserved()
	case r.Image != nil && r.Inputs != nil:
		return m, badInput(r.Model, "give inputs or an image, not both")
	case r.Image != nil && m.planError != nil:
		return m, badInput(r.Model, "its image preprocessing is wrong: %v", m.planError)
	case r.Image != nil && m.plan == nil:
		return m, badInput(r.Model, "it has no image preprocessing: send tensors")
	}
	return m, nil
}

// deadline applies the rule of the package's comment.
func (c *Client) deadline(ctx context.Context, arrival mono.Time, r *Request, m *model) (mono.Time, *Error) {
	if r.Timeout < 0 || r.Timeout > timeoutMax {
		return 0, badInput(r.Model, "timeout %v, must be above 0 and at most %v", r.Timeout, timeoutMax)
	}
	if r.Class > wire.ClassBestEffort {
		return 0, badInput(r.Model, "class %d, must be wire.ClassLatency or wire.ClassBestEffort", r.Class)
	}
	budget := m.entry.Spec.SLO
	if r.Class == wire.ClassBestEffort {
		budget = mono.Dur(timeoutMax)
	}
	if r.Timeout > 0 {
		budget = mono.Dur(r.Timeout)
	}
	deadline := arrival.Add(budget)
	if d, ok := ctx.Deadline(); ok {
		deadline = min(deadline, mono.FromStd(d))
	}
	if ctx.Err() != nil {
		return 0, contextError(r.Model, ctx)
	}
	if deadline <= arrival {
		return 0, reasonError(r.Model, wire.ReasonExpired)
	}
	return deadline, nil
}

func contextError(model string, ctx context.Context) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return reasonError(model, wire.ReasonExpired)
	}
	return reasonError(model, wire.ReasonCancelled)
}

func (c *Client) alloc(m *model, n int) (wire.SlabHandle, []byte, *Error) {
	slab, bytes, err := c.arena.Alloc(n)
	switch {
	case errors.Is(err, arena.ErrTooLarge):
		return 0, nil, badInput(m.entry.Spec.Name, "%v", err)
	case errors.Is(err, arena.ErrClosed):
		return 0, nil, reasonError(m.entry.Spec.Name, wire.ReasonDraining)
	case err != nil:
		return 0, nil, &Error{Kind: ErrOverloaded, Reason: wire.ReasonFull, Model: m.entry.Spec.Name, Msg: "the frontend's arena is full"}
	}
	return slab, bytes, nil
}

// register opens the call, or refuses it when too many are open. From here on
// it is answered by whoever takes it out of the table.
func (c *Client) register(k *call) (wire.RequestID, bool) {
	if err := c.makeRoom(k); err != nil {
		c.arena.Free(k.slab)
		c.letGo(k)
		c.refuse(k.model, k.model.entry.Spec.Name, err, k.done)
		return 0, false
	}
	c.mu.Lock()
	var id wire.RequestID
	var slot uint32
	ok := k.class == wire.ClassLatency || c.table.Len() < len(c.open)/effortPart
	if ok {
		id, slot, ok = c.table.Add(k.deadline.Add(expiryGrace))
	}
	if ok {
		if g := k.model.uplink.group; g.only == nil && k.submitted != 0 {
			g.place(id, k)
		}
		c.open[slot] = *k
		c.wakeExpiry()
	}
	c.mu.Unlock()
	if !ok {
		c.arena.Free(k.slab)
		c.outputs.give(k.room)
		c.letGo(k)
		c.refuse(k.model, k.model.entry.Spec.Name, &Error{Kind: ErrOverloaded, Reason: wire.ReasonFull, Model: k.model.entry.Spec.Name,
			Msg: "too many open requests"}, k.done)
		return 0, false
	}
	return id, true
}

// submitFrame is scratch for one frame. (On the stack it cannot lie: a Link may
// be anything.)
type submitFrame [128]byte

// submit sends an open call's record, unless the model's id has been taken from it since the
// call began: it may name another model by now. Who goes on later than that is caught by the
// scheduler's rest: it gives an id to another model only when all have heard that it is free.
func (c *Client) submit(id wire.RequestID, k *call, data []byte) {
	if g := k.model.uplink.group; g.only == nil {
		g.submit(id, k, data)
		return
	}
	c.arena.SetRequest(k.slab, id)
	a := k.model.uplink.admitted.Load() // before gone: ids end before the next admission begins
	if a == nil || k.model.gone.Load() {
		var waits bool
		if a, waits = c.follow(id, k); waits {
			return
		}
	}
	c.send(id, k, a, data)
}

// send sends the record to the scheduler of the call's model, which made the admission; nil:
// there is none.
func (c *Client) send(id wire.RequestID, k *call, a *admission, data []byte) {
	if a == nil {
		c.fail(id, wire.ReasonUnavailable)
		return
	}
	f, _ := c.frames.Get().(*submitFrame)
	if f == nil {
		f = new(submitFrame)
	}
	err := a.link.Send(c.appendSubmit(f[:0], id, k, data))
	c.frames.Put(f)
	switch {
	case errors.Is(err, transport.ErrFull):
		c.fail(id, wire.ReasonFull)
	case k.model.uplink.group.only == nil: // if the link is gone, whoever leads next gets it
	case err != nil || k.model.uplink.admitted.Load() != a:
		c.fail(id, wire.ReasonUnavailable) // the link is gone; if it went just now, the call is answered already
	}
}

// appendSubmit encodes the call's record.
func (c *Client) appendSubmit(dst []byte, id wire.RequestID, k *call, data []byte) []byte {
	m := wire.Submit{Request: id, Model: k.model.entry.ID, Arrival: k.arrival, Deadline: k.deadline.Add(-c.margin),
		Input: transport.SlabRef(k.slab, data, c.slabKey), Priority: k.priority, Class: k.class, Suspicion: k.grade}
	return m.Append(dst)
}

// refuse answers a request that never was in the table.
func (c *Client) refuse(m *model, name string, err *Error, done func(*Response, error)) {
	if err.Model == "" {
		err.Model = name
	}
	if m != nil {
		m.metrics.count(err)
	}
	done(nil, err)
}
