package engine

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Loader is what the Sink of a paged engine is as well. Its methods are called on the rank loop's thread
// and must not block.
type Loader interface {
	// Load sends an order to a GPU's loader; what o points to is valid until it returns. Orders for a
	// GPU arrive there in this order.
	Load(o *LoadOrder)
	// FlushLoads ends the rank loop's turn: what Load gathered may leave.
	FlushLoads()
}

// LoadOrder orders a GPU to copy a model's weights into pages that are free, or to forget them; of wire.ModelNone to forget those
// of a generation, or with generation 0 all, whose model has no id.
type LoadOrder struct {
	ID         residency.LoadID // which Loaded brings back; 0: forget them, at once
	Model      wire.ModelID
	GPU        wire.GPUID
	Life       rank.Life
	Generation residency.Generation
	Pages      int       // that the weights take; of those to forget 0
	Copies     int       // GPUs that hold the model, this one included
	Earliest   mono.Time // may begin
	Start      mono.Time // planned: when the loads before it are done
	Latest     mono.Time // it is void if it has not begun by then
	Until      mono.Time // planned end
}

// AddPagedModel is AddModel in a paged engine: weights are what it takes to have the model on a GPU.
func (e *Engine) AddPagedModel(id wire.ModelID, cfg batching.Config, weights residency.Model) error {
	if weights.Pages <= 0 || weights.LoadTime <= 0 {
		return fmt.Errorf("model %d has %d pages of weights that load in %v: both must be above 0", id, weights.Pages, weights.LoadTime)
	}
	return e.addModel(id, cfg, &weights)
}

// AddPagedGPU is AddGPU in a paged engine, which must run: the GPU has so many pages for weights, and holds these, the least
// recently used first; of wire.ModelNone where they have no id. What it cannot hold or is not served here it is ordered to forget.
func (e *Engine) AddPagedGPU(id wire.GPUID, freeAt mono.Time, pages int, held []residency.Weights) (GPU, error) {
	if pages <= 0 {
		return GPU{}, fmt.Errorf("GPU %d has %d pages for weights: must be above 0", id, pages)
	}
	return e.addGPU(id, freeAt, &pagingEvent{pages: pages, held: held})
}

// LoadReport is a loader's report of an order, from a GPU in that life, whoever ordered it. It names the order whole: numbers alone
// would be enough between engines of one kind (residency.Config.Serial), and a device may say what it likes.
type LoadReport struct {
	residency.Report
	GPU        GPU
	Model      wire.ModelID
	Generation residency.Generation
}

// Loaded hands in a loader's report, after AddPagedGPU of that life has returned. If the load is not under way here, for it was
// ordered by another engine or in an earlier life of the GPU, and has brought weights that nobody counts on, the GPU is ordered to
// forget them. Of a life that has ended it tells nothing: who begins the next one knows what is there. It waits for room as orders do.
func (e *Engine) Loaded(r LoadReport) {
	if e.cfg.Paged != nil && r.ID != 0 {
		e.orderRank(&rankEvent{op: rankLoaded, model: r.Model, gpu: r.GPU, generation: uint32(r.Generation), paging: &pagingEvent{report: r.Report}})
	}
}

// kindOf says whether what is added is for an engine of this kind.
func (e *Engine) kindOf(paged bool, what string) error {
	switch {
	case paged && e.cfg.Paged == nil:
		return fmt.Errorf("%s is for a paged engine, and this one's models are on all of its GPUs", what)
	case !paged && e.cfg.Paged != nil:
		return fmt.Errorf("%s has no pages, and this engine's models come and go by pages", what)
	}
	return nil
}

// pagingEvent is what a rankEvent has beside, in a paged engine: of what is as rare as loads and membership.
type pagingEvent struct {
	weights residency.Model     // rankModel
	pages   int                 // rankAdd
	held    []residency.Weights // rankAdd; read only
	report  residency.Report    // rankLoaded
}
