package executor

import (
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Executor is one device and its orders.
type Executor struct {
	device Device              // Immutable.
	models []Model             // Immutable.
	links  Links               // Immutable.
	report Reporter            // Immutable.
	obs    Observer            // Immutable.
	memory transport.Allocator // Immutable.

	mu      sync.Mutex // Guards what follows.
	orders  []*order   // in order of arrival; not the running one
	running *order
	spare   []*order // finished ones, with their buffers
	closed  bool
}

// order is an Order on its way.
type order struct {
	Order
	exec    *Executor
	batch   Batch
	in, out []byte               // buffers, grown as needed
	ops     []transport.ReadOp   // scratch
	done    func(uint64, error)  // readDone, bound once
	sent    func()               // release, likewise
	reasons []wire.Reason        // by item
	refused []bool               // by item: not to be READ at all; owned by fetch
	ready   mono.Time            // 0: inputs are still being fetched
	index   []int                // batch position -> item
	frame   []byte               // scratch
	flush   []transport.Gatherer // scratch
	report  wire.Done

	mu      sync.Mutex
	reading int // READs under way, and one for the issuing itself
	holding int // outputs that links still refer to, and one for the order itself
}

// New makes an executor for a device. Inputs are READ into buffers of memory, and
// outputs sent from there: the network's own (transport.BuffersOf).
func New(device Device, models []Model, links Links, memory transport.Allocator, report Reporter, obs Observer) *Executor {
	e := &Executor{device: device, models: models, links: links, memory: memory, report: report, obs: obs}
	e.warm()
	return e
}

// warmMax bounds what warm takes for one buffer: models of inputs of any size may
// never fill theirs.
const warmMax = 4 << 20

// warm makes the buffers of the orders that there are as a rule, one that runs and one
// that is fetched: later, registering their memory would hold up the thread that
// brings the orders. The heap's need no such thing.
func (e *Executor) warm() {
	if _, heap := e.memory.(transport.Heap); heap {
		return
	}
	in, out := 0, 0
	for i := range e.models {
		m := &e.models[i]
		in, out = max(in, m.MaxBatch*m.InputMax), max(out, m.MaxBatch*m.OutputSize)
	}
	for range 2 {
		o := e.newOrder()
		o.in, o.out = e.memory.Alloc(min(in, warmMax)), e.memory.Alloc(min(out, warmMax))
		e.spare = append(e.spare, o)
	}
}

// Close ends the device, once the scheduler's link has ended. What runs is finished.
// Orders that wait are forgotten without a word: with the link's end the scheduler
// queues them again, and an answer would take that from their requests.
func (e *Executor) Close() {
	e.mu.Lock()
	e.closed = true
	e.orders = nil
	spare := e.spare
	e.spare = nil
	e.mu.Unlock()
	for _, o := range spare {
		o.free()
	}
	e.device.Close()
}

// Idle reports whether nothing is under way.
func (e *Executor) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running == nil && len(e.orders) == 0
}

// FreeIn is the span until the planned end of what is under way; 0 when that
// has passed or nothing is.
func (e *Executor) FreeIn(now mono.Time) mono.Dur {
	e.mu.Lock()
	defer e.mu.Unlock()
	free := now
	if e.running != nil {
		free = max(free, e.running.Until)
	}
	for _, o := range e.orders {
		free = max(free, o.Until)
	}
	return free.Sub(now)
}

// Submit takes an order; Items are copied.
func (e *Executor) Submit(in *Order) {
	n := len(in.Items)
	if in.ModelIndex < 0 || in.ModelIndex >= len(e.models) {
		e.failed(&Failure{Cause: CauseModel, Order: in, Requests: n})
		e.refuse(in, wire.ReasonExecution)
		return
	}
	if most := e.models[in.ModelIndex].MaxBatch; n > most {
		e.failed(&Failure{Cause: CauseBatch, Order: in, Requests: n, Got: n, Want: most})
		e.refuse(in, wire.ReasonExecution)
		return
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	if waiting := len(e.orders); waiting >= ordersMax {
		e.mu.Unlock()
		e.failed(&Failure{Cause: CauseFull, Order: in, Requests: n, Got: waiting + 1, Want: ordersMax})
		e.refuse(in, wire.ReasonFull)
		return
	}
	o := e.takeSpare()
	o.mu.Lock()
	o.ready, o.holding = 0, 0 // before it is seen in orders: its last life was ready
	o.mu.Unlock()
	items := append(o.Items[:0], in.Items...)
	o.Order = *in
	o.Items = items
	e.orders = append(e.orders, o)
	e.mu.Unlock()
	o.fetch(&e.models[in.ModelIndex])
}

func (e *Executor) takeSpare() *order {
	if n := len(e.spare); n > 0 {
		o := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return o
	}
	return e.newOrder()
}

func (e *Executor) newOrder() *order {
	o := &order{exec: e}
	o.done, o.sent = o.readDone, o.release
	o.batch.Finish = o.finish
	return o
}

// refuse answers an order that is not run at all.
func (e *Executor) refuse(o *Order, reason wire.Reason) {
	for i := range o.Items {
		e.answer(&o.Items[i], o, reason)
	}
	now := mono.Now()
	e.report.Report(&wire.Done{Epoch: o.Epoch, Batch: o.Batch.Batch, Ready: now, Start: now, End: now,
		Failed: uint16(len(o.Items)), Reason: reason})
}

// answer sends a reason in place of an output.
func (e *Executor) answer(it *wire.BatchItem, o *Order, reason wire.Reason) {
	l := e.links.Link(it.Frontend)
	if l == nil {
		e.unreached(o)
		return
	}
	m := wire.Output{Request: it.Request, Reason: reason, BatchSize: uint16(len(o.Items)), Device: o.GPU, Start: mono.Now()}
	_ = l.Send(m.Append(nil, 0)) // the frontend answers "expired" by itself if this is lost
}

// failed tells of requests that are answered with a reason that says no more than that
// they failed: what happened is told here.
func (e *Executor) failed(f *Failure) {
	if e.obs.Failed != nil {
		e.obs.Failed(f)
	}
}

// unreached counts an answer that has no link to go by; the order's model may be
// one that does not exist.
func (e *Executor) unreached(o *Order) {
	if e.obs.Unreached != nil && o.ModelIndex >= 0 && o.ModelIndex < len(e.models) {
		e.obs.Unreached(o.ModelIndex)
	}
}

// start launches the first order whose inputs are there, if the device is
// free.
func (e *Executor) start() {
	for {
		e.mu.Lock()
		if e.running != nil || e.closed {
			e.mu.Unlock()
			return
		}
		var o *order
		for i, c := range e.orders {
			if c.isReady() {
				o = c
				e.orders = append(e.orders[:i], e.orders[i+1:]...)
				break
			}
		}
		e.running = o
		e.mu.Unlock()
		if o == nil {
			return
		}
		if o.prepare(&e.models[o.ModelIndex]) {
			e.device.Launch(&o.batch)
			return
		}
		now := mono.Now()
		o.finish(now, now, nil) // nothing is left to run
		return
	}
}
