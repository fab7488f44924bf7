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
type fill struct{ gaps.Offer }

// held: a model's weights are on a GPU.
func (f *fill) held(id wire.ModelID, gpu uint32) {
	if f.Gaps != nil && f.Gaps.Known(id) {
		f.Gaps.Put(id, gpu)
		f.Look = mono.Past
	}
}

// gone: they are not.
func (f *fill) gone(id wire.ModelID, gpu uint32) {
	if f.Gaps != nil {
		f.Gaps.Away(id, gpu)
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
	known := f.Gaps.Known(w.Model)
	f.Gaps.Set(w)
	f.Look = mono.Past
	if known || w.Least == 0 {
		return
	}
	for _, k := range p.models[w.Model].places {
		if k.from <= now {
			f.Gaps.Put(w.Model, k.gpu)
		}
	}
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
	f, begin := &p.fill, max(p.now, free)
	most, roomy := f.Gaps.Most(p.now, p.gpus.Count(), p.Need(p.now))
	until := begin.Add(most)
	if !roomy {
		until = p.horizon(gpu, until)
	}
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
	f, id, gpu := &p.fill, a.Grant.Model, a.Grant.GPU
	alive := p.gpus.Lent(gpu, a.Grant.Life, a.Batch, a.Exec, a.Until)
	f.Gaps.Answer(&a, alive)
	if alive && a.Batch != 0 {
		p.undone[gpu] = append(p.undone[gpu], batch{a.Batch, id, p.residency.Began(now, id, gpu, 0)})
	}
	if alive {
		p.touch(uint32(gpu))
	}
	p.residency.Release(now, id, gpu, residency.Generation(a.Grant.Generation))
	if a.Batch != 0 || a.Least == 0 {
		f.Look = mono.Past // else it would be lent the same again
	}
}
