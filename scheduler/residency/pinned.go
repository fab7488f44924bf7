package residency

import (
	"math"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Models that are pinned are to be on every GPU, asked for or not: they are loaded before all others, who make room for
// them whatever waits for them, and never make room themselves.

// pinAgain is how long after a look at pinned models the next is, while some are missing: GPUs have no room for them, for all is
// in use, or their loads fail.
const pinAgain = 10 * mono.Millisecond

// pin has a model be on every GPU.
func (r *Residency) pin(id wire.ModelID) {
	r.pinned = append(r.pinned, id)
	r.pins = mono.Past
	m := &r.models[id]
	for on := range r.gpus {
		if g := &r.gpus[on]; g.present && g.pages >= int(m.pages) {
			m.hosts++
		}
	}
}

// countHosts counts a GPU that comes, by 1, or goes, by -1, for the pinned models that it is large enough for.
func (r *Residency) countHosts(g *gpu, by int) {
	for _, id := range r.pinned {
		if m := &r.models[id]; g.pages >= int(m.pages) {
			m.hosts += by
		}
	}
}

// unpin ends that: the model is removed.
func (r *Residency) unpin(id wire.ModelID) {
	r.pinned = slices.DeleteFunc(r.pinned, func(x wire.ModelID) bool { return x == id })
}

// lookAtPins has the next Step look whether all pinned models are where they are to be.
func (r *Residency) lookAtPins() {
	if len(r.pinned) > 0 {
		r.pins = mono.Past
	}
}

// keepPinned orders the loads of pinned models that are missing. It is a walk over all of them, and of one that is missing over all
// GPUs, when either has changed or a load was reported.
func (r *Residency) keepPinned(now mono.Time, out *Out) {
	if now < r.pins {
		return
	}
	r.pins, r.crowded = mono.Never, false
	believed := false
	for _, id := range r.pinned {
		m := &r.models[id]
		invariants.Check(m.copies <= m.hosts, "residency: a pinned model on a GPU that is too small for it")
		if m.copies == m.hosts { // nearly always
			continue
		}
		if !believed {
			r.believe(now)
			believed = true
		}
		for on := range r.gpus {
			g := &r.gpus[on]
			r.counts.Walked++
			if !g.present || g.pages < int(m.pages) || r.places.of(m, wire.GPUID(on)) != none {
				continue
			}
			if m.failures > 0 && now < m.heals {
				r.pins = min(r.pins, m.heals)
				continue
			}
			r.pins = min(r.pins, now.Add(pinAgain))
			if !r.open(now, g) || r.lingers(id, g) {
				continue
			}
			if r.makeRoom(g, int(m.pages), math.Inf(1), true) {
				r.order(now, id, wire.GPUID(on), false, out)
			} else {
				r.crowded = true
			}
		}
	}
}

// unused has the next Step look at pinned models that found all pages in use: who uses some all the time leaves them for that
// instant alone.
func (r *Residency) unused() {
	if r.crowded {
		r.pins = mono.Past
	}
}

// stays reports whether the model of a place is pinned: it never makes room.
func (r *Residency) stays(at *place) bool { return at.owned && r.models[at.model].pinned }
