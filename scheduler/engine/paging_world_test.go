package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

var pagedSequences = flag.Int("paged-sequences", 300, "random histories of a paged engine: 100000 take some minutes")

// Histories of a paged engine whose loops are turned by hand, under a virtual clock: requests, reports, loads that fail,
// batches that are refused, GPUs that are lost and come back with what they hold, models that go and come back, in any
// order and with mail, floors and orders under way. Every request is answered once; no order asks a device for what it
// cannot do; and when all is over the pages that the engine reckons with are those of the devices.
func TestPagedSequences(t *testing.T) {
	var all tally
	for seed := range *pagedSequences {
		w := newPagedWorld(uint64(seed))
		for range 40 + w.pick(160) {
			w.event()
		}
		w.finish()
		if w.err != nil {
			t.Fatalf("seed %d: %v", seed, w.err)
		}
		all.add(&w.tally)
	}
	t.Logf("%+v", all)
	if all.served == 0 || all.dropped == 0 || all.failed == 0 || all.refused == 0 || all.missing == 0 || all.lost == 0 || all.adopted == 0 || all.removed == 0 || all.unloads == 0 {
		t.Errorf("the histories show too little: %+v", all)
	}
}

type tally struct{ served, dropped, failed, refused, missing, lost, adopted, removed, unloads int }

func (a *tally) add(b *tally) {
	a.served, a.dropped, a.failed, a.refused, a.missing = a.served+b.served, a.dropped+b.dropped, a.failed+b.failed, a.refused+b.refused, a.missing+b.missing
	a.lost, a.adopted, a.removed, a.unloads = a.lost+b.lost, a.adopted+b.adopted, a.removed+b.removed, a.unloads+b.unloads
}

const worldModels, worldGPUs = 7, 3

// pagedWorld is an engine and its devices on one goroutine.
type pagedWorld struct {
	tally
	rand    *rand.Rand
	e       *Engine
	now     mono.Time
	next    wire.RequestID
	answers map[wire.RequestID]int
	models  [worldModels]int // pages; 0: not served
	gpus    [worldGPUs]*worldGPU
	err     error
}

// worldGPU is one life of a GPU.
type worldGPU struct {
	life    GPU
	pages   int
	held    map[wire.ModelID]*worldWeights
	loads   []LoadOrder // under way, in their order
	batches []worldBatch
	missing map[residency.Generation]bool // it has said so
}

type worldWeights struct {
	generation residency.Generation
	pages      int
	ready      bool
}

type worldBatch struct {
	id         wire.BatchID
	model      wire.ModelID
	generation residency.Generation
	requests   []wire.RequestID
}

func newPagedWorld(seed uint64) *pagedWorld {
	w := &pagedWorld{rand: rand.New(rand.NewPCG(seed, 77)), now: mono.Now(), answers: map[wire.RequestID]int{}}
	e, err := New(Config{ModelLoops: 1 + w.pick(3), GPUsMax: 8, RequestsMax: 256, Margin: margin, Paged: &paged.Config{Residency: residency.Config{Copies: w.pick(4)}}}, w)
	if err != nil {
		panic(err)
	}
	w.e = e
	e.SetDelay(batching.Delay{Ctrl: 200 * mono.Microsecond})
	for id := range w.models {
		w.addModel(wire.ModelID(id))
	}
	w.turn()
	w.addGPU(0)
	return w
}

func (w *pagedWorld) pick(n int) int { return w.rand.IntN(n) }

