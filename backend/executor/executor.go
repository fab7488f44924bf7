package executor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/backend/rerun"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Executor is one device and its orders.
type Executor struct {
	device Device              // Immutable.
	links  Links               // Immutable: for orders that bring none.
	report Reporter            // Immutable.
	obs    Observer            // Immutable.
	memory transport.Allocator // Immutable.
	depth  int                 // Immutable: batches that the device takes at a time.
	loader *loader             // Immutable; nil: the device's models are resident.
	early  *time.Timer         // Immutable; nil: batches begin as soon as they can (Strict)

	outputs *outbound.Sender // Immutable once orders come: sends what links do not take at once

	mu        sync.Mutex // Guards what follows.
	models    []*Model   // by slot; nil: none is there
	orders    []*order   // in order of arrival; not the launched ones
	launched  []*order   // in order of Launch, at most depth; the first one runs
	launching bool       // somebody is in the loop of start
	spare     []*order   // finished ones, with their buffers
	closed    bool
	suspended bool
	held      bool       // nothing is launched: the device is its holder's
	claimed   bool       // nothing more is launched until HoldNext holds the device
	lately    mono.Time  // when the last order came
	finishing []*order   // done by the device, their outputs being sent; also some that are over
	fence     wire.Epoch // orders of one below are not taken
	latest    latest
	share     rerun.Share     // of the device's time, for suspects
	records   []*rerun.Record // by slot, of models of which batches have failed
	parted    int             // launched orders of which a part is to be launched

	troubled atomic.Bool // records is not empty
}

// order is an Order on its way.
type order struct {
	Order
	exec    *Executor
	model   *Model // as it was when the order came
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
	astray  bool // the device may yet write to the buffers

	reserved int64 // bytes that are counted as waiting for links
	unsent   int   // outputs for which there was no room there

	first     bool        // that runs with its weights
	forgotten bool        // launched, then given up; guarded by the executor's mu
	over      atomic.Bool // its outputs have been sent: only the report is to come
	parts     parts       // owned by the one goroutine that has the order: the one that prepares it, or the device's at a run's end

	mu      sync.Mutex
	dropped bool // nobody waits for its READs
	reading int  // READs under way, and one for the issuing itself
	holding int  // outputs that links still refer to, and one for the order itself
}

// New makes an executor for a device with models in its first slots. links are for orders that bring
// none of their own; nil: all do. Inputs are READ into
// buffers of memory, and outputs sent from there: the network's own (transport.BuffersOf).
func New(device Device, models []Model, links Links, memory transport.Allocator, report Reporter, obs Observer) *Executor {
	e := &Executor{device: device, links: links, memory: memory, report: report, obs: obs, depth: depthOf(device), latest: latest{at: mono.Never},
		outputs: outbound.New(0)}
	for i := range models {
		e.models = append(e.models, &models[i])
	}
	e.loader = newLoader(e, device, report)
	e.warm()
	return e
}

// warmMax bounds what warm takes for one buffer: models of inputs of any size may
// never fill theirs.
const warmMax = 4 << 20

// warm makes the buffers of the orders that there are as a rule, those that the device has
// and one that is fetched: later, registering their memory would hold up the thread that
// brings the orders. The heap's need no such thing.
func (e *Executor) warm() {
	if _, heap := e.memory.(transport.Heap); heap {
		return
	}
	in, out := 0, 0
	for _, m := range e.models {
		i, o := e.buffersOf(m)
		in, out = max(in, i), max(out, o)
	}
	for range e.depth + 1 {
		o := e.newOrder()
		o.in, o.out = e.memory.Alloc(in), e.memory.Alloc(out)
		e.spare = append(e.spare, o)
	}
}

// buffersOf are the bytes that warm makes for a model's inputs and outputs.
func (e *Executor) buffersOf(m *Model) (in, out int) {
	in, out = m.MaxBatch*m.InputMax, m.MaxBatch*m.OutputSize
	if e.depth > 1 && m.InputSize >= 0 {
		return in, out // a device that copies ahead needs its buffers pinned: they are made whole
	}
	return min(in, warmMax), min(out, warmMax)
}

