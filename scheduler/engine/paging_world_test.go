package engine

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

var pagedSequences = flag.Int("paged-sequences", 300, "random histories of a paged engine: 100000 take some minutes")

// Histories of a paged engine whose loops are turned by hand, under a virtual clock: requests, reports, loads that fail,
// batches that are refused, GPUs that are lost and come back with what they hold or go to another engine with loads under way,
// reports of others' loads, or again, or of what nobody ordered, models that go and come back or that a plan gives to the other engine, in any
// order and with mail, floors and orders under way. Every request is answered once, those of best effort among them, which no device
// that is left idle keeps waiting; no order asks a device for what it cannot do; and when all is over the pages that the engines reckon
// with are those of the devices.
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
	if slices.Contains([]int{all.served, all.dropped, all.failed, all.memory, all.refused, all.missing, all.lost, all.adopted, all.moved, all.foreign, all.forged, all.forgotten, all.short, all.removed, all.unloads, all.effort, all.spare, all.cancelled, all.handed}, 0) {
		t.Errorf("the histories show too little: %+v", all)
	}
}

type tally struct {
	served, dropped, failed, memory, refused, missing, lost, adopted, moved, foreign, forged, forgotten, short, removed, unloads int
	effort, spare, cancelled                                                                                                     int
	handed                                                                                                                       int // with a load of the model under way
}

func (a *tally) add(b *tally) {
	a.effort, a.spare, a.cancelled, a.handed = a.effort+b.effort, a.spare+b.spare, a.cancelled+b.cancelled, a.handed+b.handed
	a.served, a.dropped, a.failed, a.memory, a.refused = a.served+b.served, a.dropped+b.dropped, a.failed+b.failed, a.memory+b.memory, a.refused+b.refused
	a.missing, a.lost, a.adopted, a.moved, a.foreign = a.missing+b.missing, a.lost+b.lost, a.adopted+b.adopted, a.moved+b.moved, a.foreign+b.foreign
	a.forged, a.forgotten, a.short, a.removed, a.unloads = a.forged+b.forged, a.forgotten+b.forgotten, a.short+b.short, a.removed+b.removed, a.unloads+b.unloads
}

const (
	worldModels, worldGPUs = 7, 3
	// hidden is from which generation on nobody is told of weights without an id.
	hidden = residency.Generation(5000)
)

// pagedWorld is two engines and the devices that they share, on one goroutine.
type pagedWorld struct {
	tally
	rand    *rand.Rand
	sides   [2]*worldSide
	now     mono.Time
	next    wire.RequestID
	answers map[wire.RequestID]int
	efforts []worldEffort                // that were submitted
	calm    bool                         // nothing fails any more
	models  [worldModels]residency.Model // of 0 pages: not served
	gone    [worldModels]*worldSide      // that has handed the model to the other one; nil: both serve it
	gpus    [worldGPUs]*worldGPU
	reports []LoadReport // that were sent
	late    [worldGPUs][]lateReport
	err     error
}

// worldSide is an engine; it calls device i GPU i+shift.
type worldSide struct {
	*pagedWorld
	e     *Engine
	shift int
}

func newPagedWorld(seed uint64) *pagedWorld {
	w := &pagedWorld{rand: rand.New(rand.NewPCG(seed, 77)), now: mono.Now(), answers: map[wire.RequestID]int{}}
	for i := range w.sides {
		side := &worldSide{pagedWorld: w, shift: i}
		e, err := New(Config{ModelLoops: 1 + w.pick(3), FirstLoop: 4 * i, GPUsMax: 8, RequestsMax: 256, Margin: margin, Paged: &paged.Config{Residency: residency.Config{Copies: w.pick(4)}}}, side)
		if err != nil {
			panic(err)
		}
		side.e, w.sides[i] = e, side
		e.SetDelay(batching.Delay{Ctrl: 200 * mono.Microsecond})
	}
	for id := range w.models {
		w.addModel(wire.ModelID(id))
	}
	w.turn()
	for id := range w.gpus {
		w.gpus[id] = &worldGPU{}
		w.gpus[id].empty()
	}
	w.seat(0, w.sides[0])
	w.seat(1, w.sides[1])
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
		for _, side := range w.sides {
			for _, l := range side.e.loops {
				worked = l.turn(w.now) || worked
			}
			worked = side.e.rank.turn(w.now) || worked
		}
	}
}

