package gaps

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Wish is a model that has best-effort requests waiting.
type Wish struct {
	Model wire.ModelID
	// Least is how long a gap must be at least: the order's way and l(1). 0: nothing waits.
	Least mono.Dur
}

// Grant lends a GPU to a model: for the largest batch of best effort that ends by Until.
type Grant struct {
	Model         wire.ModelID
	GPU           wire.GPUID
	Life          devices.Life
	Generation    uint32    // of the model's weights there; 0 where pools are resident
	FreeAt, Until mono.Time // Never: as long as it likes
}

// Answer is a model's reply. Batch 0: it used the GPU for nothing.
type Answer struct {
	Grant       Grant
	Batch       wire.BatchID
	Exec, Until mono.Time // planned
	Least       mono.Dur  // its Wish from now on
}

// model is what is known of one.
type model struct {
	least    mono.Dur // of its last Wish that was not 0; 0: it had none
	at       int      // its position in Gaps.order
	waits    bool
	granting bool
	taken    mono.Dur  // GPU time, and what it did not ask for while others did
	places   []uint32  // where it may run
	lacks    mono.Time // see Lack
}

// Gaps is who may fill gaps, and how long they may be.
type Gaps struct {
	models  []model  // by id
	order   []uint32 // ids that had a Wish, by least and id
	places  []tree   // by place: position in order -> taken
	stale   bool     // order has changed since the trees were built
	waiting int      // models
	clock   mono.Dur // taken of the model that was granted last
	lent    []wire.BatchID
	running int // of them
	slacks  Slacks
	lacks   tree // as places: position in order -> since when it lacks weights
}

// pending stands in Gaps.lent for a batch that is not known yet.
const pending = ^wire.BatchID(0)

// New makes Gaps without models.
func New() *Gaps { return &Gaps{} }

// Waiting is how many models have requests waiting that could be granted a GPU.
func (g *Gaps) Waiting() int { return g.waiting }

// Running is how many GPUs are lent.
func (g *Gaps) Running() int { return g.running }

// Wanted tells whether anybody waits at a place.
func (g *Gaps) Wanted(place uint32) bool {
	if g.stale {
		g.build()
	}
	return int(place) < len(g.places) && !g.places[place].empty()
}

// Known tells whether the model has ever had a Wish.
func (g *Gaps) Known(id wire.ModelID) bool { return int(id) < len(g.models) && g.models[id].least > 0 }

// Set takes a Wish. While a grant to the model is under way it is void: the answer tells.
func (g *Gaps) Set(w Wish) {
	for int(w.Model) >= len(g.models) {
		g.models = append(g.models, model{lacks: mono.Never})
	}
	m := &g.models[w.Model]
	if m.granting {
		return
	}
	if w.Least > 0 && w.Least != m.least {
		g.move(uint32(w.Model), m, w.Least)
	}
	switch {
	case w.Least > 0 && !m.waits:
		m.waits, m.taken = true, max(m.taken, g.clock)
		g.waiting++
		g.enter(m, int64(m.taken))
	case w.Least == 0 && m.waits:
		m.waits = false
		g.waiting--
		g.enter(m, none)
	}
}

// move gives the model its place in the order of lengths. O(models), once for each, and when its length changes.
func (g *Gaps) move(id uint32, m *model, least mono.Dur) {
	if m.least > 0 {
		g.order = slices.Delete(g.order, m.at, m.at+1)
	}
	m.least = least
	at, _ := slices.BinarySearchFunc(g.order, id, func(other, id uint32) int {
		if a, b := g.models[other].least, least; a != b {
			return int(min(1, max(-1, a-b)))
		}
		return int(int64(other) - int64(id))
	})
	g.order = slices.Insert(g.order, at, id)
	for i, other := range g.order {
		g.models[other].at = i
	}
	g.stale = true
}

// enter sets the model's key wherever it may run.
func (g *Gaps) enter(m *model, key int64) {
	if g.stale {
		return // build will
	}
	for _, p := range m.places {
		g.places[p].set(m.at, key)
	}
	if key != none {
		key = int64(m.lacks)
	}
	g.lacks.set(m.at, key)
}

