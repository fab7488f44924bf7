package residency

import (
	"github.com/symphony-serving/symphony/scheduler/estimate"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Residency is the memory of the GPUs of one sub-cluster.
type Residency struct{ cfg Config }

// New makes a Residency without models or GPUs.
func New(cfg Config) *Residency { panic("api") }

// AddModel begins with a model, or replaces what is known of it: it is absent everywhere. Call it before
// the model's id is used otherwise.
func (r *Residency) AddModel(id wire.ModelID, m Model) { panic("api") }

// RemoveModel ends a model: its demand is gone, and so are its weights as soon as nobody uses them.
func (r *Residency) RemoveModel(now mono.Time, id wire.ModelID, out *Out) { panic("api") }

// AddGPU begins a life of a GPU that has so many pages and holds these models, least recently used first, as
// its backend tells. They are Placed, of the generation that is returned (tell the backend); what does not fit
// or is not known is Unloaded.
func (r *Residency) AddGPU(now mono.Time, id wire.GPUID, pages int, held []wire.ModelID, out *Out) Generation {
	panic("api")
}

// RemoveGPU ends it: all its models are Displaced, its loads forgotten.
func (r *Residency) RemoveGPU(now mono.Time, id wire.GPUID, out *Out) { panic("api") }

// Arrive tells of a request (or one that is queued again): the GPU time it takes, and the latest
// instant at which a batch of it alone could start in time, d - l(1).
func (r *Residency) Arrive(now mono.Time, id wire.ModelID, work mono.Dur, latest mono.Time) { panic("api") }

// Doomed tells that the model's first n requests, by latest start, no longer wait, and were not begun: they were
// dropped, for whatever reason.
func (r *Residency) Doomed(now mono.Time, id wire.ModelID, n int) { panic("api") }

// Hold keeps the model on the GPU until Release: a grant is under way. It is the model's generation
// there; 0, and nothing is held, if the model is neither there nor loading.
func (r *Residency) Hold(id wire.ModelID, gpu wire.GPUID) Generation { panic("api") }

// Release ends a Hold; one of another generation is ignored.
func (r *Residency) Release(now mono.Time, id wire.ModelID, gpu wire.GPUID, gen Generation) { panic("api") }

// Began tells that a batch of the model's first n requests was sent to the GPU: they wait no longer, and
// the model is used there until Ended. It is the generation that the batch is to carry; 0, and only the
// requests are taken, if the model is neither there nor loading.
func (r *Residency) Began(now mono.Time, id wire.ModelID, gpu wire.GPUID, n int) Generation { panic("api") }

// Ended tells that such a batch is done, refused or lost; one of another generation is ignored.
// Requests of it that wait again Arrive.
func (r *Residency) Ended(now mono.Time, id wire.ModelID, gpu wire.GPUID, gen Generation) { panic("api") }

// Loaded takes a loader's report; false: of a load that is not under way (any more).
func (r *Residency) Loaded(now mono.Time, rep Report, out *Out) bool { panic("api") }

// Step does what is due: loads, unloads, floors.
func (r *Residency) Step(now mono.Time, out *Out) { panic("api") }

// NextWake is when Step is due if nothing is told before; Never when nothing is.
func (r *Residency) NextWake() mono.Time { panic("api") }

// Holders appends the GPUs that have the model or are loading it, smallest id first.
func (r *Residency) Holders(id wire.ModelID, dst []Holder) []Holder { panic("api") }

// Held is the model's place on the GPU.
func (r *Residency) Held(id wire.ModelID, gpu wire.GPUID) (Holder, bool) { panic("api") }

// Demand is d, the work of the model's requests that wait, and how many they are.
func (r *Residency) Demand(id wire.ModelID) (mono.Dur, int) { panic("api") }

// Share is a, the part of the demand that is the GPU's.
func (r *Residency) Share(id wire.ModelID, gpu wire.GPUID) mono.Dur { panic("api") }

// LoadOf is l of the GPU.
func (r *Residency) LoadOf(gpu wire.GPUID) mono.Dur { panic("api") }

// Priority is p of the model as of now.
func (r *Residency) Priority(now mono.Time, id wire.ModelID) mono.Dur { panic("api") }

// Pages are the GPU's pages, and how many of them are free.
func (r *Residency) Pages(gpu wire.GPUID) (free, all int) { panic("api") }

// LoadTime is how long a load of the model is planned to take: p99 of the last ones.
func (r *Residency) LoadTime(id wire.ModelID) mono.Dur { panic("api") }

// Errors is how far loads ended from their planned ends.
func (r *Residency) Errors() *estimate.Errors { panic("api") }

// Counts are what was done since New.
func (r *Residency) Counts() Counts { panic("api") }

// Counts of a Residency.
type Counts struct {
	Loads, Unloads, Failed, Lost, Floors uint64
}
