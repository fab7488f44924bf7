package paged

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	ms         = mono.Millisecond
	historyNet = ms / 2 // delay of orders
)

// history is a matchmaker among models, GPUs and loaders that do what they want.
type history struct {
	r       *rapid.T
	p       *Paged
	cfg     Config
	now     mono.Time
	out     Out
	models  [6]wishes
	gpus    [4]machine
	grants  []devices.Grant // not answered
	stale   []devices.Grant // of those, to models that were removed
	runs    []running
	batch   wire.BatchID
	before  [4]mono.Time          // when the GPUs were free, before the last Step
	asked   [6]batching.Candidate // the candidates then
	leads   [6]mono.Dur           // and the leads,
	heads   [6]mono.Dur           // the head starts,
	waited  [6]bool               // and who was ready
	efforts efforts
	shown   tally
}

// tally is what the histories have shown, for a test that would show too little.
type tally struct{ idle, awaited, loading, failed, lost, floors, passed, heads, missing, lent, spared int }

// wishes is a model: its candidate as told, and what waits, by latest start.
type wishes struct {
	known     bool
	candidate batching.Candidate
	waits     []mono.Time
	pages     int
	load      mono.Dur
	floor     mono.Time
	hasty     bool // it was told while nothing was deferred
	free      bool // so it was then, or at any time since: who holds the model may have changed at that
}

// machine is a GPU and its loader, by what it was told.
type machine struct {
	life   devices.Life
	pages  int
	used   int
	has    map[weights]int // pages
	orders []residency.Load
	busy   mono.Time // of its loader
}

// weights are a model's on a GPU. One that was removed and is back may be there twice, for what ran then
// still runs.
type weights struct {
	model      wire.ModelID
	generation residency.Generation
}

// running is a batch without a report.
type running struct {
	gpu        wire.GPUID
	life       devices.Life
	id         wire.BatchID
	model      wire.ModelID
	generation residency.Generation
	void       bool // its load failed, or its model was removed
}

// The rules of the package, whatever happens.
func TestHistories(t *testing.T) {
	var shown tally
	for range 8 { // what is rare is to be seen, whatever the seed
		rapid.Check(t, func(r *rapid.T) { told(r, &shown) })
	}
	t.Logf("%+v", shown)
	if shown.idle == 0 || shown.awaited == 0 || shown.loading == 0 || shown.failed == 0 || shown.lost == 0 || shown.floors == 0 || shown.passed == 0 || shown.heads == 0 || shown.missing == 0 || shown.lent == 0 || shown.spared == 0 {
		t.Errorf("the histories show too little: %+v", shown)
	}
}

// told is one history.
func told(r *rapid.T, shown *tally) {
	h := &history{r: r, cfg: Config{Eager: rapid.Bool().Draw(r, "eager"), ByLatest: rapid.Bool().Draw(r, "by latest"), WholeDeferral: rapid.Bool().Draw(r, "whole deferral"), NoLead: rapid.Bool().Draw(r, "no lead"),
		Residency: residency.Config{Rule: residency.Rule(rapid.IntRange(0, 2).Draw(r, "rule")), Copies: rapid.IntRange(0, 3).Draw(r, "copies")}}}
	h.p = New(h.cfg)
	for id := range h.models {
		h.addModel(wire.ModelID(id))
	}
	h.addGPU(0)
	for range rapid.IntRange(1, 150).Draw(r, "events") {
		h.event()
		h.settle()
	}
	shown.add(&h.shown)
}

func (y *tally) add(z *tally) {
	y.idle, y.awaited, y.loading = y.idle+z.idle, y.awaited+z.awaited, y.loading+z.loading
	y.failed, y.lost, y.floors = y.failed+z.failed, y.lost+z.lost, y.floors+z.floors
	y.lent, y.spared = y.lent+z.lent, y.spared+z.spared
	y.passed, y.heads, y.missing = y.passed+z.passed, y.heads+z.heads, y.missing+z.missing
}

func (h *history) event() {
	switch rapid.IntRange(0, 18).Draw(h.r, "event") {
	case 0, 1, 2, 3:
		h.arrive(h.someModel())
	case 4, 5:
		h.now = h.now.Add(mono.Dur(rapid.IntRange(0, 60).Draw(h.r, "passes")) * ms / 2)
		if rapid.IntRange(0, 9).Draw(h.r, "long") == 0 {
			h.now = h.now.Add(70 * mono.Second) // nobody counts on what is there any more
		}
	case 6:
		if wake := h.p.NextWake(); wake != mono.Never {
			h.now = max(h.now, wake)
		}
	case 7:
		h.tell(h.someModel())
	case 8, 9:
		h.answer()
	case 10, 11:
		h.report()
	case 12, 13:
		h.loaded()
	case 14:
		h.changeGPU(wire.GPUID(rapid.IntRange(0, len(h.gpus)-1).Draw(h.r, "gpu")))
	case 15:
		if id := h.someModel(); h.models[id].known && rapid.Bool().Draw(h.r, "removed") {
			h.removeModel(id)
		} else if !h.models[id].known {
			h.addModel(id)
		}
	case 16, 17:
		h.effort(h.someModel())
	case 18:
		h.fill()
	}
}

