package paged

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fill is best effort: GPUs that nobody with a deadline wants for a while, for models whose weights are there (package
// gaps; each GPU is a place of its own).
//
// Invariant: a GPU is lent only where no batch is undone, in a Step that grants nothing, and the highest id first of those that
// hold somebody who waits.
type fill struct {
	gaps.Offer
	loads gaps.Slacks  // of the loads for requests with deadlines: how much later each could have begun
	freed []uint32     // GPUs whose batch of best effort has ended since the last Step
	rest  mono.Time    // no look for whom to load before
	asks  wire.ModelID // for whom weights are asked to make room (Yields)
	slice mono.Dur     // of GPU time that those who make room have had more, at least

	openings residency.Openings // of this look for whom to load, if counted
	counted  bool
}

// placed: a GPU has the weights of a model, or is loading them until from.
func (f *fill) placed(id wire.ModelID, k *place, there bool, now mono.Time) {
	if !f.Gaps.Known(id) {
		return
	}
	if f.Gaps.Lack(id, max(now, k.from).Add(backlog)); there {
		f.Gaps.Put(id, k.gpu)
		f.Look = mono.Past
	}
}

// gone: they are not, or not any more. elsewhere: others are, or will be.
func (f *fill) gone(id wire.ModelID, gpu uint32, elsewhere bool, now mono.Time) {
	if f.Gaps == nil || !f.Gaps.Known(id) {
		return
	}
	if f.Gaps.Away(id, gpu); !elsewhere {
		f.Gaps.Lack(id, now)
	}
}

// SetWish tells that a model has requests of best effort, or has none any more. While a GPU is lent to it and no
// answer has come, it is void: the answer tells.
func (p *Paged) SetWish(now mono.Time, w gaps.Wish) {
	f := &p.fill
	if m := p.model(w.Model); m == nil || m.gone || f.Gaps == nil && w.Least == 0 {
		return
	}
	if f.Gaps == nil {
		f.Gaps = gaps.New()
		p.recall()
	}
	known, waited := f.Gaps.Known(w.Model), f.Gaps.Waits(w.Model)
	f.Gaps.Set(w)
	f.Look = mono.Past
	if waited || !f.Gaps.Waits(w.Model) {
		return
	}
	p.lacks(now, w.Model)
	if !known {
		p.tellPlaces(w.Model)
	}
}

// tellPlaces tells the gaps where a model is that they have just come to know.
func (p *Paged) tellPlaces(id wire.ModelID) {
	for i := range p.models[id].places {
		if k := &p.models[id].places[i]; p.there(id, k.gpu) {
			p.fill.Gaps.Put(id, k.gpu)
		}
	}
}

// there tells whether the weights of a place have come.
func (p *Paged) there(id wire.ModelID, gpu uint32) bool {
	at, ok := p.residency.Held(id, wire.GPUID(gpu))
	return ok && !at.Loading
}

// recall tells the new gaps who has deadlines: each counts as if it had run in the latest span in which any has.
func (p *Paged) recall() {
	for _, m := range p.models {
		if m != nil && m.slack > 0 {
			p.fill.Gaps.Ran(m.usage.Last(), m.slack)
		}
	}
}

// fillGaps lends GPUs.
func (p *Paged) fillGaps(out *Out) {
	f := &p.fill
	if len(out.Grants) > 0 {
		f.Look = mono.Past // those who were granted have their next candidates first
		return
	}
	f.Look = p.now.Add(gaps.Patience)
	below := uint32(math.MaxUint32)
	for f.Waiting() {
		gpu, free, ok := p.gpus.LastIdle(below)
		if !ok {
			return
		}
		if below = gpu; f.Gaps.Wanted(gpu) {
			p.lend(gpu, free, out)
		}
	}
}

// lend lends a GPU, if there is a gap for anybody.
func (p *Paged) lend(gpu uint32, free mono.Time, out *Out) {
	f := &p.fill
	begin, until := p.gap(gpu, free)
	id, ok := f.Gaps.Pick(gpu, until.Sub(begin))
	if !ok {
		return
	}
	life, free := p.gpus.Lend(gpu)
	f.Gaps.Lend(id, gpu)
	p.touch(gpu)
	out.Fills = append(out.Fills, gaps.Grant{Model: id, GPU: wire.GPUID(gpu), Life: life, FreeAt: free, Until: until,
		Generation: uint32(p.residency.Hold(id, wire.GPUID(gpu)))})
}

// gap is from when until when a GPU that is idle, and free then, is not wanted.
func (p *Paged) gap(gpu uint32, free mono.Time) (begin, until mono.Time) {
	begin = max(p.now, free)
	most, roomy := p.fill.Gaps.Most(p.now, p.gpus.Count(), p.Need(p.now))
	if until = begin.Add(most); !roomy {
		until = p.horizon(gpu, until)
	}
	return begin, until
}

// horizon is when a GPU is wanted at the latest that is idle now, up to until: the exec of the first candidate of a model that
// it holds, if no other holder is free by then that no candidate before it takes. Of more candidates than a Walk visits the
// last one counts so.
func (p *Paged) horizon(gpu uint32, until mono.Time) mono.Time {
	var taken [pq.WalkMax]uint32
	walk := p.timers.Walk()
	for n := range taken {
		id, _, ok := walk.Next()
		if !ok {
			return until
		}
		m := p.models[id]
		exec := p.start(m)
		if exec >= until {
			return until
		}
		i := p.other(m, gpu, exec, taken[:n])
		if _, here := m.find(gpu); n == len(taken)-1 || i < 0 && here {
			return exec
		}
		taken[n] = gpu // nobody: another one that is short of holders
		if i >= 0 {
			taken[n] = m.places[i].gpu
		}
	}
	return until
}

// other is the first of a model's places that is free by when, is not the GPU and is not taken; -1: there is none.
func (p *Paged) other(m *model, gpu uint32, when mono.Time, taken []uint32) int {
next:
	for i := range m.places {
		k := &m.places[i]
		if k.gpu == gpu || p.free(k) > when {
			continue
		}
		for _, t := range taken {
			if t == k.gpu {
				continue next
			}
		}
		return i
	}
	return -1
}

// Filled takes a model's reply to a GPU that it was lent.
func (p *Paged) Filled(now mono.Time, a gaps.Answer) {
	p.now = now
	f, id, gpu, held := &p.fill, a.Grant.Model, a.Grant.GPU, residency.Generation(a.Grant.Generation)
	if m := p.model(id); m == nil || m.gone {
		a.Least = 0 // the wish of one that has its id by now comes again
	}
	alive, known := p.gpus.Lent(gpu, a.Grant.Life, a.Batch, a.Exec, a.Until), f.Gaps.Known(id)
	f.Gaps.Answer(&a, alive)
	if alive { // else what was held is gone, and a later life may have weights of that generation again
		if a.Batch != 0 {
			gen := p.residency.Borrow(now, id, gpu)
			if gen != held { // as in Answer: the batch counts on weights of before, which stay held for it
				p.residency.Return(now, id, gpu, gen)
				gen, held = held, 0
			}
			p.undone[gpu] = append(p.undone[gpu], batch{a.Batch, id, gen, true})
		}
		p.touch(uint32(gpu))
		p.residency.Release(now, id, gpu, held)
	}
	switch {
	case !known && a.Least > 0: // it was removed, and is back
		p.lacks(now, id)
		p.tellPlaces(id)
	case known && a.Least == 0:
		f.Gaps.Lack(id, mono.Never) // who comes next waits anew
	}
	if a.Batch != 0 || a.Least == 0 {
		f.Look = mono.Past // else it would be lent the same again
	}
}