func (w *pagedWorld) event() {
	switch n := w.pick(100); {
	case n < 26:
		w.submit()
	case n < 34:
		w.submitEffort()
	case n < 56:
		w.now = w.now.Add(mono.Dur(w.pick(4000)) * mono.Microsecond)
	case n < 68:
		w.loaded(w.gpus[w.pick(worldGPUs)])
	case n < 82:
		w.done(w.gpus[w.pick(worldGPUs)])
	case n < 87:
		w.changeGPU(w.pick(worldGPUs))
	case n < 90:
		w.changeModel(wire.ModelID(w.pick(worldModels)))
	case n < 91:
		w.handOver(wire.ModelID(w.pick(worldModels)))
	case n < 93:
		w.loses(w.gpus[w.pick(worldGPUs)])
	case n < 94:
		w.hides(w.gpus[w.pick(worldGPUs)])
	case n < 96:
		w.forges(w.gpus[w.pick(worldGPUs)])
	case n < 97:
		w.cancel()
	case n < 98: // so long that nobody counts on what is there
		w.now = w.now.Add(mono.Dur(w.pick(70)) * mono.Second)
	default:
		w.arrive(w.pick(worldGPUs))
	}
	// Mostly one loop has its turn: mail, floors and grants are under way when the next thing happens.
	side := w.sides[w.pick(2)]
	switch w.pick(4) {
	case 0:
		w.turn()
	case 1:
		side.e.rank.turn(w.now)
	default:
		side.e.loops[w.pick(len(side.e.loops))].turn(w.now)
	}
}

func (w *pagedWorld) submit() {
	model, side := wire.ModelID(w.pick(worldModels)), w.sides[w.pick(2)]
	for range 1 + w.pick(3) {
		w.next++
		q := batching.Request{ID: w.next, Model: model, Arrival: w.now, Deadline: w.now.Add(mono.Dur(1+w.pick(80)) * mono.Millisecond)}
		if !side.e.Submit(model, &q) {
			w.answers[w.next]++
		}
	}
}

// worldEffort is a request of best effort, and where it went.
type worldEffort struct {
	side *worldSide
	batching.Request
}

// submitEffort asks without a deadline; some give up soon.
func (w *pagedWorld) submitEffort() {
	model, side := wire.ModelID(w.pick(worldModels)), w.sides[w.pick(2)]
	for range 1 + w.pick(3) {
		w.next++
		q := batching.Request{ID: w.next, Model: model, Arrival: w.now, Deadline: w.now.Add(3600 * mono.Second), Class: wire.ClassBestEffort}
		if w.pick(10) == 0 {
			q.Deadline = w.now.Add(mono.Dur(1+w.pick(40)) * mono.Millisecond)
		}
		if !side.e.Submit(model, &q) {
			w.answers[w.next]++
		}
		w.efforts = append(w.efforts, worldEffort{side, q})
	}
}

// cancel takes back one of best effort, if it waits still.
func (w *pagedWorld) cancel() {
	if n := len(w.efforts); n > 0 {
		q := &w.efforts[max(0, n-1-w.pick(6))]
		q.side.e.Cancel(q.Model, &q.Request)
	}
}

func (w *pagedWorld) addModel(id wire.ModelID) {
	w.models[id], w.gone[id] = residency.Model{Pages: 1 + w.pick(3), LoadTime: mono.Dur(1+w.pick(8)) * mono.Millisecond}, nil
	for _, side := range w.sides {
		w.addTo(side, id)
	}
}

func (w *pagedWorld) addTo(side *worldSide, id wire.ModelID) {
	p, err := profile.Linear(mono.Millisecond/2, 2*mono.Millisecond, 8)
	if err == nil {
		err = side.e.AddPagedModel(id, batching.Config{Profile: p, SLO: 50 * mono.Millisecond, QueueMax: 64}, w.models[id])
	}
	if err != nil {
		w.fail("model %d: %v", id, err)
	}
}

// changeModel removes a model, or brings it back, perhaps with other weights.
func (w *pagedWorld) changeModel(id wire.ModelID) {
	if w.models[id].Pages == 0 {
		w.addModel(id)
		return
	}
	w.models[id], w.gone[id] = residency.Model{}, nil
	w.removed++
	for _, side := range w.sides {
		side.e.RemoveModel(id, wire.ReasonUnavailable)
	}
}

// handOver gives a model to the other engine, with what waits, as a plan does, or has both serve it again.
func (w *pagedWorld) handOver(id wire.ModelID) {
	if w.models[id].Pages == 0 {
		return
	}
	if from := w.gone[id]; from != nil {
		w.gone[id] = nil
		w.addTo(from, id)
		return
	}
	i := w.pick(2)
	from, to := w.sides[i], w.sides[1-i]
	if err := from.e.HandOver(id, to.e); err != nil {
		w.fail("model %d: %v", id, err)
	}
	w.gone[id] = from
	for _, g := range w.gpus {
		if g.side == from && slices.ContainsFunc(g.loads, func(o worldLoad) bool { return o.Model == id && !o.foreign }) {
			w.handed++
		}
	}
}