func (h *history) someModel() wire.ModelID {
	return wire.ModelID(rapid.IntRange(0, len(h.models)-1).Draw(h.r, "model"))
}

func (h *history) addModel(id wire.ModelID) {
	m := wishes{known: true, pages: rapid.IntRange(1, 4).Draw(h.r, "pages"), load: mono.Dur(rapid.IntRange(1, 20).Draw(h.r, "load")) * ms, floor: mono.Past}
	h.models[id] = m
	h.p.AddModel(id, residency.Model{Pages: m.pages, LoadTime: m.load})
}

func (h *history) removeModel(id wire.ModelID) {
	h.forgets(id)
	h.models[id] = wishes{}
	for i := range h.runs {
		h.runs[i].void = h.runs[i].void || h.runs[i].model == id
	}
	for _, g := range h.grants {
		if g.Model == id {
			h.stale = append(h.stale, g)
		}
	}
	h.p.RemoveModel(h.now, id, &h.out)
}

func (h *history) addGPU(id wire.GPUID) {
	g := machine{pages: rapid.IntRange(3, 9).Draw(h.r, "pages"), has: map[weights]int{}, busy: h.now}
	held := rapid.SliceOfNDistinct(rapid.IntRange(0, len(h.models)-1), 0, 2, func(i int) int { return i }).Draw(h.r, "held")
	var told []residency.Weights
	for _, i := range held { // a GPU that comes back may have what it had, of the same generation
		if m := &h.models[i]; m.known && g.used+m.pages <= g.pages {
			told = append(told, residency.Weights{Model: wire.ModelID(i), Generation: residency.Generation(rapid.IntRange(0, 9).Draw(h.r, "generation"))})
			g.used += m.pages
		}
	}
	free := h.now.Add(mono.Dur(rapid.IntRange(0, 5).Draw(h.r, "free")) * ms)
	var generation residency.Generation
	g.life, generation = h.p.Adopt(h.now, id, free, g.pages, told, &h.out)
	for _, w := range told {
		if w.Generation == 0 {
			w.Generation = generation
		}
		g.has[weights{w.Model, w.Generation}] = h.models[w.Model].pages
	}
	h.gpus[id] = g
}

// changeGPU loses the GPU, or brings it back, perhaps with something in its memory.
func (h *history) changeGPU(id wire.GPUID) {
	if h.gpus[id].life == 0 {
		h.addGPU(id)
		return
	}
	if rapid.IntRange(0, 2).Draw(h.r, "lost") > 0 {
		return
	}
	h.gpus[id] = machine{}
	h.runs = slices.DeleteFunc(h.runs, func(k running) bool { return k.gpu == id })
	h.p.RemoveGPU(h.now, id, &h.out)
	h.shown.lost++
	for model := range wire.ModelID(len(h.models)) {
		if at, ok := h.p.Residency().Held(model, id); ok {
			h.r.Fatalf("GPU %d is gone, and holds model %d: %+v", id, model, at)
		}
	}
}

// arrive adds a request that must start within a few load times, and perhaps has no time at all.
func (h *history) arrive(id wire.ModelID) {
	m := &h.models[id]
	if !m.known || len(m.waits) > 20 {
		return
	}
	latest := h.now.Add(mono.Dur(rapid.IntRange(1, 120).Draw(h.r, "slack")) * ms)
	i, _ := slices.BinarySearch(m.waits, latest)
	m.waits = slices.Insert(m.waits, i, latest)
	h.p.Arrive(h.now, id, 3*ms, latest)
	h.tell(id)
}

