package paged

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// settle carries out what the last event brought, steps until nothing is due, and checks the rules.
func (h *history) settle() {
	h.carry()
	for id := range h.models {
		h.models[id].free = h.models[id].free || h.p.eager()
	}
	for turn := 0; h.p.NextWake() <= h.now; turn++ {
		if turn == 100 {
			h.r.Fatalf("at %v something is always due", h.now)
		}
		h.look()
		from := len(h.grants)
		h.p.Step(h.now, &h.out)
		granted := slices.Clone(h.out.Grants)
		h.lent()
		h.grants = append(h.grants, granted...)
		h.carry()
		for _, g := range granted {
			h.granted(g)
		}
		for _, g := range h.grants[from:] {
			h.models[g.Model].candidate.Size = 0
		}
		h.out.Reset()
	}
	h.unloadsNothingUsed()
	for id := range h.models {
		if h.models[id].known {
			h.waits(wire.ModelID(id))
			h.floors(wire.ModelID(id))
		}
	}
}

// look keeps what a Step starts from.
func (h *history) look() {
	for id := range h.models {
		h.asked[id], h.leads[id], h.waited[id] = h.models[id].candidate, 0, false
		if m := h.p.model(wire.ModelID(id)); m != nil {
			h.leads[id], h.waited[id] = h.p.leads.of(len(m.places)), m.ready
			if h.heads[id] = h.p.gpus.HeadStart(&m.usage, h.now); h.cfg.Eager {
				h.heads[id] = 0
			}
		}
	}
	for id := range h.gpus {
		h.before[id] = mono.Never
		if h.gpus[id].life > 0 {
			h.before[id] = h.p.gpus.FreeAt(uint32(id))
		}
	}
}

// start is until when a holder of the model, whose candidate was c, must have been free to be taken at once:
// that of the longest lead that it may have had in the last Step, or when an order sent now arrives.
func (h *history) start(id wire.ModelID, c *batching.Candidate) mono.Time {
	exec := h.exec(c)
	if !h.cfg.NoLead {
		lead := max(h.leads[id], h.p.leads.of(len(h.p.models[id].places)))
		exec = exec.Add(-lead - lead/100) // it may have been forgotten a little since
	}
	return min(max(exec, h.now.Add(c.Delay)), c.Latest)
}

// exec is the start that a candidate waits for, without a lead; none, where the last Step had reason not to defer.
func (h *history) exec(c *batching.Candidate) mono.Time {
	if h.p.eager() {
		return mono.Past
	}
	return h.deferred(c)
}

// deferred is the same under deferral: a Step that finds pages short has granted before.
func (h *history) deferred(c *batching.Candidate) mono.Time {
	if h.cfg.WholeDeferral {
		return c.Deferred()
	}
	return c.Exec
}

// carry does what the matchmaker orders: its GPUs never have more in them than they have pages for.
func (h *history) carry() {
	for _, u := range h.out.Unloads {
		g, was := &h.gpus[u.GPU], weights{u.Model, u.Generation}
		g.used -= g.has[was]
		delete(g.has, was)
	}
	for _, l := range h.out.Loads {
		g := &h.gpus[l.GPU]
		if g.used += l.Pages; g.used > g.pages || g.has[weights{l.Model, l.Generation}] != 0 {
			h.r.Fatalf("at %v: %d pages of %d, %v are there: %+v", h.now, g.used, g.pages, g.has, l)
		}
		g.has[weights{l.Model, l.Generation}] = l.Pages
		if l.Spare {
			h.spared(&l)
		}
		g.orders = append(g.orders, l)
	}
	h.out.Unloads, h.out.Loads = h.out.Unloads[:0], h.out.Loads[:0]
	for _, f := range h.out.Floors {
		if m := &h.models[f.Model]; m.known && m.floor != f.Until {
			m.floor = f.Until
			h.shown.floors++
			h.tell(f.Model)
		}
	}
	h.out.Floors = h.out.Floors[:0]
}

// granted checks a grant of the last Step against rules 1, 2 and 3.
func (h *history) granted(g devices.Grant) {
	c := h.asked[g.Model]
	exec := h.exec(&c)
	at, held := h.p.Residency().Held(g.Model, g.GPU)
	switch same := func(k devices.Grant) bool { return k.Model == g.Model || k.GPU == g.GPU && k.Life == g.Life }; {
	case c.Size == 0 || h.cfg.NoLead && exec.Add(-c.Delay) > h.now && !h.models[g.Model].free:
		h.r.Fatalf("at %v model %d is granted with %+v", h.now, g.Model, c)
	case len(slices.DeleteFunc(slices.Clone(h.grants), func(k devices.Grant) bool { return !same(k) })) > 1:
		h.r.Fatalf("at %v %+v is granted beside another: %+v", h.now, g, h.grants)
	case !held || at.Generation != residency.Generation(g.Generation) || h.gpus[g.GPU].life != g.Life || h.gpus[g.GPU].has[weights{g.Model, at.Generation}] == 0:
		h.r.Fatalf("at %v %+v: the GPU holds %+v", h.now, g, at)
	case g.FreeAt != max(h.before[g.GPU], at.From) || g.FreeAt.Add(-c.Delay) > h.now && g.FreeAt > h.deferred(&c):
		h.r.Fatalf("at %v %+v: free at %v, weights from %v", h.now, g, h.before[g.GPU], at.From)
	case g.FreeAt > c.Latest:
		h.r.Fatalf("at %v %+v: too late for %+v", h.now, g, c)
	}
	if at.Loading {
		h.shown.loading++
	}
	if g.Idle {
		h.shown.idle++
		h.smallest(g, h.start(g.Model, &c))
	} else {
		h.shown.awaited++
		h.first(g)
	}
}

