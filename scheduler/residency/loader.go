package residency

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	gpuBits     = 16               // of a LoadID, which names its GPU
	serialBits  = 40               // of a LoadID; Config.Index has the other 8
	failuresMax = 10               // after which a load's time is not doubled any more
	healing     = mono.Second      // after a failure, doubled for each further one
	healingMax  = 64 * healing     // at most
	fresh       = 10 * mono.Second // for so long after a load what was measured counts
	latenessP   = 0.99             // quantile of loads' errors that is planned for
)

// order is a load that was ordered and is not yet reported.
type order struct {
	id      LoadID
	place   int32
	ordered mono.Time
	until   mono.Time // planned end, corrected by the reports of those before it
	told    mono.Time // planned end when it was ordered
	length  mono.Dur
	// unloaded is the GPU's, when it was ordered.
	unloaded int
}

// until is when the loader has done all that it was ordered to, as planned.
func (g *gpu) until() mono.Time {
	if g.undoneN == 0 {
		return mono.Past
	}
	return g.undone[g.undoneN-1].until
}

// openLoader says when the GPU's loader wants work: when it has less than Ahead before it, and a report
// is not waited for.
func (r *Residency) openLoader(id wire.GPUID) {
	g := &r.gpus[id]
	if g.undoneN >= r.cfg.Outstanding {
		r.loaders.Remove(uint32(id))
		return
	}
	r.loaders.Set(uint32(id), int64(r.opensAt(g)))
}

// opensAt is when the GPU's loader wants work, if no more than that of loads is unreported.
func (r *Residency) opensAt(g *gpu) mono.Time { return max(g.until().Add(1-r.cfg.Ahead), g.rests) }

// open reports whether the GPU's loader wants work.
func (r *Residency) open(now mono.Time, g *gpu) bool {
	return g.present && g.undoneN < r.cfg.Outstanding && r.opensAt(g) <= now
}

// order has the GPU load the model; those in victims make room.
func (r *Residency) order(now mono.Time, id wire.ModelID, on wire.GPUID, spare bool, out *Out) {
	m, g := &r.models[id], &r.gpus[on]
	for _, v := range r.victims {
		gone := r.places.all[v].model
		if !spare {
			g.evicts(now, &r.places.all[v])
		}
		r.unload(r.disown(v, out), Unload{Why: Room, For: id}, out)
		r.refresh(now, gone, &r.models[gone])
	}
	length := r.loadTime(now, m)
	start := max(now, g.until())
	until := start.Add(length)
	g.generation++
	from := r.from(now, until, m)
	p := r.settle(now, id, on, g.generation, from)
	name := r.number(on)
	invariants.Check(g.undoneN < r.cfg.Outstanding, "residency: more unreported loads of a GPU than allowed")
	g.undone[g.undoneN] = order{id: name, place: p, ordered: now, until: until, told: until, length: length, unloaded: g.unloaded}
	g.undoneN++
	r.counts.Loads++
	m.loads++
	if m.copies > 1 {
		g.did.copies++
	} else {
		g.did.cold++
	}
	r.openLoader(on)
	out.Loads = append(out.Loads, Load{ID: name, Model: id, GPU: on, Generation: g.generation, Pages: int(m.pages), Start: start, Until: until, Latest: r.latest(start, m), Spare: spare, Copies: m.copies})
	out.Places = append(out.Places, Place{id, on, g.generation, from})
	r.refresh(now, id, m)
}

// number is that of the next load.
func (r *Residency) number(on wire.GPUID) LoadID {
	invariants.Check(on < 1<<gpuBits, "residency: a GPU whose id a load's number has no room for")
	r.orders = max(1, (r.orders+1)&(1<<serialBits-1)) // 0 would be none
	return LoadID(uint64(r.cfg.Index)<<(serialBits+gpuBits) | r.orders<<gpuBits | uint64(on))
}

// Loaded takes a loader's report; false: of a load that is not under way, or not any more.
func (r *Residency) Loaded(now mono.Time, rep Report, out *Out) bool {
	on := wire.GPUID(rep.ID & (1<<gpuBits - 1))
	if int(on) >= len(r.gpus) {
		return false
	}
	g, i := &r.gpus[on], 0
	for i < g.undoneN && g.undone[i].id != rep.ID {
		i++
	}
	if i == g.undoneN {
		return false
	}
	o := g.undone[i]
	copy(g.undone[i:], g.undone[i+1:g.undoneN])
	g.undoneN--
	r.learn(now, g, &o, rep)
	r.conclude(now, o.place, rep, out)
	r.compare(now, on, &o, rep, i == 0, out)
	r.follow(now, g, i, rep.End, out)
	r.openLoader(on)
	r.retry()
	r.lookAtPins()
	return true
}

// learn takes from a report how long loads take, and how far off their planned ends were. A device that had no room or no time
// says nothing of the model: it is left alone for a moment, lest it be asked the same again at once.
func (r *Residency) learn(now mono.Time, g *gpu, o *order, rep Report) {
	at := &r.places.all[o.place]
	g.did.busy += max(0, rep.End.Sub(rep.Start))
	if rep.OK {
		r.errors.Add(rep.End.Sub(o.told))
		r.slack, r.measured = r.errors.Over(latenessP), now
	} else {
		r.counts.Failed++
		g.did.failed++
	}
	if !rep.OK && !rep.ofModel() {
		g.rests = now.Add(r.cfg.Lag)
		return
	}
	if !at.owned {
		return
	}
	m := &r.models[at.model]
	if rep.OK {
		m.load.Add(max(mono.Nanosecond, rep.End.Sub(rep.Start)))
		m.failures, m.measured = 0, now
		return
	}
	m.heals = now.Add(min(healing<<min(m.failures, failuresMax), healingMax))
	m.failures++
}

// conclude makes what was loading resident, or absent.
func (r *Residency) conclude(now mono.Time, p int32, rep Report, out *Out) {
	at := &r.places.all[p]
	id, owned := at.model, at.owned
	switch {
	case rep.OK && owned:
		r.arrived(p)
		at.from = rep.End
		out.Places = append(out.Places, Place{id, at.gpu, at.generation, at.from})
	case rep.OK: // its model was removed meanwhile
		r.arrived(p)
		if at.uses == 0 {
			r.unload(p, Unload{Why: Removed}, out)
		}
	case owned:
		r.drop(r.disown(p, out))
	default:
		r.drop(p)
	}
	if owned {
		r.refresh(now, id, &r.models[id])
	}
}

// follow corrects the planned ends of the loads from i on, which follow one that ended at `end`.
func (r *Residency) follow(now mono.Time, g *gpu, i int, end mono.Time, out *Out) {
	for ; i < g.undoneN; i++ {
		o := &g.undone[i]
		until := max(o.ordered, end).Add(o.length)
		if i > 0 {
			until = max(until, g.undone[i-1].until.Add(o.length)) // reported before an earlier one
		}
		end = until
		if until == o.until {
			continue
		}
		o.until = until
		at := &r.places.all[o.place]
		if at.owned {
			at.from = r.from(now, until, &r.models[at.model])
			out.Places = append(out.Places, Place{at.model, at.gpu, at.generation, at.from})
			r.refresh(now, at.model, &r.models[at.model])
		}
	}
}
