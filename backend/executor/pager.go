package executor

import (
	"errors"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Pager is a Device whose models' weights come and go, beside what runs, by the scheduler's orders. Its
// executor counts its pages, and has it load no more than it has.
type Pager interface {
	Device
	// Pages are all that it has for weights; 0: its models are resident, and the rest is not called.
	Pages() int
	// Load brings the weights of a slot's model, one at a time. It does not block; done is called exactly once, from
	// any goroutine, or never once the device is closed.
	Load(slot int, done func(Copied))
	// Unload forgets them: nothing of the slot runs. It does not block either, and cannot fail; done is
	// called when their memory is free.
	Unload(slot int, done func())
}

// Copied is what came of a Pager's Load.
type Copied struct {
	Start, End mono.Time
	Bytes      int64
	Err        error
}

// ErrMemory is the error of a load for which the device has no memory, whatever the pages say.
var ErrMemory = errors.New("the device has no memory for the model's weights")

// LoadOrder is an order to a device's loader as it came from the scheduler.
type LoadOrder struct {
	wire.Load
	ModelIndex int    // the model's slot; -1: it is not here
	Meant      *Model // the one that is meant; nil: whatever has the slot
}

// LoadReporter takes the report of a load; the Reporter of a Pager's executor must be one.
type LoadReporter interface {
	Loaded(l *wire.Loaded)
}

// Weights are a model's on a device.
type Weights struct {
	Slot       int
	Generation wire.Generation
}
