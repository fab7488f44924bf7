package residency

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/estimate"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// idleLoad is l of a GPU without shares: something to divide by, as in the paper's program.
const idleLoad = mono.Millisecond

// model is one model: what waits for it, and who holds it.
type model struct {
	known    bool
	pinned   bool
	pages    int32
	hosts    int             // of a pinned one: the GPUs that are large enough for it
	load     estimate.Window // durations of its loads
	failures uint            // of loads since the last that succeeded
	heals    mono.Time       // until when they count
	measured mono.Time       // the last load that succeeded

	waiting  pq.Sorted // of its requests: latest start -> work
	demand   mono.Dur  // their work: d
	horizon  mono.Time // a load can help no request whose latest start is before it
	late     int       // how many those are: the first ones
	lateWork mono.Dur  // their work: d - d'
	floor    mono.Time // told last
	asked    mono.Time // the last request came, or left in a batch

	loads   uint64 // ordered
	holders int32  // the first of its places, by GPU; none: nobody holds it
	copies  int    // how many they are
	ready   int    // how many of them are resident
}

// gpu is one device's memory and its loader.
type gpu struct {
	present        bool
	generation     Generation // of its last load, in all its lives
	began          mono.Time  // this life
	pages, free    int
	loose          int       // pages of resident models that nobody uses
	idle           int       // of those, pages of models without requests
	load           mono.Dur  // l
	oldest, newest int32     // its places, by last use
	spares         int32     // of those, the last one that best effort alone uses: they are the oldest
	evicted        mono.Time // when weights that deadlines had used made room for a load for deadlines, last
	evictedAge     mono.Dur  // how long they had not been used; 0: none did
	unloaded       int       // pages that it was ordered to forget, in this life
	missing        int       // of the free pages: those that the device has not (report.go)
	suspected      int       // likewise, by one report
	doubted        mono.Time // until when missing counts
	rests          mono.Time // no load is ordered before
	undone         [outstandingMax]order
	undoneN        int
	held           int // models whose weights are there or on their way
	did            did
}

// Residency is the memory of the GPUs of one sub-cluster.
type Residency struct {
	cfg     Config
	models  []model
	gpus    []gpu
	count   int // GPUs present
	places  places
	orphans int    // places that are not their model's any more
	orders  uint64 // the number of the last load ordered
	counts  Counts

	board   board   // models with p > 0 that a further GPU could hold
	fates   pq.Heap // model -> when to see whether its first requests can still be helped
	loaders pq.Heap // GPU -> when its loader wants work; not those with Outstanding loads
	pinned  []wire.ModelID
	pins    mono.Time // when to look at those
	crowded bool      // the last look found one for which too many pages were in use
	leaving []int32   // places that nobody is to use, and nobody uses any more

	errors   estimate.Errors
	slack    mono.Dur  // their p99, see slackOf
	measured mono.Time // the last of them

	largest  int       // pages of a model, of all that there ever were
	changed  bool      // something may be loaded now that the last choice could not load
	rest     mono.Time // no choice before
	patience mono.Dur  // how long choices rest
	tight    mono.Time // see Tight
	opens    mono.Time // when a loader opens that the last choice found closed

	passed  []entry // scratch of a choice
	victims []int32 // scratch of making room
	wanted  []sacrifice
}

// New makes a Residency without models or GPUs.
func New(cfg Config) *Residency {
	cfg = cfg.withDefaults()
	return &Residency{cfg: cfg, orders: cfg.Serial, places: newPlaces(), rest: mono.Past, opens: mono.Past, tight: mono.Past, pins: mono.Never, patience: cfg.Rest}
}

// AddModel begins with a model, which is absent everywhere. Its id must not be in use: a
// model that changes is removed before.
func (r *Residency) AddModel(id wire.ModelID, m Model) {
	for int(id) >= len(r.models) {
		r.models = append(r.models, model{})
	}
	invariants.Check(!r.models[id].known, "residency: a model added twice")
	invariants.Check(m.Pages > 0 && m.LoadTime > 0, "residency: a model without pages or load time")
	r.models[id] = model{known: true, pinned: m.Pinned, pages: int32(m.Pages), load: estimate.Seeded(m.LoadTime), horizon: mono.Past, floor: mono.Past, asked: mono.Past,
		waiting: r.models[id].waiting} // its memory; it is empty
	if m.Pinned {
		r.pin(id)
	}
	r.largest = max(r.largest, m.Pages)
}

