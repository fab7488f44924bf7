package members

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// entry is a model in a pool: which of its members have it, and how it is served if it is.
type entry struct {
	model    *model
	pool     *pool
	at       int        // in the pool's entries
	gpus     int        // members that have it
	variants []*variant // as which they have it
	vars     int        // variants that may be counted again: uses' and items'
	speed    *profile.Profile
	spec     *catalog.ModelSpec // as it is served; immutable; nil: it was never

	// Whose SLO and drop policy hold, here or not.
	newest     *catalog.ModelSpec // nil: nobody's yet
	configured int64              // when that was read
	digest     catalog.Digest     // of its list
	author     string             // the backend that brought it
	partial    bool               // said: not all have it
}

// variant is a model as some members have it: those that share a list, or of one backend.
type variant struct {
	entry      *entry
	spec       *catalog.ModelSpec
	speed      *profile.Profile
	configured int64
	digest     catalog.Digest
	own        bool
	n          int // members
}

func (e *entry) routed() bool { return e.model.home == e }
func (e *entry) pinned() bool { return e.model.pin == pinTo && e.model.target == e.pool }

// complete: every member has it.
func (e *entry) complete() bool { return e.pool.members > 0 && e.gpus == e.pool.members }

// away: it is served, if anybody comes.
func (e *entry) away() bool { return e.routed() && e.pool.members == 0 }

// add counts members that have a variant, or have it no longer.
func (c *Cluster) add(v *variant, by int) {
	e := v.entry
	first, last := v.n == 0, v.n+by == 0
	v.n += by
	e.gpus += by
	switch {
	case first && by > 0:
		e.appear(v)
		c.stir(e.model)
	case last && by < 0:
		e.variants = slices.DeleteFunc(e.variants, func(x *variant) bool { return x == v })
		e.faster(v.speed)
		c.stir(e.model)
	}
}

// appear reckons a variant in that has come.
func (e *entry) appear(v *variant) {
	if len(e.variants) == 0 {
		e.speed = v.speed
	} else {
		if by := apart(e.speed, v.speed); by > worthSaying {
			e.pool.far.add(e.model.key, fmtFactor(by))
		}
		e.speed = profile.Slowest(e.speed, v.speed)
	}
	e.variants = append(e.variants, v)
}

// faster reckons latencies out that have left: if they held the model back, it is reckoned anew.
func (e *entry) faster(speed *profile.Profile) {
	if len(e.variants) == 0 || !e.heldBack(speed) {
		return // nobody has it: what it was holds until somebody comes
	}
	e.speed = e.variants[0].speed
	for _, v := range e.variants[1:] {
		e.speed = profile.Slowest(e.speed, v.speed)
	}
}

// heldBack tells whether the model was as slow as speed somewhere, or as small.
func (e *entry) heldBack(speed *profile.Profile) bool {
	m := e.speed
	if speed.MaxBatch() == m.MaxBatch() && !slices.ContainsFunc(e.variants, func(v *variant) bool { return v.speed.MaxBatch() == m.MaxBatch() }) {
		return true
	}
	for b := 1; b <= m.MaxBatch(); b++ {
		if speed.Latency(b) == m.Latency(b) {
			return true
		}
	}
	return false
}

// newer lets a configuration's settings hold if it is the newest.
func (e *entry) newer(c *Cluster, spec *catalog.ModelSpec, at int64, d catalog.Digest, author string) {
	if e.newest != nil && !newer(at, d, e.configured, e.digest) {
		return
	}
	if e.newest != spec {
		c.stir(e.model)
	}
	e.newest, e.configured, e.digest, e.author = spec, at, d, author
}

// newer orders configurations; those of one instant by their digests, so that the order in
// which backends join does not matter.
func newer(at int64, d catalog.Digest, than int64, other catalog.Digest) bool {
	return at > than || at == than && d > other
}

// latest is the variant of the newest configuration that is there; nil: none is.
func (e *entry) latest() *variant {
	if len(e.variants) == 0 {
		return nil
	}
	best := e.variants[0]
	for _, v := range e.variants[1:] {
		if newer(v.configured, v.digest, best.configured, best.digest) {
			best = v
		}
	}
	return best
}

// effective is the model as all members of the pool can run it: rules 3 and 4.
func (e *entry) effective() *catalog.ModelSpec {
	if len(e.variants) == 0 {
		return e.spec // away
	}
	spec := *e.newest
	spec.MaxBatch = e.speed.MaxBatch()
	spec.LabelsID = e.latest().spec.LabelsID // of one who is there: others ask for them
	if len(e.variants) == 1 {
		spec.Profile = e.variants[0].spec.Profile
	} else {
		spec.Profile = e.speed.Doc()
	}
	e.model.apply(&spec)
	if e.pool.paged != nil {
		e.weigh(&spec)
	}
	return &spec
}

// apply lets the control plane's settings hold.
func (m *model) apply(spec *catalog.ModelSpec) {
	if m.set.SLO != nil {
		spec.SLO = durOf(*m.set.SLO)
	}
	if m.set.MaxBatch != nil {
		spec.MaxBatch = min(spec.MaxBatch, *m.set.MaxBatch)
	}
	if m.set.DropPolicy != nil {
		spec.DropPolicy = *m.set.DropPolicy
	}
}

// ordered: it is there because it was ordered, not only because backends bring it.
func (e *entry) ordered() bool {
	return slices.ContainsFunc(e.variants, func(v *variant) bool { return !v.own })
}

// variantOf is the variant of an item in a pool.
func (c *Cluster) variantOf(it *item, p *pool) *variant {
	for _, v := range it.vars {
		if v.entry.pool == p {
			return v
		}
	}
	e := c.entry(it.model, p)
	v := &variant{entry: e, spec: it.told, speed: it.speed, configured: it.configured, own: it.local}
	it.vars = append(it.vars, v)
	e.vars++
	e.newer(c, it.told, it.configured, "", it.stock.backend)
	return v
}

// worthSaying is how far latencies may differ without a word.
const worthSaying = 1.1

// apart is by what factor two profiles differ, at the ends of what both allow.
func apart(a, b *profile.Profile) float64 {
	worst := 1.0
	for _, n := range [...]int{1, min(a.MaxBatch(), b.MaxBatch())} {
		x, y := float64(a.Latency(n)), float64(b.Latency(n))
		worst = max(worst, x/y, y/x)
	}
	return worst
}

func sameProfile(a, b catalog.Profile) bool {
	return a.Alpha == b.Alpha && a.Beta == b.Beta && slices.Equal(a.Table, b.Table)
}