// seat gives a device to an engine, with what it holds: that is told, and counts. Loads under way go on.
func (w *pagedWorld) seat(id int, side *worldSide) {
	for _, l := range side.e.loops { // as a running engine does it by itself (awaitModels)
		for l.added.Load() > 0 {
			l.turn(w.now)
		}
	}
	g := w.gpus[id]
	gpu := wire.GPUID((id + side.shift) % worldGPUs)
	g.side, g.life, g.batches, g.missing = side, GPU{gpu, side.e.lives[gpu] + 1}, nil, map[residency.Generation]bool{}
	var held []residency.Weights
	for model := range wire.ModelID(worldModels) { // not by the map: one seed is one history
		if x := g.held[model]; x != nil {
			x.pages, x.foreign = w.pagesOf(model), false
			held = append(held, residency.Weights{Model: model, Generation: x.generation})
		}
	}
	if w.pick(4) == 0 {
		g.odd[residency.Generation(1000+w.pick(1000))] = 1
	}
	for _, gen := range slices.Sorted(maps.Keys(g.odd)) {
		if gen < hidden {
			held = append(held, residency.Weights{Model: wire.ModelNone, Generation: gen})
		}
	}
	g.pages = max(4+w.pick(6), g.used())
	for i := range g.loads {
		g.loads[i].foreign = true
	}
	w.adopted += len(held)
	if got, err := side.e.AddPagedGPU(gpu, w.now, g.pages, held); err != nil || got != g.life {
		w.fail("GPU %v, %v, want %v", got, err, g.life)
	}
}

// changeGPU takes a device from its engine, or gives it to one.
func (w *pagedWorld) changeGPU(id int) {
	g, side := w.gpus[id], w.sides[w.pick(2)]
	if g.side == nil {
		w.seat(id, side)
		return
	}
	w.lost++
	g.side.e.RemoveGPU(g.life)
	g.side, g.batches = nil, nil
	switch w.pick(4) {
	case 0: // another one takes its place
		g.empty()
	case 1: // its backend begins anew, with some of what it had
		g.loads = nil
		for model := range wire.ModelID(worldModels) {
			if w.pick(3) == 0 {
				delete(g.held, model)
			}
		}
		w.seat(id, side)
	case 2: // it is suspected for a moment, or goes to another sub-cluster
		w.moved++
		w.seat(id, side)
	}
}

// loses: a device has lost weights that nothing runs with, and will say so when it is asked to run.
func (w *pagedWorld) loses(g *worldGPU) {
	model := wire.ModelID(w.pick(worldModels))
	if g.side == nil || g.held[model] == nil || g.uses(model) {
		return
	}
	g.missing[g.held[model].generation] = true
	delete(g.held, model)
	w.missing++
}

// hides: a device has weights that nobody told of.
func (w *pagedWorld) hides(g *worldGPU) {
	if g.used() < g.pages {
		g.odd[hidden+residency.Generation(w.pick(1000))] = 1
	}
}

// forges: a report comes again, perhaps from another device, or one that names an order under way and not as it was.
func (w *pagedWorld) forges(g *worldGPU) {
	if g.side == nil {
		return
	}
	var r LoadReport
	switch {
	case len(g.loads) > 0 && w.pick(2) == 0:
		o := &g.loads[w.pick(len(g.loads))]
		r = LoadReport{residency.Report{ID: o.ID, Start: w.now, End: w.now, OK: w.pick(2) == 0}, g.life, o.Model, o.Generation}
		switch w.pick(3) {
		case 0:
			r.Generation += 70
		case 1:
			r.Model = (r.Model + 1) % worldModels
		default:
			r.ID ^= 1 << 60
			r.OK = false // else it is what the device says
		}
	case len(w.reports) > 0:
		r = w.reports[w.pick(len(w.reports))]
		r.GPU = g.life
	default:
		return
	}
	if x := g.held[r.Model]; x != nil && x.generation == r.Generation {
		return // it is there
	}
	g.missing[r.Generation] = true
	w.forged++
	g.side.e.Loaded(r)
}

