package rank

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What is shared with the matchmaker of paged pools.
type (
	// Life numbers the lives of a GPU.
	Life = devices.Life
	// Grant says: a model may use a GPU.
	Grant = devices.Grant
	// Answer is a model's reply to a grant.
	Answer = devices.Answer
)

// Out collects the effects of a call; the caller empties it.
type Out struct {
	Grants []Grant
	Fills  []gaps.Grant // best effort: whom a GPU is lent
}

// Config of a Rank.
type Config struct {
	// Outstanding is how many undone batches a GPU may have, 1 to 4; 0 means 2.
	Outstanding int
	// ByLatest gives no head starts: a GPU goes to the ready candidate with the
	// least latest, as Algorithm 1 has it.
	ByLatest bool
	// Headroom bounds which GPUs may take early batches.
	Headroom Headroom
}

// model is one model's candidate and where it stands.
type model struct {
	candidate batching.Candidate
	granting  bool // a grant is under way: candidates wait for its answer
	gone      bool // it was removed meanwhile, and goes with the answer
	held      bool // its candidate is early: only GPUs that are kept may take it
	usage     devices.Usage
	slack     mono.Dur // by the last answer; 0: not known
	each      mono.Dur // likewise
}

// Rank is the matchmaker of one sub-cluster.
type Rank struct {
	cfg    Config
	models []*model // by id; nil: nothing is known of it. Ids are sparse: a cluster has more than a Rank
	timers pq.Heap  // model -> exec - delay
	ready  pq.Heap  // model -> its key (cheap.go)
	early  pq.Heap  // likewise: those whose time has come only for the GPUs that are kept
	long   pq.Heap  // likewise: those of models that leave room for others (room.go)
	room   room
	cheap  bool // see SetCheap
	rekey  bool // likewise: keys are to be reckoned anew
	gpus   devices.Table
	kept   uint32 // GPUs with ids below it may take early batches; of the last Step
	fill   fill
}

// New makes a Rank without models or GPUs.
func New(cfg Config) *Rank {
	gpus := devices.New(devices.Config{Outstanding: cfg.Outstanding, ByLatest: cfg.ByLatest})
	return &Rank{cfg: cfg, gpus: gpus, kept: math.MaxUint32, room: room{below: math.MaxUint32}}
}

// SetByLatest tells whether candidates get no head starts, from the next one on.
func (r *Rank) SetByLatest(on bool) { r.gpus.SetByLatest(on) }

// GPUs is the number of GPUs present.
func (r *Rank) GPUs() int { return r.gpus.Count() }

// SetCandidate replaces the model's candidate; Size 0 takes it away. While a
// grant to the model is under way the call is void: the candidate was formed
// before the model knew of the grant. (inform_candidate)
func (r *Rank) SetCandidate(id wire.ModelID, c batching.Candidate) {
	m := r.model(id)
	m.gone = false
	if m.granting {
		return
	}
	m.candidate, m.held = c, c.Hold > 0
	r.ready.Remove(uint32(id))
	if r.early.Len() > 0 {
		r.early.Remove(uint32(id))
	}
	if r.long.Len() > 0 {
		r.long.Remove(uint32(id))
	}
	if c.Size == 0 {
		r.timers.Remove(uint32(id))
		return
	}
	r.timers.Set(uint32(id), int64(c.Exec.Add(-c.Delay)))
}

// model is the model's row; it begins with the first candidate.
func (r *Rank) model(id wire.ModelID) *model {
	for int(id) >= len(r.models) {
		r.models = append(r.models, nil)
	}
	if r.models[id] == nil {
		r.models[id] = &model{}
	}
	return r.models[id]
}

// RemoveModel forgets a model; where a grant to it is under way, once that is answered. Nothing
// needs it: what is known of a model that says nothing costs memory, no more.
func (r *Rank) RemoveModel(id wire.ModelID) {
	r.fill.Forget(id)
	if int(id) >= len(r.models) || r.models[id] == nil {
		return
	}
	r.SetCandidate(id, batching.Candidate{})
	m := r.models[id]
	if m.gone = true; m.granting {
		return
	}
	r.gpus.Forget(&m.usage)
	r.models[id] = nil
}

// AddGPU begins a new life of a GPU that is free from freeAt on.
func (r *Rank) AddGPU(id wire.GPUID, freeAt mono.Time) Life {
	r.room.span = 0
	r.fill.Lost(id)
	return r.gpus.Add(id, freeAt)
}

// RemoveGPU ends a GPU's life. An answer to a grant under way, and reports of
// its batches, are ignored later.
func (r *Rank) RemoveGPU(id wire.GPUID) {
	if r.gpus.Present(id) {
		r.room.span = 0
		r.gpus.Remove(id)
		r.fill.Lost(id)
	}
}

// Answer takes a model's reply to a grant: the GPU is busy until then, and the
// model may be granted again. (inform_gpu)
func (r *Rank) Answer(a Answer) {
	m := r.models[a.Grant.Model]
	m.granting = false
	if r.gpus.Answer(&a, &m.usage) && a.Batch != 0 {
		m.slack, m.each = a.Slack, a.Each
		r.fill.Ran(a.Exec, a.Slack)
	}
	if m.gone {
		r.RemoveModel(a.Grant.Model)
	}
}

// Done takes a backend's report: the batch ended at end, early or late. The
// batch queued behind it, if any, starts at its planned time or at end.
func (r *Rank) Done(id wire.GPUID, life Life, batch wire.BatchID, end mono.Time) {
	r.gpus.Done(id, life, batch, end)
	r.fill.Ended(id, batch)
}

// Need is the GPUs that deferral alone would keep busy with what arrived lately, summed over
// the models. It does not depend on how early batches start.
func (r *Rank) Need(now mono.Time) float64 {
	if r.gpus.Sweeping(now) {
		for _, m := range r.models {
			if m != nil {
				r.gpus.Sweep(&m.usage)
			}
		}
	}
	return r.gpus.Need()
}
