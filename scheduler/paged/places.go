package paged

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// place is a holder of a model: a GPU that has its weights, or is loading them.
type place struct {
	gpu        uint32
	generation residency.Generation
	from       mono.Time // no batch starts there before
	told       mono.Time // when that was known
}

// find is where the GPU is, or belongs, among the model's places.
func (m *model) find(gpu uint32) (i int, ok bool) {
	for i = range m.places {
		if at := m.places[i].gpu; at >= gpu {
			return i, at == gpu
		}
	}
	return len(m.places), false
}

// apply carries residency's effects to the places, and the others to the caller.
func (p *Paged) apply(out *Out) {
	for i := range p.effects.Displaces {
		p.displace(&p.effects.Displaces[i], out)
	}
	out.Unloads = append(out.Unloads, p.effects.Unloads...)
	p.notice()
	out.Loads = append(out.Loads, p.effects.Loads...)
	for i := range p.effects.Places {
		p.place(&p.effects.Places[i], out)
	}
	for _, f := range p.effects.Floors {
		m := p.models[f.Model]
		if len(m.places) == 0 {
			f.Until = f.Until.Add(m.queue) // whom no load is for any more is told so now
		}
		if f.Until != m.floor {
			m.floor = f.Until
			out.Floors = append(out.Floors, f)
		}
	}
	p.effects.Reset()
}

// place takes a holder, or another `from` of one.
func (p *Paged) place(at *residency.Place, out *Out) {
	m, k := p.models[at.Model], place{uint32(at.GPU), at.Generation, at.From, p.now}
	if i, ok := m.find(k.gpu); ok {
		m.places[i] = k
	} else {
		m.places = slices.Insert(m.places, i, k)
	}
	if p.fill.Gaps != nil {
		p.fill.placed(at.Model, &k, p.there(at.Model, k.gpu), p.now)
	}
	p.retime(at.Model, m)
	p.setFloor(at.Model, m, out)
}

// displace takes a holder away.
func (p *Paged) displace(at *residency.Displace, out *Out) {
	m := p.models[at.Model]
	i, ok := m.find(uint32(at.GPU))
	if !ok || m.places[i].generation != at.Generation {
		return
	}
	m.places = slices.Delete(m.places, i, i+1)
	p.fill.gone(at.Model, uint32(at.GPU), len(m.places) > 0, p.now)
	if m.ready && p.ready[at.GPU].Has(uint32(at.Model)) {
		p.ready[at.GPU].Remove(uint32(at.Model))
		p.touch(uint32(at.GPU))
	}
	if len(m.places) > 0 {
		p.retime(at.Model, m)
		p.setFloor(at.Model, m, out)
	}
	p.forget(at.Model)
}

// setFloor tells the model when the first of its holders has its weights, while none has or if it was
// told of a later instant. Without holders it is residency that knows.
func (p *Paged) setFloor(id wire.ModelID, m *model, out *Out) {
	least := mono.Never
	for i := range m.places {
		least = min(least, m.places[i].from)
	}
	invariants.Check(least < mono.Never, "paged: a holder that never has the weights")
	if least == m.floor || least <= p.now && m.floor <= p.now {
		return
	}
	m.floor = least
	out.Floors = append(out.Floors, residency.Floor{Model: id, Until: least})
}
