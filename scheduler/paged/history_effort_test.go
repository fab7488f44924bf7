package paged

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// efforts are requests of best effort in a history.
type efforts struct {
	waits [6]int
	fills []gaps.Grant // not answered
	stale []gaps.Grant // of those, to models that were removed
}

// effortLeast is how long a gap must be for one.
const effortLeast = historyNet + 3*ms

// effort has some come for a model, or all that wait cancelled.
func (h *history) effort(id wire.ModelID) {
	if !h.models[id].known {
		return
	}
	n := &h.efforts.waits[id]
	if *n += 1 + rapid.IntRange(0, 2).Draw(h.r, "efforts"); rapid.IntRange(0, 9).Draw(h.r, "cancelled") == 0 {
		*n = 0
	}
	h.p.SetWish(h.now, h.wish(id))
}

func (h *history) wish(id wire.ModelID) gaps.Wish {
	w := gaps.Wish{Model: id}
	if h.efforts.waits[id] > 0 {
		w.Least = effortLeast
	}
	return w
}

// forgets: a model is removed, and its requests are answered.
func (h *history) forgets(id wire.ModelID) {
	h.efforts.waits[id] = 0
	for _, g := range h.efforts.fills {
		if g.Model == id {
			h.efforts.stale = append(h.efforts.stale, g)
		}
	}
}

// lent checks what GPUs were lent to whom in the last Step.
func (h *history) lent() {
	for _, g := range h.out.Fills {
		at, held := h.p.Residency().Held(g.Model, g.GPU)
		on := func(gpu wire.GPUID, life devices.Life) bool { return gpu == g.GPU && life == g.Life }
		switch {
		case h.efforts.waits[g.Model] == 0 || g.Until.Sub(max(h.now, g.FreeAt)) < effortLeast:
			h.r.Fatalf("at %v %+v: %d requests wait", h.now, g, h.efforts.waits[g.Model])
		case !held || at.Loading || at.Generation != residency.Generation(g.Generation) || h.gpus[g.GPU].life != g.Life:
			h.r.Fatalf("at %v %+v: the GPU holds %+v", h.now, g, at)
		case len(h.out.Grants) > 0 || slices.ContainsFunc(h.runs, func(k running) bool { return on(k.gpu, k.life) }) ||
			slices.ContainsFunc(h.grants, func(k devices.Grant) bool { return on(k.GPU, k.Life) }) ||
			slices.ContainsFunc(h.efforts.fills, func(k gaps.Grant) bool {
				return on(k.GPU, k.Life) || k.Model == g.Model && !slices.Contains(h.efforts.stale, k)
			}):
			h.r.Fatalf("at %v %+v beside %+v, %+v, %+v", h.now, g, h.grants, h.runs, h.efforts.fills)
		}
		h.shown.lent++
		h.efforts.fills = append(h.efforts.fills, g)
	}
	h.out.Fills = h.out.Fills[:0]
}

// spared checks a load for best effort: the loader has nothing else to do, and nobody with a deadline counts on who made room.
func (h *history) spared(l *residency.Load) {
	if len(h.gpus[l.GPU].orders) > 0 || l.Start != h.now {
		h.r.Fatalf("at %v %+v behind %+v", h.now, *l, h.gpus[l.GPU].orders)
	}
	h.shown.spared++
}

// fill answers the oldest loan.
func (h *history) fill() {
	if len(h.efforts.fills) == 0 {
		return
	}
	g := h.efforts.fills[0]
	h.efforts.fills = h.efforts.fills[1:]
	a, start := gaps.Answer{Grant: g}, max(h.now.Add(historyNet), g.FreeAt)
	most := int(min(8, g.Until.Sub(start)/ms-2))
	if n := min(most, h.efforts.waits[g.Model]); n > 0 && rapid.IntRange(0, 5).Draw(h.r, "used") > 0 {
		h.batch++
		a.Batch, a.Exec, a.Until = h.batch, start, start.Add(mono.Dur(2+n)*ms)
		h.efforts.waits[g.Model] -= n
	}
	a.Least = h.wish(g.Model).Least
	h.p.Filled(h.now, a)
	if at := &h.gpus[g.GPU]; a.Batch != 0 && at.life == g.Life {
		k := running{gpu: g.GPU, life: g.Life, id: a.Batch, model: g.Model, generation: residency.Generation(g.Generation)}
		k.void = at.has[weights{g.Model, k.generation}] == 0 || slices.Contains(h.efforts.stale, g)
		h.runs = append(h.runs, k)
	}
}