// RemoveModel ends a model: its demand is gone, and so are its weights as soon as nobody uses them.
// Its id may be used again at once.
func (r *Residency) RemoveModel(now mono.Time, id wire.ModelID, out *Out) {
	m := r.model(id)
	if m == nil {
		return
	}
	r.take(m, m.waiting.Len())
	for m.holders != none {
		p := r.disown(m.holders, out)
		if at := &r.places.all[p]; at.state == resident && at.uses == 0 {
			r.unload(p, Unload{Why: Removed}, out)
		}
	}
	r.board.remove(uint32(id))
	r.fates.Remove(uint32(id))
	m.known = false
	if m.pinned {
		r.unpin(id)
	}
	r.retry()
}

// AddGPU begins a life of a GPU that has so many pages and holds these models, least recently used
// first. They are Placed, those that are pinned before the others, of the generation that is returned (tell the backend). What does
// not fit or is not known is Unloaded.
func (r *Residency) AddGPU(now mono.Time, id wire.GPUID, pages int, held []wire.ModelID, out *Out) Generation {
	weights := make([]Weights, len(held))
	for i, name := range held {
		weights[i].Model = name
	}
	return r.Adopt(now, id, pages, weights, out)
}

// Adopt is AddGPU of a GPU whose backend tells of which generation its weights are, by whoever ordered them: they
// keep it, and loads to come go on behind the largest. Those that have none get the generation that is returned.
func (r *Residency) Adopt(now mono.Time, id wire.GPUID, pages int, held []Weights, out *Out) Generation {
	for int(id) >= len(r.gpus) {
		r.gpus = append(r.gpus, gpu{})
	}
	if r.gpus[id].present {
		r.RemoveGPU(now, id, out)
	}
	gen := r.gpus[id].generation + 1
	for _, w := range held {
		gen = max(gen, w.Generation+1)
	}
	r.gpus[id] = gpu{present: true, began: now, generation: gen, pages: pages, free: pages, load: idleLoad, rests: mono.Past, oldest: none, newest: none, spares: none}
	r.count++
	r.countHosts(&r.gpus[id], 1)
	for _, w := range held {
		if m := r.model(w.Model); m != nil && m.pinned { // first: whoever is there before them does not make room
			r.adopt(now, id, w, gen, out)
		}
	}
	for _, w := range held {
		if m := r.model(w.Model); m == nil || !m.pinned {
			r.adopt(now, id, w, gen, out)
		}
	}
	r.openLoader(id)
	r.recount(now)
	r.lookAtPins()
	return gen
}

// adopt settles weights that a GPU begins with, of generation gen where they have none; it is to forget those that have no room or name.
func (r *Residency) adopt(now mono.Time, id wire.GPUID, w Weights, gen Generation, out *Out) {
	name, m, g := w.Model, r.model(w.Model), &r.gpus[id]
	if w.Generation == 0 {
		w.Generation = gen
	}
	if m == nil || int(m.pages) > g.free || m.copies >= r.cfg.Copies && !m.pinned || r.places.of(m, id) != none {
		if m == nil || r.places.of(m, id) == none { // else it was told twice
			out.Unloads = append(out.Unloads, Unload{Model: name, GPU: id, Generation: w.Generation, Used: now})
			g.did.unloads[Stray]++
		}
		return
	}
	r.arrived(r.settle(now, name, id, w.Generation, now))
	out.Places = append(out.Places, Place{name, id, w.Generation, now})
}

// RemoveGPU ends it: all its models are Displaced, its loads forgotten.
func (r *Residency) RemoveGPU(now mono.Time, id wire.GPUID, out *Out) {
	if int(id) >= len(r.gpus) || !r.gpus[id].present {
		return
	}
	g := &r.gpus[id]
	r.leaving = slices.DeleteFunc(r.leaving, func(p int32) bool { return r.places.all[p].gpu == id })
	for g.oldest != none {
		p := g.oldest
		if r.places.all[p].owned {
			r.disown(p, out)
		}
		r.drop(p)
		r.counts.Lost++
	}
	r.countHosts(g, -1)
	r.gpus[id] = gpu{generation: g.generation}
	r.loaders.Remove(uint32(id))
	r.count--
	r.recount(now)
}

// recount looks at all models with requests anew: which GPUs there are has changed. It is the one
// walk over all of them, at an event that is as rare.
func (r *Residency) recount(now mono.Time) {
	for id := range r.models {
		if m := &r.models[id]; m.known && m.waiting.Len() > 0 {
			r.refresh(now, wire.ModelID(id), m)
		}
	}
	r.retry()
}

// retry has the next Step choose what to load, whenever the last one did.
func (r *Residency) retry() { r.changed, r.rest = true, mono.Past }

// model is the model of that id; nil: none is known.
func (r *Residency) model(id wire.ModelID) *model {
	if int(id) >= len(r.models) || !r.models[id].known {
		return nil
	}
	return &r.models[id]
}
