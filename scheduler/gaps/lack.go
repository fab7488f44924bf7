package gaps

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Lack says from when on a model that waits lacks weights on a further GPU; Never: it does not. It has had a Wish.
func (g *Gaps) Lack(id wire.ModelID, from mono.Time) {
	m := &g.models[id]
	if m.lacks = from; m.waits && !g.stale {
		g.lacks.set(m.at, int64(from))
	}
}

// Lacking is, of the models that wait, the one that lacks weights for longest, and since when: it may be in the future.
func (g *Gaps) Lacking() (id wire.ModelID, from mono.Time, ok bool) {
	if g.stale {
		g.build()
	}
	at, ok := g.lacks.first(len(g.order))
	if !ok {
		return 0, mono.Never, false
	}
	id = wire.ModelID(g.order[at])
	return id, g.models[id].lacks, true
}

// Waits tells whether the model has requests waiting that could be granted a GPU, and Least how long a gap must be.
func (g *Gaps) Waits(id wire.ModelID) bool { return g.Known(id) && g.models[id].waits }

// Least is how long a gap the model needs, by its last Wish.
func (g *Gaps) Least(id wire.ModelID) mono.Dur { return g.models[id].least }

// Ahead is how much more GPU time one model has had than another, which waits, and could have had instead.
func (g *Gaps) Ahead(id, other wire.ModelID) mono.Dur {
	if !g.Known(id) {
		return 0
	}
	return g.models[id].taken - g.models[other].taken
}

// Lent tells whether a GPU is.
func (g *Gaps) Lent(gpu uint32) bool { return int(gpu) < len(g.lent) && g.lent[gpu] != 0 }
