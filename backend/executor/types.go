package executor

import (
	"errors"
	"sync/atomic"

	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ordersMax bounds the orders that wait at a device while one runs, also those that a
// Pipelined one has been given ahead. The scheduler sends one ahead; the others are room for
// orders that crossed a report.
const ordersMax = 3

// Batch is what a device executes. Item i's input lies in Inputs[i], its
// output goes to Outputs[i]. Where all inputs have the model's fixed size they
// lie back to back in Input, and so do the outputs in Output.
type Batch struct {
	Model   int // its slot in the device
	Size    int
	Input   []byte
	Inputs  [][]byte
	Output  []byte
	Outputs [][]byte
	// Finish is called exactly once by the device, from any goroutine.
	Finish func(start, end mono.Time, err error)
}

// Device executes one batch at a time. Launch does not block, and is not called twice at a
// time; the executor launches the next batch only after Finish.
type Device interface {
	Launch(b *Batch)
	Close()
}

// Pipelined is a Device that is given batches ahead: while one executes it copies the inputs
// of the next. It executes them one at a time, in the order of Launch, and may finish them
// all at once. The Batch that it was given is not to be touched after its Finish.
type Pipelined interface {
	Device
	// Depth is how many batches it takes at a time, the running one included: always the same.
	Depth() int
}

func depthOf(d Device) int {
	if p, ok := d.(Pipelined); ok {
		return max(1, p.Depth())
	}
	return 1
}

// ErrLost is the error of batches of a device that can be used no more: others may run them.
var ErrLost = errors.New("the device is lost")

// ErrAstray is the error of batches that a device has given up but could not stop: it may
// yet read and write their buffers, which are therefore lost.
var ErrAstray = errors.New("the device may still use its buffers")

// Model is what the executor must know of a model.
type Model struct {
	InputSize  int // bytes of an item's input; -1: varies
	InputMax   int // most bytes of an item's input
	OutputSize int // bytes of an item's output
	MaxBatch   int
	Pages      int // that its weights take of a paged device

	Exchange *atomic.Uint32 // wire.OutputFlags of its outputs, while its files are exchanged; nil: they never are
}

// Links finds the data link to a frontend.
type Links interface {
	// Link is nil when there is none now.
	Link(id wire.FrontendID) transport.Link
	// AwaitFirst calls then once, from any goroutine: with the link when it comes
	// up within d, or with nil. It waits only for a frontend's first link, and only
	// while the frontend is new.
	AwaitFirst(id wire.FrontendID, d mono.Dur, then func(transport.Link))
}

// Order is a batch order as it came from the scheduler.
type Order struct {
	wire.Batch
	ModelIndex int    // the model's slot
	Meant      *Model // the one that is meant; nil: whatever has the slot
	Arrived    mono.Time
	Links      Links // to the frontends, by the ids of who ordered; nil: those of the executor
}

// Reporter takes the report of an order.
type Reporter interface {
	Report(d *wire.Done)
}

// Observer is told what happened, for metrics; all fields may be nil.
type Observer struct {
	Ran   func(gpu wire.GPUID, model, size int, fetch, execute mono.Dur)
	Stale func(model int)
	// Unreached: an answer for which there was no data link; its frontend answers
	// "expired" by itself, or is gone.
	// The order's model may be one that is not here.
	Unreached func(model int)
	// Lost: outputs, or reasons in their place, that waited for their link and were given up.
	Lost func(o *outbound.Output, c outbound.Cause)
	// Failed: requests that were not executed although they could be read and were in time.
	Failed func(f *Failure)
	// Parted: a batch ran in several parts, as a run of it failed, or it had suspects beside others.
	Parted func(p *Parted)
	// Returned: an order was given back to the scheduler whole, and why (late, cold).
	Returned func(o *Order, why wire.Reason)
	// Loaded: a load was reported; LoadFailed: the device failed at one.
	Loaded     func(l *wire.Loaded)
	LoadFailed func(o *LoadOrder, err error)
	// Begins and Ends: the device is given a batch, and is done with it. Called under the executor's lock, in the
	// order in which it is so: they must not call the executor.
	Begins, Ends func(o *Order)
}

// Cause is why requests failed.
type Cause uint8

// The causes of a Failure.
const (
	CauseDevice   Cause = iota // the device could not run the batch: Err
	CauseModel                 // the order is for a model that is not here
	CauseBatch                 // the order has more requests (Got) than a batch of the model takes (Want)
	CauseInput                 // an input has another size (Got) than the model's (Want)
	CauseFull                  // more orders than wait at a device
	CauseUnsent                // its outputs, beside those that wait for links, are more bytes (Got) than may wait (Want)
	CauseIsolated              // suspects, for which there was no time beside others
)

// String is the cause as a metric's label.
func (c Cause) String() string {
	return [...]string{"device", "unknown_model", "batch_size", "input_size", "full", "unsent", "isolated"}[c]
}

// Failure is one order's requests that failed for one cause; valid during the call.
type Failure struct {
	Cause     Cause
	Order     *Order          // its ModelIndex may be of no model
	Requests  int             // how many of it
	First     *wire.BatchItem // one of them; nil: none is named
	Got, Want int
	Err       error
}
