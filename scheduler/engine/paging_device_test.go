package engine

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// worldGPU is a device.
type worldGPU struct {
	side    *worldSide // nil: nobody has it
	life    GPU
	pages   int
	held    map[wire.ModelID]*worldWeights
	odd     map[residency.Generation]int // weights whose model has no id: pages
	loads   []worldLoad                  // that are not done, in their order
	batches []worldBatch
	missing map[residency.Generation]bool // it has said so, or took others in their place, or never had them and was said to
}

// lateReport is one that is on its way to who had the device when it came.
type lateReport struct {
	to *worldSide
	LoadReport
}

type worldWeights struct {
	generation residency.Generation
	pages      int
	foreign    bool // of an order that this life did not give
}

type worldLoad struct {
	LoadOrder
	foreign bool
}

type worldBatch struct {
	id         wire.BatchID
	model      wire.ModelID
	generation residency.Generation
	requests   []wire.RequestID
}

func (g *worldGPU) empty() {
	g.held, g.odd, g.loads = map[wire.ModelID]*worldWeights{}, map[residency.Generation]int{}, nil
}

// used are the pages that are taken.
func (g *worldGPU) used() (n int) {
	for _, x := range g.held {
		n += x.pages
	}
	for _, pages := range g.odd {
		n += pages
	}
	return n
}

func (g *worldGPU) uses(id wire.ModelID) bool {
	return slices.ContainsFunc(g.batches, func(b worldBatch) bool { return b.model == id && b.generation == g.held[id].generation })
}

// comes: the weights are on their way.
func (g *worldGPU) comes(id wire.ModelID, gen residency.Generation) bool {
	return slices.ContainsFunc(g.loads, func(o worldLoad) bool { return o.Model == id && o.Generation == gen })
}

// loaded does a device's first load, as a backend does.
func (w *pagedWorld) loaded(g *worldGPU) {
	if len(g.loads) == 0 {
		return
	}
	o := g.loads[0]
	g.loads = g.loads[1:]
	w.now = w.now.Add(mono.Microsecond)
	r := residency.Report{ID: o.ID, Start: max(o.Earliest, w.now.Add(-3*mono.Millisecond)), End: w.now, Tells: true}
	came := &worldWeights{o.Generation, o.Pages, o.foreign}
	if o.foreign { // a backend has a model's pages of now
		came.pages = w.pagesOf(o.Model)
	}
	if x := g.held[o.Model]; x != nil { // the newer order holds
		if o.foreign && x.generation == came.generation { // of the same number, by chance: to the engine they are what it knows
			*came = *x
		}
		g.missing[x.generation] = true
		delete(g.held, o.Model)
	}
	switch n := w.pick(16); {
	case g.used()+came.pages > g.pages:
		r.Reason = wire.ReasonMemory
		w.memory++
	case n == 0 && !w.calm:
		r.Reason = wire.ReasonLate
	case n == 1 && !w.calm:
		r.Reason = wire.ReasonExecution
	default:
		r.OK = true
		g.held[o.Model] = came
	}
	if !r.OK {
		w.failed++
	}
	r.Free = g.pages - g.used()
	if g.side == nil {
		return
	}
	if o.foreign {
		w.foreign++
	}
	report := LoadReport{r, g.life, o.Model, o.Generation}
	w.reports = append(w.reports, report)
	i := slices.Index(w.gpus[:], g)
	if w.late[i] = append(w.late[i], lateReport{g.side, report}); w.pick(4) > 0 {
		w.arrive(i)
	}
}

// arrive brings a device's reports to the engines: perhaps it is another one's by now.
func (w *pagedWorld) arrive(id int) {
	for _, r := range w.late[id] {
		r.to.e.Loaded(r.LoadReport)
	}
	w.late[id] = nil
}

// Load implements Loader.
func (s *worldSide) Load(o *LoadOrder) {
	g := s.of(o.GPU, o.Life)
	switch {
	case g == nil:
	case o.Model == wire.ModelNone:
		s.forgets(g, o.Generation)
	case o.ID == 0:
		s.unloads++
		x := g.held[o.Model]
		switch {
		case x != nil && x.generation == o.Generation && !g.uses(o.Model):
			delete(g.held, o.Model)
		case !g.missing[o.Generation]:
			s.fail("%+v of %+v, in use: %v", *o, x, x != nil && g.uses(o.Model))
		}
	default:
		s.takes(g, o)
	}
}

// forgets is an order to unload what has no id.
func (s *worldSide) forgets(g *worldGPU, gen residency.Generation) {
	s.forgotten++
	if gen == 0 {
		s.short++
		clear(g.odd)
		return
	}
	if g.odd[gen] == 0 {
		s.fail("an order to forget generation %d of no model, where %v is", gen, g.odd)
	}
	delete(g.odd, gen)
}

// takes is an order to load: it must fit beside all that this life may know of.
func (s *worldSide) takes(g *worldGPU, o *LoadOrder) {
	used, twice := 0, false
	for model, x := range g.held {
		if !x.foreign {
			used += x.pages
			twice = twice || model == o.Model
		}
	}
	for _, before := range g.loads {
		if !before.foreign {
			used += before.Pages
			twice = twice || before.Model == o.Model
		}
	}
	if twice || used+o.Pages > g.pages {
		s.fail("%+v where its model is (%v), and %d of %d pages are used", *o, twice, used, g.pages)
	}
	g.loads = append(g.loads, worldLoad{*o, false})
}