// Close ends the device, once the scheduler's link has ended. What runs is finished.
// Orders that wait are forgotten without a word: with the link's end the scheduler
// queues them again, and an answer would take that from their requests.
func (e *Executor) Close() {
	e.mu.Lock()
	if e.closed = true; e.early != nil {
		e.early.Stop()
	}
	e.orders = nil
	if e.latest.timer != nil {
		e.latest.timer.Stop()
	}
	if e.loader != nil {
		e.loader.queue = nil
	}
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
	return len(e.launched) == 0 && len(e.orders) == 0
}

// FreeIn is the span until the planned end of what is under way; 0 when that
// has passed or nothing is.
func (e *Executor) FreeIn(now mono.Time) mono.Dur {
	e.mu.Lock()
	defer e.mu.Unlock()
	free := now
	for _, o := range e.launched {
		free = max(free, o.Until)
	}
	for _, o := range e.orders {
		free = max(free, o.Until)
	}
	return free.Sub(now)
}

// Submit takes an order; Items are copied.
func (e *Executor) Submit(in *Order) {
	n := len(in.Items)
	e.mu.Lock()
	if in.Epoch < e.fence { // its scheduler was overtaken while it came
		e.mu.Unlock()
		return
	}
	m := e.modelLocked(in)
	if m == nil {
		e.mu.Unlock()
		e.failed(&Failure{Cause: CauseModel, Order: in, Requests: n})
		e.refuse(in, wire.ReasonExecution)
		return
	}
	if n > m.MaxBatch {
		e.mu.Unlock()
		e.failed(&Failure{Cause: CauseBatch, Order: in, Requests: n, Got: n, Want: m.MaxBatch})
		e.refuse(in, wire.ReasonExecution)
		return
	}
	if e.closed || e.suspended {
		e.mu.Unlock()
		return
	}
	if in.Latest != mono.Never && in.Arrived > in.Latest {
		e.mu.Unlock()
		e.returnWhole(in, in.Arrived, wire.ReasonLate)
		return
	}
	waiting, late := len(e.orders)+max(0, len(e.launched)-1), (*order)(nil)
	if waiting >= ordersMax {
		late = e.takeLateLocked()
	}
	if waiting >= ordersMax && late == nil {
		e.mu.Unlock()
		e.failed(&Failure{Cause: CauseFull, Order: in, Requests: n, Got: waiting + 1, Want: ordersMax})
		e.refuse(in, wire.ReasonFull)
		return
	}
	o := e.takeSpare()
	o.mu.Lock()
	// Before it is seen in orders: its last life was ready.
	o.ready, o.holding, o.reading, o.dropped = 0, 0, 1, false
	o.mu.Unlock()
	o.forgotten, o.parts.on, o.unsent = false, false, 0
	o.over.Store(false)
	items := append(o.Items[:0], in.Items...)
	o.Order, o.model = *in, m
	o.Items = items
	e.orders = append(e.orders, o)
	e.lately = o.Arrived
	e.awaitLocked(o.Latest)
	e.mu.Unlock()
	if late != nil {
		e.refuse(&late.Order, wire.ReasonDeadline)
		late.forget()
	}
	o.fetch(m)
}

// takeLateLocked takes an order out that is too late to be run; nil: there is none. On a
// device that hangs the scheduler has given it up, and tries the device again: refused, new
// orders would fail at once, one after the other, and the device seem free. Caller holds mu.
func (e *Executor) takeLateLocked() *order {
	now := mono.Now()
	i := slices.IndexFunc(e.orders, func(o *order) bool {
		return !slices.ContainsFunc(o.Items, func(it wire.BatchItem) bool { return it.Deadline >= now })
	})
	if i < 0 {
		return nil
	}
	late := e.orders[i]
	e.orders = slices.Delete(e.orders, i, i+1)
	return late
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
	l := e.linksOf(o).Link(it.Frontend)
	if l == nil {
		e.unreached(o)
		return
	}
	m := answerOf(it, o, reason)
	e.reason(l, &m, it, o.ModelIndex)
}