// done ends a batch of a GPU, or refuses it: always, if its weights are not there.
func (w *pagedWorld) done(g *worldGPU) {
	if g.side == nil || len(g.batches) == 0 {
		return
	}
	b := g.batches[0]
	x := g.held[b.model]
	there := x != nil && x.generation == b.generation
	if !there && g.comes(b.model, b.generation) {
		return // it waits for them
	}
	g.batches = g.batches[1:]
	d := Done{Batch: b.id, Start: w.now, End: w.now, Ran: len(b.requests)}
	switch {
	case !there:
		d.Refused, g.missing[b.generation] = wire.ReasonCold, true
	case !w.calm && w.pick(10) == 0:
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
	g.side.e.Done(d)
}

// of is the device of a GPU in that life; nil: it has ended.
func (s *worldSide) of(gpu wire.GPUID, life rank.Life) *worldGPU {
	g := s.gpus[(int(gpu)+worldGPUs-s.shift)%worldGPUs]
	if g.side != s || g.life.Life != life {
		return nil
	}
	return g
}

// Dispatch implements Sink.
func (s *worldSide) Dispatch(_ int, d *shard.Dispatch) {
	g := s.of(d.GPU, d.Life)
	if g == nil {
		return
	}
	if d.Generation == 0 || d.Latest == mono.Never || len(g.batches) >= 2 {
		s.fail("a batch of generation %d, at the latest at %v, behind %d others", d.Generation, d.Latest, len(g.batches))
	}
	if d.Requests[0].Class == wire.ClassBestEffort {
		s.effort++
		x := g.held[d.Model]
		if gen := residency.Generation(d.Generation); len(g.batches) > 0 || (x == nil || x.generation != gen) && !g.missing[gen] {
			s.fail("a batch of best effort of generation %d behind %d others, where %+v is", gen, len(g.batches), x)
		}
	}
	b := worldBatch{id: d.Batch, model: d.Model, generation: residency.Generation(d.Generation)}
	for i := range d.Requests {
		b.requests = append(b.requests, d.Requests[i].ID)
	}
	g.batches = append(g.batches, b)
}

// pagesOf is by what the engine reckons; of a model that is not served any more nobody knows.
func (w *pagedWorld) pagesOf(id wire.ModelID) int { return max(1, w.models[id].Pages) }

// FlushLoads implements Loader.
func (w *pagedWorld) FlushLoads() {}

// Drop implements Sink.
func (w *pagedWorld) Drop(_ int, d *batching.Drop) {
	w.answers[d.Request.ID]++
	if w.dropped++; d.Reason == wire.ReasonCancelled {
		w.cancelled++
	}
}

// Completed implements Sink.
func (w *pagedWorld) Completed(int, *shard.Run, *Done) {}

// Flush implements Sink.
func (w *pagedWorld) Flush(int) {}

// finish lets all come to its end, and compares the books.
func (w *pagedWorld) finish() {
	w.passes(400, mono.Millisecond)
	w.calm = true
	for n := 0; n < 400 && len(w.answers) < int(w.next); n++ { // what failed has to heal, and what was used has to be forgotten
		w.passes(1, mono.Second)
	}
	w.passes(10, mono.Millisecond)
	w.turn()
	for _, side := range w.sides {
		w.spare += int(side.e.Stats().Paging.Effort)
	}
	for id := wire.RequestID(1); id <= w.next; id++ {
		if n := w.answers[id]; n != 1 {
			w.fail("request %d has %d answers", id, n)
		}
	}
	for id, g := range w.gpus {
		if g.side != nil {
			w.compare(id, g, g.side.e.rank.paging.match.Residency())
		}
	}
	for _, side := range w.sides {
		for model := range wire.ModelID(worldModels) {
			if d, n := side.e.rank.paging.match.Residency().Demand(model); n != 0 || d != 0 {
				w.fail("nothing waits, and the rank has %v of work of model %d in %d requests", d, model, n)
			}
		}
	}
}

// passes lets time pass in which the devices do what they were ordered.
func (w *pagedWorld) passes(n int, each mono.Dur) {
	for range n {
		w.turn()
		for id, g := range w.gpus {
			w.loaded(g)
			w.arrive(id)
			w.done(g)
		}
		w.now = w.now.Add(each)
	}
}

// compare holds what an engine reckons with against what a device has.
func (w *pagedWorld) compare(id int, g *worldGPU, r *residency.Residency) {
	used := 0
	for model := range wire.ModelID(worldModels) {
		h, ok := r.Held(model, g.life.ID)
		x := g.held[model]
		if x != nil {
			used += x.pages
		}
		if ok && (x == nil && !g.missing[h.Generation] || x != nil && x.generation != h.Generation || h.Uses != 0) || !ok && x != nil {
			w.fail("GPU %d has %+v of model %d, the engine says %v %+v", id, x, model, ok, h)
		}
		if ok && x == nil { // it is not told yet
			used += w.pagesOf(model)
		}
	}
	if free, all := r.Pages(g.life.ID); all != g.pages || all-free != used {
		w.fail("GPU %d uses %d of %d pages, the engine says %d of %d", id, used, g.pages, all-free, all)
	}
	for gen := range g.odd {
		if gen < hidden {
			w.fail("GPU %d still has generation %d of a model without id", id, gen)
		}
	}
}
