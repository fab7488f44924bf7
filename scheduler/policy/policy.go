package policy

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Config of a Scheduler.
type Config struct {
	Delay       batching.Delay // bound of the network's delay: an order for b requests reaches its GPU within Delay.Of(b)
	RequestsMax int            // requests queued or running at a time
	Frontends   int            // request.Frontend is below it; 0 means 1
	Seed        uint64         // of the draws of policies that draw
	Pages       int            // of each GPU for weights (loads.go); 0: every model is resident on every GPU
}

// Model is one model to serve.
type Model struct {
	Profile *profile.Profile
	SLO     mono.Dur // of its requests; each brings its own deadline
	// Rate is what the operator expects, in requests/s: policies that plan ahead
	// (Nexus) begin with it; the others find out for themselves.
	Rate  float64
	Bytes int             // of an item's inputs (batching.Config.Bytes)
	Drop  batching.Policy // of deferred schedulers: what the model is configured for
	// Where GPUs have pages: those that its weights take, and how long they take to copy.
	Pages    int
	LoadTime mono.Dur
}

// Dispatch is a batch for a GPU. Requests is valid until the Out is reset.
type Dispatch struct {
	Batch    wire.BatchID
	Model    wire.ModelID
	GPU      wire.GPUID
	Exec     mono.Time // planned start
	Until    mono.Time // planned end
	Due      mono.Time // when its order had left if no timer were late; 0: not told
	Requests []batching.Request
}

// Preempt ends a batch that runs: its work is lost. The scheduler has put its
// requests back into their queue already.
type Preempt struct {
	Batch wire.BatchID
	GPU   wire.GPUID
}

// Out collects the effects of calls; the caller empties it.
type Out struct {
	Drops      []batching.Drop
	Preempts   []Preempt // happen before the dispatches of the same Out
	Unloads    []Unload  // happen before the loads, and after the preempts
	Loads      []Load    // happen before the dispatches
	Dispatches []Dispatch
	requests   []batching.Request // backs Dispatches
}

// AddDispatch appends d with a copy of its requests.
func (o *Out) AddDispatch(d Dispatch) {
	from := len(o.requests)
	o.requests = append(o.requests, d.Requests...)
	d.Requests = o.requests[from:len(o.requests):len(o.requests)]
	o.Dispatches = append(o.Dispatches, d)
}

// Drop appends the drop of a request.
func (o *Out) Drop(r batching.Request, reason wire.Reason) {
	o.Drops = append(o.Drops, batching.Drop{Request: r, Reason: reason})
}

// Admit reports whether a request may come in, of those that are open and with so many GPUs. One that may
// not is dropped, with the reason.
func (c *Config) Admit(r batching.Request, known bool, gpus, open int, out *Out) bool {
	switch {
	case !known:
		out.Drop(r, wire.ReasonUnknownModel)
	case gpus == 0:
		out.Drop(r, wire.ReasonUnavailable)
	case open >= c.RequestsMax:
		out.Drop(r, wire.ReasonFull)
	default:
		return true
	}
	return false
}

// Reset empties the Out and keeps its memory.
func (o *Out) Reset() {
	o.Drops, o.Preempts, o.Dispatches = o.Drops[:0], o.Preempts[:0], o.Dispatches[:0]
	o.Unloads, o.Loads = o.Unloads[:0], o.Loads[:0]
	o.requests = o.requests[:0]
}

// Empty tells whether there is no effect.
func (o *Out) Empty() bool {
	return len(o.Drops)+len(o.Preempts)+len(o.Unloads)+len(o.Loads)+len(o.Dispatches) == 0
}

// Measured is a Scheduler that plans with what is measured while it runs.
type Measured interface {
	// SetDelay replaces Config.Delay.
	SetDelay(now mono.Time, d batching.Delay, out *Out)
}

// Scheduler decides which batch runs when and where. doc.go has its rules.
type Scheduler interface {
	// AddModel begins to serve a model; ids are dense. Call it before Submit.
	AddModel(id wire.ModelID, m Model)
	// AddGPU begins the life of a GPU that is free now; ids are dense.
	AddGPU(now mono.Time, id wire.GPUID, out *Out)
	// RemoveGPU ends it: the requests of batches there are queued again, or
	// dropped as backend_lost when too little time is left.
	RemoveGPU(now mono.Time, id wire.GPUID, out *Out)
	// Submit hands in a request.
	Submit(now mono.Time, id wire.ModelID, r batching.Request, out *Out)
	// Done reports the end of a batch, at an instant up to now; ids that do not
	// run (preempted, lost) are ignored.
	Done(now mono.Time, batch wire.BatchID, end mono.Time, out *Out)
	// Step does all that is due at now.
	Step(now mono.Time, out *Out)
	// NextWake is when Step is due; Never when nothing is planned.
	NextWake() mono.Time
}