// smallest: holders with smaller ids were not to be had by then, or went to others in this Step.
func (h *history) smallest(g devices.Grant, start mono.Time) {
	for _, at := range h.p.Residency().Holders(g.Model, nil) {
		taken := slices.ContainsFunc(h.grants, func(k devices.Grant) bool { return k.GPU == at.GPU && k.Life == h.gpus[at.GPU].life })
		if at.GPU < g.GPU && !taken && max(h.before[at.GPU], at.From) <= start && at.From <= h.now {
			h.r.Fatalf("at %v %+v: GPU %d, a holder too, is free from %v", h.now, g, at.GPU, h.before[at.GPU])
		}
		if at.GPU < g.GPU && !h.cfg.NoLead {
			h.shown.passed++
		}
	}
}

// first: nobody who still waits for that GPU, and could have had it, is due earlier, head starts included.
func (h *history) first(g devices.Grant) {
	key := h.key(g.Model)
	for i := range h.models {
		id, c := wire.ModelID(i), h.models[i].candidate
		at, held := h.p.Residency().Held(id, g.GPU)
		granted := slices.ContainsFunc(h.grants, func(k devices.Grant) bool { return k.Model == id })
		waited := h.waited[id] || h.cfg.NoLead && h.deferred(&c).Add(-c.Delay) <= h.now
		if h.models[id].known && !granted && waited && held && c.Size > 0 && at.From <= h.now &&
			c.Latest.Add(-c.Delay) >= h.now && c.Latest >= max(h.before[g.GPU], at.From) && h.p.models[id].ready && h.key(id) < key {
			h.r.Fatalf("at %v %+v: model %d is due earlier, with %+v and a head start of %v", h.now, g, id, c, h.heads[id])
		}
	}
}

// key is by what the model is due: its candidate's latest less its head start, which it may have got when it
// began to wait.
func (h *history) key(id wire.ModelID) mono.Time {
	key, c := h.p.models[id].key, h.asked[id]
	if head := c.Latest.Sub(key); !h.waited[id] && head != h.heads[id] || h.cfg.ByLatest && head != 0 {
		h.r.Fatalf("at %v model %d with %+v is due by %v, its head start is %v", h.now, id, c, key, h.heads[id])
	} else if head != 0 {
		h.shown.heads++
	}
	return key
}

// waits: no candidate waits while a holder is there that it may take (rules 1 and 2).
func (h *history) waits(id wire.ModelID) {
	c := h.models[id].candidate
	exec := h.exec(&c)
	if !h.models[id].hasty && h.now >= h.p.short {
		exec = h.deferred(&c) // what was deferred stays so when best effort waits no more
	}
	if c.Size == 0 || exec.Add(-c.Delay) > h.now || c.Latest.Add(-c.Delay) < h.now {
		return
	}
	for _, at := range h.p.Residency().Holders(id, nil) {
		free := max(h.p.gpus.FreeAt(uint32(at.GPU)), at.From)
		if free.Add(-c.Delay) <= h.now && free <= c.Latest {
			h.r.Fatalf("at %v model %d waits with %+v, GPU %d is free from %v, with weights from %v", h.now, id, c, at.GPU, h.p.gpus.FreeAt(uint32(at.GPU)), at.From)
		}
	}
}

// floors: while all that hold a model are loading, it was told when the first of them is done.
func (h *history) floors(id wire.ModelID) {
	holders := h.p.Residency().Holders(id, nil)
	least := mono.Never
	for _, at := range holders {
		least = min(least, at.From)
	}
	if told := h.models[id].floor; len(holders) > 0 && max(least, h.now) != max(told, h.now) {
		h.r.Fatalf("at %v model %d, held from %v on, was told %v", h.now, id, least, told)
	}
	places := h.p.models[id].places
	if len(places) != len(holders) {
		h.r.Fatalf("at %v model %d: %+v, held by %+v", h.now, id, places, holders)
	}
	for i, at := range holders {
		if k := places[i]; k.gpu != uint32(at.GPU) || k.generation != at.Generation || k.from != at.From {
			h.r.Fatalf("at %v model %d: %+v, held by %+v", h.now, id, places, holders)
		}
	}
}

// unloadsNothingUsed: what is granted or runs has its weights, unless its load failed (rule 4).
func (h *history) unloadsNothingUsed() {
	for _, k := range h.runs {
		if !k.void && h.gpus[k.gpu].has[weights{k.model, k.generation}] == 0 {
			h.r.Fatalf("at %v a batch runs on GPU %d that counts on generation %d of model %d: %v are there", h.now, k.gpu, k.generation, k.model, h.gpus[k.gpu].has)
		}
	}
}