func answerOf(it *wire.BatchItem, o *Order, reason wire.Reason) wire.Output {
	return wire.Output{Request: it.Request, Reason: reason, BatchSize: uint16(len(o.Items)), Device: o.GPU, Start: mono.Now(), Epoch: o.Epoch, Batch: o.Batch.Batch,
		Model: o.Model}
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
	if e.obs.Unreached != nil && o.ModelIndex >= 0 {
		e.obs.Unreached(o.ModelIndex)
	}
}

// start launches orders whose inputs are there, the first one first, while the device takes
// more. One goroutine at a time launches, so that the device gets them in the order of
// launched; another one that comes leaves its order to that one, which looks again.
func (e *Executor) start() {
	e.mu.Lock()
	if e.launching {
		e.mu.Unlock()
		return
	}
	e.launching = true
	for {
		if o := e.partLocked(); o != nil {
			e.launchPartLocked(o)
			continue
		}
		o, why := e.nextLocked()
		if o == nil {
			e.launching = false
			e.mu.Unlock()
			return
		}
		if why != wire.ReasonNone {
			e.mu.Unlock()
			e.returnWhole(&o.Order, o.ready, why)
			o.recycle()
			e.mu.Lock()
			continue
		}
		if o.first = false; e.loader != nil {
			o.first = e.loader.useLocked(o.ModelIndex)
		}
		e.launched = append(e.launched, o)
		if e.obs.Begins != nil {
			e.obs.Begins(&o.Order)
		}
		e.mu.Unlock()
		runs := o.prepare(o.model)
		if runs {
			e.device.Launch(&o.batch)
		}
		e.mu.Lock()
		if !runs {
			e.launching = false
			e.mu.Unlock()
			now := mono.Now()
			o.finish(now, now, nil) // nothing is left to run; it starts the next
			return
		}
	}
}

// launchPartLocked launches the next part of an order, without mu, which its caller holds.
func (e *Executor) launchPartLocked(o *order) {
	ends := o.forgotten || e.closed
	e.mu.Unlock()
	if ends {
		now := mono.Now()
		o.finish(now, now, nil)
	} else {
		e.device.Launch(&o.batch)
	}
	e.mu.Lock()
}

// nextLocked takes the first order whose inputs and weights are there, and on a strict device whose time has come, or one that
// cannot be begun, and says why; nil when there is none, or the device has enough. Caller holds mu.
func (e *Executor) nextLocked() (*order, wire.Reason) {
	if len(e.launched) >= e.depth || e.closed || e.held || e.claimed {
		return nil, wire.ReasonNone
	}
	now, wake := mono.Now(), mono.Never
	for i, o := range e.orders {
		if !o.isReady() {
			continue
		}
		why, waits := e.verdictLocked(&o.Order)
		if !waits && why == wire.ReasonNone {
			waits, wake = e.tooEarlyLocked(o, now, wake)
		}
		if !waits {
			e.orders = append(e.orders[:i], e.orders[i+1:]...)
			return o, why
		}
	}
	e.wakeLocked(now, wake)
	return nil, wire.ReasonNone
}

// ended takes a launched order out, and tells whether it still counts, and whether the weights that it ran with
// went meanwhile.
func (e *Executor) ended(o *order) (counts, chilled bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.launched, o); i >= 0 {
		e.launched = slices.Delete(e.launched, i, i+1)
		if e.obs.Ends != nil {
			e.obs.Ends(&o.Order)
		}
	}
	if o.forgotten {
		return false, false
	}
	e.finishing = append(e.finishing, o)
	return true, e.chilledLocked(&o.Order)
}