// tell gives up what cannot be served any more, as batching does, and tells the model's candidate.
func (h *history) tell(id wire.ModelID) {
	m := &h.models[id]
	if !m.known {
		return
	}
	n := 0
	for n < len(m.waits) && m.waits[n] < max(h.now.Add(historyNet), m.floor) {
		n++
	}
	if n > 0 {
		m.waits = slices.Delete(m.waits, 0, n)
		h.p.Doomed(h.now, id, n)
	}
	c := batching.Candidate{}
	if len(m.waits) > 0 {
		earliest := max(h.now.Add(historyNet), m.floor)
		size := 1
		for size < len(m.waits) && m.waits[0].Add(-mono.Dur(size)*ms) >= earliest {
			size++
		}
		c = batching.Candidate{Batch: batching.Batch{Size: int32(size)}, Latest: m.waits[0].Add(-mono.Dur(size-1) * ms), Delay: historyNet}
		c.Exec = earliest.Add(c.Latest.Sub(earliest) / 8 * mono.Dur(rapid.IntRange(0, 8).Draw(h.r, "window")))
		if rapid.IntRange(0, 3).Draw(h.r, "early") == 0 {
			c.Hold = uint32(c.Latest.Sub(c.Exec) / mono.Microsecond)
		}
	}
	h.p.SetCandidate(h.now, id, c)
	if slices.ContainsFunc(h.grants, func(g devices.Grant) bool { return g.Model == id }) {
		c = batching.Candidate{} // the call is void
	} else {
		m.hasty = h.p.eager()
		m.free = m.hasty
	}
	m.candidate = c
}

// answer takes or refuses the oldest grant.
func (h *history) answer() {
	if len(h.grants) == 0 {
		return
	}
	g := h.grants[0]
	h.grants = h.grants[1:]
	m, a, n := &h.models[g.Model], devices.Answer{Grant: g}, 0
	start := max(h.now.Add(historyNet), g.FreeAt)
	if m.known && len(m.waits) > 0 && rapid.IntRange(0, 5).Draw(h.r, "used") > 0 {
		n = rapid.IntRange(1, len(m.waits)).Draw(h.r, "size")
		h.batch++
		a.Batch, a.Exec, a.Until, a.Need = h.batch, start, start.Add(mono.Dur(2+n)*ms), 0.5
		a.Forgone = mono.Dur(rapid.IntRange(0, 3).Draw(h.r, "forgone")) * 10 * mono.Microsecond
		m.waits = slices.Delete(m.waits, 0, n)
	}
	h.p.Answer(h.now, a, n)
	if at := &h.gpus[g.GPU]; n > 0 && at.life == g.Life {
		k := running{gpu: g.GPU, life: g.Life, id: a.Batch, model: g.Model, generation: residency.Generation(g.Generation)}
		k.void = at.has[weights{g.Model, k.generation}] == 0 || slices.Contains(h.stale, g)
		h.runs = append(h.runs, k)
	}
	h.tell(g.Model)
}

// report ends a batch.
func (h *history) report() {
	if len(h.runs) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.runs)-1).Draw(h.r, "run")
	k := h.runs[i]
	h.runs = slices.Delete(h.runs, i, i+1)
	if k.void || rapid.IntRange(0, 9).Draw(h.r, "refused") > 0 {
		h.p.Done(h.now, k.gpu, k.life, k.id, h.now)
		return
	}
	cold := rapid.Bool().Draw(h.r, "cold")
	g, w := &h.gpus[k.gpu], weights{k.model, k.generation}
	if at, ok := h.p.Residency().Held(k.model, k.gpu); cold && ok && at.Generation == k.generation && !at.Loading {
		g.used -= g.has[w] // the device has lost them
		delete(g.has, w)
		for i := range h.runs {
			h.runs[i].void = h.runs[i].void || h.runs[i].model == k.model && h.runs[i].generation == k.generation && h.runs[i].gpu == k.gpu
		}
		h.shown.missing++
	}
	h.p.Refused(h.now, k.gpu, k.life, k.id, h.now, cold, &h.out)
}

// loaded reports a GPU's first load, early or late, as failed now and then.
func (h *history) loaded() {
	id := wire.GPUID(rapid.IntRange(0, len(h.gpus)-1).Draw(h.r, "gpu"))
	g := &h.gpus[id]
	if len(g.orders) == 0 || g.orders[0].Start > h.now {
		return
	}
	l := g.orders[0]
	g.orders = g.orders[1:]
	ok := rapid.IntRange(0, 4).Draw(h.r, "ok") > 0
	if !ok {
		g.used -= g.has[weights{l.Model, l.Generation}]
		delete(g.has, weights{l.Model, l.Generation})
		h.shown.failed++
		for i := range h.runs {
			h.runs[i].void = h.runs[i].void || h.runs[i].generation == l.Generation && h.runs[i].gpu == id
		}
	}
	start := max(g.busy, l.Start)
	g.busy = max(start, h.now)
	if !h.p.Loaded(h.now, residency.Report{ID: l.ID, Start: start, End: g.busy, OK: ok}, &h.out) {
		h.r.Fatalf("the report of %+v is not known", l)
	}
	if _, held := h.p.Residency().Held(l.Model, id); held && !ok && h.generation(l.Model, id) == l.Generation {
		h.r.Fatalf("the load %+v has failed, and the model is held", l)
	}
}

func (h *history) generation(id wire.ModelID, gpu wire.GPUID) residency.Generation {
	at, _ := h.p.Residency().Held(id, gpu)
	return at.Generation
}
