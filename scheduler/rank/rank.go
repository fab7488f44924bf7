package rank

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// outstandingMax bounds Config.Outstanding.
const outstandingMax = 4

// Life numbers the lives of a GPU: it rises with every AddGPU of its id.
type Life uint32

// Grant says: model may use GPU, on the terms of the Offer.
type Grant struct {
	Model wire.ModelID
	GPU   wire.GPUID
	Life  Life
	// Due is the instant from which model and GPU, by what both said, could have been
	// brought together, Ready that of the GPU alone: how late the grant is shows how late
	// the loops are. They decide nothing.
	Due, Ready mono.Time
	batching.Offer
}

// Answer is a model's reply to a grant. Batch 0: it used the GPU for nothing.
type Answer struct {
	Grant Grant
	Batch wire.BatchID
	Exec  mono.Time // planned start
	Until mono.Time // planned end: the GPU is free again
	// Forgone is the GPU time that the requests would have taken that the model
	// lost since its last batch.
	Forgone mono.Dur
	// Need is the GPUs that deferral alone would keep busy with the model (batching.Need).
	Need float64
	// Slack is for how long a request of the model that runs alone may wait.
	Slack mono.Dur
}

// Out collects the effects of a call; the caller empties it.
type Out struct{ Grants []Grant }

// Config of a Rank.
type Config struct {
	// Outstanding is how many undone batches a GPU may have, 1 to 4; 0 means 2:
	// one that runs and one whose inputs are fetched meanwhile.
	Outstanding int
	// ByLatest gives no head starts: a GPU goes to the ready candidate with the
	// least latest, as Algorithm 1 has it. So it is in the schedulers that are
	// compared with ours.
	ByLatest bool
	// Headroom bounds which GPUs may take early batches.
	Headroom Headroom
}

// gpu is one device.
type gpu struct {
	life    Life
	present bool
	granted bool
	free    mono.Time // when it is free, by what was planned and reported
	undone  [outstandingMax]run
	undoneN int
}

// run is a batch that was sent and not yet reported.
type run struct {
	batch       wire.BatchID
	exec, until mono.Time
}

// model is one model's candidate and where it stands.
type model struct {
	candidate batching.Candidate
	granting  bool // a grant is under way: candidates wait for its answer
	gone      bool // it was removed meanwhile, and goes with the answer
	held      bool // its candidate is early: only GPUs that are kept may take it
	demand    demand
	need      need
	slack     mono.Dur // by the last answer; 0: not known
}

// Rank is the matchmaker of one sub-cluster.
type Rank struct {
	cfg    Config
	models []*model // by id; nil: nothing is known of it. Ids are sparse: a cluster has more than a Rank
	gpus   []gpu
	timers pq.Heap // model -> exec - delay
	ready  pq.Heap // model -> latest, less its head start
	early  pq.Heap // likewise: those whose time has come only for the GPUs that are kept
	long   pq.Heap // likewise: those of models that leave room for others (room.go)
	room   room
	tree   gpuTree
	needs  needs
	kept   uint32       // GPUs with ids below it may take early batches; of the last Step
	count  int          // GPUs present
	demand demand       // of all models together
	last   wire.ModelID // the model granted last
}

// New makes a Rank without models or GPUs.
func New(cfg Config) *Rank {
	if cfg.Outstanding <= 0 {
		cfg.Outstanding = 2
	}
	cfg.Outstanding = min(cfg.Outstanding, outstandingMax)
	return &Rank{cfg: cfg, kept: math.MaxUint32, room: room{below: math.MaxUint32}}
}

// SetByLatest tells whether candidates get no head starts, from the next one on.
func (r *Rank) SetByLatest(on bool) { r.cfg.ByLatest = on }

// GPUs is the number of GPUs present.
func (r *Rank) GPUs() int { return r.count }

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
	if int(id) >= len(r.models) || r.models[id] == nil {
		return
	}
	r.SetCandidate(id, batching.Candidate{})
	m := r.models[id]
	if m.gone = true; m.granting {
		return
	}
	r.needs.sum -= m.need.gpus
	r.models[id] = nil
}

