package lead

import (
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Effects are to be carried out, in any order but that of Orders. The instants of what is to
// be stored are left to the caller; Next of an Observation is one of the core's clock.
type Effects struct {
	Orders   []catalog.Order
	Task     *Task
	Observed []schema.Observation
	Gone     []schema.Observation // of versions that nobody wants or has any more
	Heads    []schema.Plan        // plans whose state has changed
	Parts    []schema.SubCluster  // of the new one among them
	Measured []schema.Measured
	Notes    []string // for the log
}

// Reset empties them.
func (e *Effects) Reset() { *e = Effects{} }