// build makes all trees anew.
func (g *Gaps) build() {
	g.stale = false
	for i := range g.places {
		g.places[i].reset(len(g.order))
	}
	g.lacks.reset(len(g.order))
	for i := range g.models {
		if m := &g.models[i]; m.waits {
			g.enter(m, int64(m.taken))
		}
	}
}

// Put says that the model may run at a place; resident pools have one place for all GPUs, paged ones one for each.
// It has had a Wish.
func (g *Gaps) Put(id wire.ModelID, place uint32) {
	m := &g.models[id]
	if slices.Contains(m.places, place) {
		return
	}
	m.places = append(m.places, place)
	if int(place) >= len(g.places) {
		g.places = append(g.places, make([]tree, int(place)+1-len(g.places))...)
		g.stale = true
	}
	if m.waits && !g.stale {
		g.places[place].set(m.at, int64(m.taken))
	}
}

// Away says that it may no longer.
func (g *Gaps) Away(id wire.ModelID, place uint32) {
	if !g.Known(id) {
		return
	}
	m := &g.models[id]
	i := slices.Index(m.places, place)
	if i < 0 {
		return
	}
	m.places = slices.Delete(m.places, i, i+1)
	if !g.stale {
		g.places[place].set(m.at, none)
	}
}

// Remove forgets a model. An answer to a grant under way is taken.
func (g *Gaps) Remove(id wire.ModelID) {
	if !g.Known(id) {
		return
	}
	g.Set(Wish{Model: id})
	m := &g.models[id]
	g.order = slices.Delete(g.order, m.at, m.at+1)
	for i, other := range g.order {
		g.models[other].at = i
	}
	*m = model{granting: m.granting, places: m.places[:0], lacks: mono.Never}
	g.stale = true
}

// Pick is whom to lend a GPU at a place for so long: of those whose shortest batch ends in that time, the one that has had the
// least GPU time.
func (g *Gaps) Pick(place uint32, length mono.Dur) (id wire.ModelID, ok bool) {
	if !g.Wanted(place) {
		return 0, false
	}
	n, _ := slices.BinarySearchFunc(g.order, length, func(id uint32, length mono.Dur) int {
		if g.models[id].least <= length {
			return -1
		}
		return 1
	})
	at, ok := g.places[place].first(n)
	if !ok {
		return 0, false
	}
	return wire.ModelID(g.order[at]), true
}

// Lend notes that a GPU is granted to the model, which was Picked.
func (g *Gaps) Lend(id wire.ModelID, gpu uint32) {
	m := &g.models[id]
	invariants.Check(m.waits && !m.granting, "gaps: a grant to a model that does not wait")
	m.granting, m.waits = true, false
	g.waiting--
	g.enter(m, none)
	g.clock = max(g.clock, m.taken)
	for int(gpu) >= len(g.lent) {
		g.lent = append(g.lent, 0)
	}
	g.lent[gpu] = pending
	g.running++
}

// Answer takes the model's reply. alive: the GPU still lives the life that was lent.
func (g *Gaps) Answer(a *Answer, alive bool) {
	m := &g.models[a.Grant.Model]
	m.granting = false
	switch gpu := a.Grant.GPU; {
	case !alive:
	case a.Batch == 0:
		g.back(gpu)
	default:
		g.lent[gpu] = a.Batch
	}
	if a.Batch != 0 {
		m.taken += a.Until.Sub(a.Exec)
	}
	g.Set(Wish{a.Grant.Model, a.Least})
}

// Ended tells that a batch is over.
func (g *Gaps) Ended(gpu wire.GPUID, batch wire.BatchID) {
	if int(gpu) < len(g.lent) && g.lent[gpu] == batch {
		g.back(gpu)
	}
}

// RemoveGPU ends a GPU's life.
func (g *Gaps) RemoveGPU(gpu wire.GPUID) { g.back(gpu) }

func (g *Gaps) back(gpu wire.GPUID) {
	if int(gpu) < len(g.lent) && g.lent[gpu] != 0 {
		g.lent[gpu] = 0
		g.running--
	}
}