func (w *pagedWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// turn turns all loops until none has anything to do at this instant.
func (w *pagedWorld) turn() {
	for worked := true; worked; {
		worked = false
		for _, l := range w.e.loops {
			worked = l.turn(w.now) || worked
		}
		worked = w.e.rank.turn(w.now) || worked
	}
}

func (w *pagedWorld) event() {
	switch n := w.pick(100); {
	case n < 35:
		w.submit()
	case n < 60:
		w.now = w.now.Add(mono.Dur(w.pick(4000)) * mono.Microsecond)
	case n < 72:
		w.loaded(w.pick(worldGPUs))
	case n < 86:
		w.done(w.pick(worldGPUs))
	case n < 90:
		w.changeGPU(w.pick(worldGPUs))
	case n < 94:
		w.changeModel(wire.ModelID(w.pick(worldModels)))
	case n < 96:
		w.loses(w.pick(worldGPUs))
	}
	// Mostly one loop has its turn: mail, floors and grants are under way when the next thing happens.
	switch w.pick(4) {
	case 0:
		w.turn()
	case 1:
		w.e.rank.turn(w.now)
	default:
		w.e.loops[w.pick(len(w.e.loops))].turn(w.now)
	}
}

func (w *pagedWorld) submit() {
	model := wire.ModelID(w.pick(worldModels))
	for range 1 + w.pick(3) {
		w.next++
		q := batching.Request{ID: w.next, Model: model, Arrival: w.now, Deadline: w.now.Add(mono.Dur(1+w.pick(80)) * mono.Millisecond)}
		if !w.e.Submit(model, &q) {
			w.answers[w.next]++
		}
	}
}

func (w *pagedWorld) addModel(id wire.ModelID) {
	p, err := profile.Linear(mono.Millisecond/2, 2*mono.Millisecond, 8)
	if err == nil {
		w.models[id] = 1 + w.pick(3)
		err = w.e.AddPagedModel(id, batching.Config{Profile: p, SLO: 50 * mono.Millisecond, QueueMax: 64}, residency.Model{Pages: w.models[id], LoadTime: mono.Dur(1+w.pick(8)) * mono.Millisecond})
	}
	if err != nil {
		w.fail("model %d: %v", id, err)
	}
}

// changeModel removes a model, or brings it back, perhaps with other weights.
func (w *pagedWorld) changeModel(id wire.ModelID) {
	if w.models[id] == 0 {
		w.addModel(id)
		return
	}
	w.models[id] = 0
	w.removed++
	w.e.RemoveModel(id, wire.ReasonUnavailable)
}

func (w *pagedWorld) addGPU(id int, held ...residency.Weights) {
	for _, l := range w.e.loops { // as a running engine does it by itself (awaitModels)
		for l.added.Load() > 0 {
			l.turn(w.now)
		}
	}
	g := &worldGPU{pages: 4 + w.pick(6), held: map[wire.ModelID]*worldWeights{}, missing: map[residency.Generation]bool{}, life: GPU{wire.GPUID(id), w.e.lives[wire.GPUID(id)] + 1}}
	used := 0
	for _, x := range held {
		pages := max(1, w.models[x.Model]) // of one that is not served any more nobody knows
		g.held[x.Model] = &worldWeights{x.Generation, pages, true}
		used += pages
	}
	g.pages = max(g.pages, used)
	w.gpus[id] = g
	w.adopted += len(held)
	if got, err := w.e.AddPagedGPU(g.life.ID, w.now, g.pages, held); err != nil || got != g.life {
		w.fail("GPU %v, %v, want %v", got, err, g.life)
	}
}

// changeGPU loses a GPU, or brings it back with some of what it had.
func (w *pagedWorld) changeGPU(id int) {
	g := w.gpus[id]
	if g == nil {
		w.addGPU(id)
		return
	}
	w.gpus[id] = nil
	w.lost++
	w.e.RemoveGPU(g.life)
	if w.pick(2) == 0 {
		return
	}
	var held []residency.Weights
	for model := range wire.ModelID(worldModels) { // not by the map: one seed is one history
		if x := g.held[model]; x != nil && x.ready && w.pick(3) > 0 {
			held = append(held, residency.Weights{Model: model, Generation: x.generation})
		}
	}
	w.addGPU(id, held...)
}

// loses: a device has lost weights that nothing runs with, and will say so when it is asked to run.
func (w *pagedWorld) loses(id int) {
	g, model := w.gpus[id], wire.ModelID(w.pick(worldModels))
	if g == nil || g.held[model] == nil || !g.held[model].ready || g.uses(model) {
		return
	}
	g.missing[g.held[model].generation] = true
	delete(g.held, model)
	w.missing++
}

func (g *worldGPU) uses(id wire.ModelID) bool {
	return slices.ContainsFunc(g.batches, func(b worldBatch) bool { return b.model == id && b.generation == g.held[id].generation })
}

// loaded ends a GPU's first load.
func (w *pagedWorld) loaded(id int) {
	g := w.gpus[id]
	if g == nil || len(g.loads) == 0 {
		return
	}
	o := g.loads[0]
	g.loads = g.loads[1:]
	ok := w.pick(8) > 0
	if g.held[o.Model].ready = ok; !ok {
		delete(g.held, o.Model)
		w.failed++
	}
	w.now = w.now.Add(mono.Microsecond)
	w.e.Loaded(LoadReport{residency.Report{ID: o.ID, Start: max(o.Earliest, w.now.Add(-3*mono.Millisecond)), End: w.now, OK: ok}, g.life.ID, o.Model, o.Generation})
}

// done ends a batch of a GPU, or refuses it: always, if its weights are not there.
func (w *pagedWorld) done(id int) {
	g := w.gpus[id]
	if g == nil || len(g.batches) == 0 {
		return
	}
	b := g.batches[0]
	x := g.held[b.model]
	if x != nil && !x.ready && x.generation == b.generation {
		return // they are on their way: it waits
	}
	g.batches = g.batches[1:]
	d := Done{Batch: b.id, Start: w.now, End: w.now, Ran: len(b.requests)}
	switch {
	case x == nil || x.generation != b.generation:
		d.Refused, g.missing[b.generation] = wire.ReasonCold, true
	case w.pick(10) == 0:
		d.Refused = wire.ReasonLate
	default:
		for _, r := range b.requests {
			w.answers[r]++
			w.served++
		}
	}
	if d.Refused != 0 {
		d.Ran = 0
		w.refused++
	}
	w.e.Done(d)
}

// Dispatch implements Sink.
func (w *pagedWorld) Dispatch(_ int, d *shard.Dispatch) {
	g := w.gpus[d.GPU]
	if g == nil || g.life.Life != d.Life {
		return
	}
	if d.Generation == 0 || d.Latest == mono.Never || len(g.batches) >= 2 {
		w.fail("a batch of generation %d, at the latest at %v, behind %d others", d.Generation, d.Latest, len(g.batches))
	}
	b := worldBatch{id: d.Batch, model: d.Model, generation: residency.Generation(d.Generation)}
	for i := range d.Requests {
		b.requests = append(b.requests, d.Requests[i].ID)
	}
	g.batches = append(g.batches, b)
}

// Load implements Loader.
func (w *pagedWorld) Load(o *LoadOrder) {
	g := w.gpus[o.GPU]
	if g == nil || g.life.Life != o.Life {
		return
	}
	x := g.held[o.Model]
	if o.ID == 0 {
		w.unloads++
		switch {
		case x != nil && x.generation == o.Generation && x.ready && !g.uses(o.Model):
			delete(g.held, o.Model)
		case !g.missing[o.Generation]:
			w.fail("%+v of %+v, in use: %v", *o, x, x != nil && g.uses(o.Model))
		}
		return
	}
	used := 0
	for _, y := range g.held {
		used += y.pages
	}
	if x != nil || used+o.Pages > g.pages {
		w.fail("%+v where %+v is and %d of %d pages are used", *o, x, used, g.pages)
	}
	g.held[o.Model] = &worldWeights{o.Generation, o.Pages, false}
	g.loads = append(g.loads, *o)
}

// pagesOf is by what the engine reckons.
func (w *pagedWorld) pagesOf(id wire.ModelID) int { return max(1, w.models[id]) }

// FlushLoads implements Loader.
func (w *pagedWorld) FlushLoads() {}

// Drop implements Sink.
func (w *pagedWorld) Drop(_ int, d *batching.Drop) {
	w.answers[d.Request.ID]++
	w.dropped++
}

// Completed implements Sink.
func (w *pagedWorld) Completed(int, *shard.Run, *Done) {}

// Flush implements Sink.
func (w *pagedWorld) Flush(int) {}

// finish lets all come to its end, and compares the books.
func (w *pagedWorld) finish() {
	for range 400 {
		w.turn()
		for id := range w.gpus {
			w.loaded(id)
			w.done(id)
		}
		w.now = w.now.Add(mono.Millisecond)
	}
	for id := wire.RequestID(1); id <= w.next; id++ {
		if n := w.answers[id]; n != 1 {
			w.fail("request %d has %d answers", id, n)
		}
	}
	r := w.e.rank.paging.match.Residency()
	for id, g := range w.gpus {
		if g == nil {
			continue
		}
		used := 0
		for model := range wire.ModelID(worldModels) {
			h, ok := r.Held(model, wire.GPUID(id))
			x := g.held[model]
			if x != nil {
				used += x.pages
			}
			if ok && (x == nil && !w.unknown(g, h.Generation) || x != nil && x.generation != h.Generation || h.Uses != 0) || !ok && x != nil {
				w.fail("GPU %d has %+v of model %d, the engine says %v %+v", id, x, model, ok, h)
			}
			if ok && x == nil { // it is not told yet
				used += w.pagesOf(model)
			}
		}
		if free, all := r.Pages(wire.GPUID(id)); all != g.pages || all-free != used {
			w.fail("GPU %d uses %d of %d pages, the engine says %d of %d", id, used, g.pages, all-free, all)
		}
	}
	for model := range wire.ModelID(worldModels) {
		if d, n := r.Demand(model); n != 0 || d != 0 {
			w.fail("nothing waits, and the rank has %v of work of model %d in %d requests", d, model, n)
		}
	}
}

// unknown: the device has lost them, and no batch has told.
func (w *pagedWorld) unknown(g *worldGPU, gen residency.Generation) bool { return g.missing[gen] }
