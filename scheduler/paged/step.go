package paged

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Step does what is due at now: grants to those that are there, then loads and who they make
// room for, then grants again where that brought a holder that can be counted with.
func (p *Paged) Step(now mono.Time, out *Out) {
	p.now = now
	p.match(out)
	if p.residency.NextWake() <= now {
		p.residency.Step(now, &p.effects)
		p.apply(out)
		p.tighten()
		p.match(out)
	}
	if p.fill.Waiting() {
		p.swap(out)
		p.fillGaps(out)
		p.furnish(out)
	}
	p.fill.freed = p.fill.freed[:0]
}

// match fires every timer that is due. Each turn of the first loop takes a model out of the timers or
// sets it to later, each of the second takes one out of a GPU's heap, so match ends.
func (p *Paged) match(out *Out) {
	for p.timers.Len() > 0 {
		id, at := p.timers.Min()
		if at > int64(p.now) {
			break
		}
		p.onModelTimer(id, out)
	}
	for p.wakes.Len() > 0 {
		gpu, at := p.wakes.Min()
		if at > int64(p.now) {
			break
		}
		p.onGPUTimer(gpu, out)
	}
}

// onModelTimer: the candidate may start; find it a holder or let it wait ready.
func (p *Paged) onModelTimer(id uint32, out *Out) {
	p.timers.Remove(id)
	m := p.models[id]
	exec := min(p.start(m), m.candidate.Latest)
	for i := range m.places {
		k := &m.places[i]
		if free := p.free(k); free <= exec {
			p.waited(m, k.from, free)
			p.grant(id, m, k, true, out)
			return
		}
	}
	p.await(id, m)
}

// start is the exec of the model's candidate, or when an order sent now arrives, where a lead puts that
// before it: all holders that are free by then are alike, and the smallest takes it.
func (p *Paged) start(m *model) mono.Time { return max(p.exec(m), p.now.Add(m.candidate.Delay)) }

// free is when a batch can start at a holder; Never where none is to be sent.
func (p *Paged) free(k *place) mono.Time { return max(p.gpus.FreeAt(k.gpu), k.from) }

// await makes the model ready on its holders. On those whose weights come later than an order sent now
// it is so when they are within reach: then its timer fires again.
func (p *Paged) await(id uint32, m *model) {
	if !m.ready {
		m.ready, m.since, m.due = true, p.start(m), max(p.deferred(m), p.now.Add(m.candidate.Delay))
	}
	c, next := &m.candidate, mono.Never
	m.key = c.Latest.Add(-p.headStart(m))
	for i := range m.places {
		k := &m.places[i]
		if at := k.from.Add(-c.Delay); at > p.now {
			next = min(next, at)
			if !p.ready[k.gpu].Has(id) {
				continue
			}
			p.ready[k.gpu].Remove(id)
		} else {
			p.ready[k.gpu].Set(id, int64(m.key))
		}
		p.touch(k.gpu)
	}
	if next < mono.Never {
		p.timers.Set(id, int64(next))
	}
}

// unready takes the model out of its holders' heaps.
func (p *Paged) unready(id wire.ModelID, m *model) {
	m.ready = false
	for i := range m.places {
		gpu := m.places[i].gpu
		if p.ready[gpu].Has(uint32(id)) {
			p.ready[gpu].Remove(uint32(id))
			p.touch(gpu)
		}
	}
}

// missed: the first of the model's requests found no holder in time that had its weights.
func (p *Paged) missed(m *model) {
	from := mono.Never
	for i := range m.places {
		from = min(from, m.places[i].from)
	}
	if from <= p.now {
		p.waited(m, from, p.now)
	}
}

// onGPUTimer: the GPU is within reach of an order sent now, and the ready candidate that is due first
// takes it, or leaves, if this GPU cannot serve it in time: when that is sure no other one can either, the
// model forms a smaller one (batching.Model.NextWake).
func (p *Paged) onGPUTimer(gpu uint32, out *Out) {
	id, _ := p.ready[gpu].Min()
	m := p.models[id]
	i, ok := m.find(gpu)
	invariants.Check(ok && m.ready, "paged: a model is ready on a GPU that does not hold it")
	k := &m.places[i]
	if free := p.free(k); m.candidate.Latest >= free {
		p.waited(m, k.from, free)
		p.grant(id, m, k, false, out)
		return
	}
	p.ready[gpu].Remove(id)
	p.touch(gpu)
}

// grant gives the model a holder. What it can count on is its holders.
func (p *Paged) grant(id uint32, m *model, k *place, idle bool, out *Out) {
	invariants.Check(!m.granting && m.candidate.Size > 0, "paged: a grant to a model that has one under way, or no candidate")
	gpu, from, told, holders := k.gpu, k.from, max(k.told, m.told), len(m.places)
	generation := p.residency.Hold(wire.ModelID(id), wire.GPUID(gpu))
	invariants.Check(generation == k.generation, "paged: a holder's weights are of another generation")
	if m.ready {
		p.unready(wire.ModelID(id), m)
		p.timers.Remove(id)
	}
	m.granting = true
	out.Grants = p.gpus.Grant(wire.ModelID(id), &m.usage, &m.candidate, gpu, idle, p.now, out.Grants)
	p.touch(gpu)
	g := &out.Grants[len(out.Grants)-1]
	g.Generation = uint32(generation)
	g.FreeAt = max(g.FreeAt, from)
	g.Ready = g.FreeAt.Add(-m.candidate.Delay)
	g.Due = max(g.Due, g.Ready)
	if p.eager() { // nothing else was waited for
		g.Due = max(g.Ready, min(g.Due, told))
	}
	_, g.Crowded = p.crowded()
	g.Full = !p.cfg.NoCrowd && p.gpus.Full(p.Need(p.now), p.now)
	g.GPUs, g.Share = holders, min(g.Share, batching.OneGPU*batching.Share(holders))
}

// touch sets the GPU's timer, after its free time, or what is ready on it, has changed.
func (p *Paged) touch(gpu uint32) {
	ready, free := &p.ready[gpu], p.gpus.FreeAt(gpu)
	if ready.Len() == 0 || free == mono.Never {
		p.wakes.Remove(gpu)
		return
	}
	id, _ := ready.Min()
	p.wakes.Set(gpu, int64(free.Add(-p.models[id].candidate.Delay)))
}

// NextWake is when Step is due; Never when nothing is planned.
func (p *Paged) NextWake() mono.Time {
	wake := p.residency.NextWake()
	if p.timers.Len() > 0 {
		_, at := p.timers.Min()
		wake = min(wake, mono.Time(at))
	}
	if p.wakes.Len() > 0 {
		_, at := p.wakes.Min()
		wake = min(wake, mono.Time(at))
	}
	return min(wake, p.fill.wake(p.gpus.Idle() > 0))
}
