package policy

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// LoadID names a load: a serial number of the scheduler's, above 0.
type LoadID uint64

// Load is an order to copy a model's weights into pages of a GPU. A GPU carries out its
// loads in the order in which they were sent, one at a time; its batches run meanwhile.
type Load struct {
	ID    LoadID
	Model wire.ModelID
	GPU   wire.GPUID
	Until mono.Time // planned end
	// Latest is when copying begins at the latest: the GPU refuses it later. Never: it does not.
	Latest mono.Time
}

// LoadReport tells what became of a load. Not OK: the GPU had no pages for it or could not
// begin in time; the model is not there.
type LoadReport struct {
	ID         LoadID
	Start, End mono.Time // of the copying
	OK         bool
}

// Unload gives a model's pages on a GPU back, at once: only the table of what is there
// changes, no byte moves.
type Unload struct {
	Model wire.ModelID
	GPU   wire.GPUID
}

// Loader is a Scheduler that loads models. One that is not has every model on every GPU,
// and is not asked to serve GPUs that have pages (Config.Pages).
type Loader interface {
	Scheduler
	// AddGPUWith is AddGPU of a GPU that holds models already, least recently used first. What
	// the scheduler has no use for there it unloads.
	AddGPUWith(now mono.Time, id wire.GPUID, held []wire.ModelID, out *Out)
	// Loaded reports the end of a load, at an instant up to now. Loads of a GPU that is
	// gone are not reported; ids that are not under way are ignored.
	Loaded(now mono.Time, r LoadReport, out *Out)
}

// Timed is a Scheduler that learns how long batches take.
type Timed interface {
	// Took tells how long a batch ran on its GPU, before Done tells of its end.
	Took(batch wire.BatchID, d mono.Dur)
}
