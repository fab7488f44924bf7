package residency

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// none is no place.
const none int32 = 0

// state of a model on a GPU; absent has no place.
type state uint8

const (
	loading state = iota
	resident
)

// place is a model on a GPU.
type place struct {
	model      wire.ModelID
	gpu        wire.GPUID
	generation Generation
	state      state
	owned      bool  // it is among its model's holders: the model was not removed
	pages      int32 // of the model when it was loaded
	uses       int32
	share      mono.Dur  // a
	from       mono.Time // batches may start from then on
	used       mono.Time // last, for deadlines; Past: loaded for best effort, and only used by it
	spared     mono.Time // last, for best effort: run with, or loaded
	older      int32     // of the GPU's places, by last use
	newer      int32
	next       int32 // of the model's places, by GPU id; of the free ones
}

// places are all places, in one piece of memory; a place is an index, which is used
// again when it is dropped. Sparse: of a thousand models a GPU holds some two hundred.
//
// Rejected: a table of models by GPUs. It is 4,000 x 20 places of which 5 % are in use, and
// to go over a model's holders, or a GPU's models, would be to go over a row of it.
type places struct {
	all  []place // [0] is none
	free int32   // the first that is not in use
}

func newPlaces() places { return places{all: make([]place, 1), free: none} }

// take is a place that is not in use.
func (s *places) take() int32 {
	if p := s.free; p != none {
		s.free = s.all[p].next
		return p
	}
	s.all = append(s.all, place{})
	return int32(len(s.all) - 1)
}

// give makes a place one that is not in use.
func (s *places) give(p int32) {
	s.all[p] = place{next: s.free}
	s.free = p
}

// of is the model's place on the GPU; none: it is absent there. O(holders).
func (s *places) of(m *model, id wire.GPUID) int32 {
	for p := m.holders; p != none; p = s.all[p].next {
		if s.all[p].gpu == id {
			return p
		}
	}
	return none
}

// settle takes pages of the GPU for the model, whose batches may start from then on: it is loading
// there, and was used now.
func (r *Residency) settle(now mono.Time, id wire.ModelID, on wire.GPUID, gen Generation, from mono.Time) int32 {
	m, g := &r.models[id], &r.gpus[on]
	p := r.places.take()
	r.places.all[p] = place{model: id, gpu: on, generation: gen, owned: true, pages: m.pages, from: from, used: now, spared: mono.Past}
	g.free -= int(m.pages)
	g.held++
	invariants.Check(g.free >= 0, "residency: fewer than no pages are free")
	r.push(g, p)
	at := &m.holders
	for *at != none && r.places.all[*at].gpu < on {
		at = &r.places.all[*at].next
	}
	r.places.all[p].next, *at = *at, p
	m.copies++
	return p
}

// arrived: the weights are there.
func (r *Residency) arrived(p int32) {
	at := &r.places.all[p]
	at.state = resident
	if at.owned {
		r.models[at.model].ready++
	}
	r.account(at, 1)
}

// disown takes a place away from its model, with its share. The weights stay where they are.
func (r *Residency) disown(p int32, out *Out) int32 {
	at := &r.places.all[p]
	m, g := &r.models[at.model], &r.gpus[at.gpu]
	r.account(at, -1)
	g.load -= at.share
	at.share, at.owned = 0, false
	r.orphans++
	link := &m.holders
	for *link != p {
		link = &r.places.all[*link].next
	}
	*link = at.next
	m.copies--
	if at.state == resident {
		m.ready--
	}
	r.account(at, 1)
	out.Displaces = append(out.Displaces, Displace{at.model, at.gpu, at.generation})
	return p
}

// lingers reports whether the GPU still has weights of a model of that id which was removed: they are in use, or their
// load is not reported. Until they are gone, none are loaded there under the same id.
func (r *Residency) lingers(id wire.ModelID, g *gpu) bool {
	if r.orphans == 0 { // nearly always
		return false
	}
	for p := g.oldest; p != none; p = r.places.all[p].newer {
		if at := &r.places.all[p]; at.model == id && !at.owned {
			return true
		}
	}
	return false
}

// drop gives the pages of a place that was disowned back to its GPU.
func (r *Residency) drop(p int32) {
	at := &r.places.all[p]
	invariants.Check(!at.owned, "residency: a place dropped that is its model's")
	r.orphans--
	g := &r.gpus[at.gpu]
	r.account(at, -1)
	g.free += int(at.pages)
	g.held--
	invariants.Check(g.free <= g.pages, "residency: more pages are free than there are")
	r.unlink(g, p)
	r.places.give(p)
}

// unload orders the weights of a place that was disowned to be forgotten, for u.Why.
func (r *Residency) unload(p int32, u Unload, out *Out) {
	at := &r.places.all[p]
	invariants.Check(at.state == resident && at.uses == 0, "residency: a model unloaded that is loading or in use")
	u.Model, u.GPU, u.Generation, u.Used = at.model, at.gpu, at.generation, at.used
	out.Unloads = append(out.Unloads, u)
	r.counts.Unloads++
	r.gpus[at.gpu].did.unloads[u.Why]++
	r.gpus[at.gpu].unloaded += int(at.pages)
	r.drop(p)
}

// account counts the pages of a place among those that could make room, sign 1, or takes
// them away, sign -1: before and after whatever decides it.
func (r *Residency) account(at *place, sign int) {
	if at.state != resident || at.uses > 0 || r.stays(at) {
		return
	}
	g := &r.gpus[at.gpu]
	g.loose += sign * int(at.pages)
	if !at.owned || r.models[at.model].waiting.Len() == 0 {
		g.idle += sign * int(at.pages)
	}
}

// use changes how many batches use a place.
func (r *Residency) use(p int32, by int32) {
	at := &r.places.all[p]
	r.account(at, -1)
	at.uses += by
	invariants.Check(at.uses >= 0, "residency: a place is used by fewer than none")
	r.account(at, 1)
	if at.uses == 0 {
		r.unused()
	}
	if at.uses == 0 && !at.owned && at.state == resident {
		r.leaving = append(r.leaving, p)
	}
}

// touch makes a place the one of its GPU that was used last.
func (r *Residency) touch(now mono.Time, p int32) {
	g := &r.gpus[r.places.all[p].gpu]
	r.places.all[p].used = now
	if g.newest != p || g.spares == p {
		r.unlink(g, p)
		r.push(g, p)
	}
}

func (r *Residency) push(g *gpu, p int32) {
	at := &r.places.all[p]
	at.older, at.newer = g.newest, none
	if g.newest != none {
		r.places.all[g.newest].newer = p
	} else {
		g.oldest = p
	}
	g.newest = p
}

// pushSpare puts a place behind the others that best effort alone uses, and before all that requests with deadlines use.
func (r *Residency) pushSpare(g *gpu, p int32) {
	at := &r.places.all[p]
	at.older, at.newer = g.spares, g.oldest
	if g.spares != none {
		at.newer = r.places.all[g.spares].newer
		r.places.all[g.spares].newer = p
	} else {
		g.oldest = p
	}
	if at.newer != none {
		r.places.all[at.newer].older = p
	} else {
		g.newest = p
	}
	g.spares = p
}

func (r *Residency) unlink(g *gpu, p int32) {
	at := &r.places.all[p]
	if g.spares == p {
		g.spares = at.older
	}
	if at.older != none {
		r.places.all[at.older].newer = at.newer
	} else {
		g.oldest = at.newer
	}
	if at.newer != none {
		r.places.all[at.newer].older = at.older
	} else {
		g.newest = at.older
	}
}