// AddGPU begins a new life of a GPU that is free from freeAt on.
func (r *Rank) AddGPU(id wire.GPUID, freeAt mono.Time) Life {
	for int(id) >= len(r.gpus) {
		r.gpus = append(r.gpus, gpu{})
	}
	r.tree.grow(len(r.gpus))
	if r.gpus[id].present {
		r.RemoveGPU(id)
	}
	r.count++
	r.room.span = 0
	r.gpus[id] = gpu{life: r.gpus[id].life + 1, present: true, free: freeAt}
	r.place(id)
	return r.gpus[id].life
}

// RemoveGPU ends a GPU's life. An answer to a grant under way, and reports of
// its batches, are ignored later.
func (r *Rank) RemoveGPU(id wire.GPUID) {
	if int(id) >= len(r.gpus) || !r.gpus[id].present {
		return
	}
	r.count--
	r.room.span = 0
	r.gpus[id] = gpu{life: r.gpus[id].life}
	r.place(id)
}

// Answer takes a model's reply to a grant: the GPU is busy until then, and the
// model may be granted again. (inform_gpu)
func (r *Rank) Answer(a Answer) {
	m := r.models[a.Grant.Model]
	m.granting = false
	r.answer(&a, m)
	if m.gone {
		r.RemoveModel(a.Grant.Model)
	}
}

func (r *Rank) answer(a *Answer, m *model) {
	g := r.alive(a.Grant.GPU, a.Grant.Life)
	if g == nil {
		return
	}
	g.granted = false
	if a.Batch != 0 {
		invariants.Check(g.undoneN < r.cfg.Outstanding, "rank: more undone batches on a GPU than allowed")
		// What ran before may have been reported late since the grant.
		exec := max(a.Exec, g.free)
		until := exec.Add(a.Until.Sub(a.Exec))
		g.undone[g.undoneN] = run{a.Batch, exec, until}
		g.undoneN++
		g.free = until
		r.needs.set(&m.need, a.Need, spanOf(exec))
		m.slack = a.Slack
		w := wants{batches: 1, taken: until.Sub(exec), lost: a.Forgone}
		m.demand.add(exec, w)
		r.demand.add(exec, w)
	}
	r.place(a.Grant.GPU)
}

// Done takes a backend's report: the batch ended at end, early or late. The
// batch queued behind it, if any, starts at its planned time or at end.
func (r *Rank) Done(id wire.GPUID, life Life, batch wire.BatchID, end mono.Time) {
	g := r.alive(id, life)
	if g == nil {
		return
	}
	at := -1
	for i := range g.undoneN {
		if g.undone[i].batch == batch {
			at = i
		}
	}
	if at < 0 {
		return
	}
	copy(g.undone[at:], g.undone[at+1:g.undoneN])
	g.undoneN--
	g.free = end
	for i := at; i < g.undoneN; i++ {
		u := &g.undone[i]
		length := u.until.Sub(u.exec)
		u.exec = max(u.exec, g.free)
		u.until = u.exec.Add(length)
		g.free = u.until
	}
	if at > 0 && at == g.undoneN { // reported before an earlier one: that one still rules
		g.free = max(g.free, g.undone[at-1].until)
	}
	r.place(id)
}

// alive is the GPU if it still lives the life that is spoken of.
func (r *Rank) alive(id wire.GPUID, life Life) *gpu {
	if int(id) >= len(r.gpus) {
		return nil
	}
	g := &r.gpus[id]
	if !g.present || g.life != life {
		return nil
	}
	return g
}

// place puts the GPU's free time into the table; see invariant 2.
func (r *Rank) place(id wire.GPUID) {
	g := &r.gpus[id]
	free := g.free
	if !g.present || g.granted || g.undoneN >= r.cfg.Outstanding {
		free = mono.Never
	}
	r.tree.set(uint32(id), free)
}
