package members

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// model is one that can be asked for.
type model struct {
	id      wire.ModelID
	key     string
	pool    *pool
	spec    *catalog.ModelSpec // as it is served; immutable
	speed   *profile.Profile   // the slowest of the pool's backends'
	changed uint64             // serial
}

// models are all of them, by id and by key.
type models struct {
	byID  []*model // nil: free
	left  []departure
	byKey map[string]*model
}

// departure is when an id became free.
type departure struct {
	at     mono.Time
	serial uint64
}

// free counts the ids that a model can have now.
func (s *models) free(now mono.Time, limit int) int {
	n := limit - len(s.byID)
	for i, m := range s.byID {
		if m == nil && now.Sub(s.left[i].at) > rest {
			n++
		}
	}
	return n
}

// resting counts those that are free and must rest.
func (s *models) resting(now mono.Time) int {
	n := 0
	for i, m := range s.byID {
		if m == nil && now.Sub(s.left[i].at) <= rest {
			n++
		}
	}
	return n
}

// add gives a model the smallest id that is free and has rested.
func (s *models) add(now mono.Time, key string, p *pool, spec *catalog.ModelSpec) *model {
	m := &model{key: key, pool: p, spec: spec}
	s.byKey[key] = m
	for i := range s.byID {
		if s.byID[i] == nil && now.Sub(s.left[i].at) > rest {
			m.id, s.byID[i] = wire.ModelID(i), m
			return m
		}
	}
	m.id = wire.ModelID(len(s.byID))
	s.byID, s.left = append(s.byID, m), append(s.left, departure{})
	return m
}

func (s *models) remove(now mono.Time, m *model, serial uint64) {
	delete(s.byKey, m.key)
	s.byID[m.id], s.left[m.id] = nil, departure{now, serial}
}

// effective is the i-th model as all backends of the pool can run it: rules 3 and 4.
func (p *pool) effective(i int) *catalog.ModelSpec {
	m := p.models[i]
	spec := *p.newest.at(i)
	spec.MaxBatch = m.speed.MaxBatch()
	spec.LabelsID = p.latest().at(i).LabelsID // of one who is there: others ask for them
	if len(p.uses) == 1 {
		spec.Profile = p.uses[0].list.at(i).Profile
	} else {
		spec.Profile = m.speed.Doc()
	}
	return &spec
}

// latest is the list of the newest configuration that is there; nil: none is.
func (p *pool) latest() *list {
	if len(p.uses) == 0 {
		return nil
	}
	best := &p.uses[0]
	for i := range p.uses {
		if u := &p.uses[i]; newer(u.configured, u.list, best.configured, best.list) {
			best = u
		}
	}
	return best.list
}

// newer orders configurations; those of one instant by their digests, so that the order in
// which backends join does not matter.
func newer(at int64, l *list, than int64, other *list) bool {
	return at > than || at == than && l.digest > other.digest
}

// slower reckons a list in that has come.
func (p *pool) slower(l *list) {
	for i, m := range p.models {
		if m.speed == nil || len(p.uses) == 1 {
			m.speed = l.speed(i)
		} else {
			m.speed = profile.Slowest(m.speed, l.speed(i))
		}
	}
}

// faster reckons a list out that has left: models that it held back are reckoned anew.
func (p *pool) faster(l *list) {
	for i, m := range p.models {
		if !p.heldBack(i, l.speed(i)) {
			continue
		}
		m.speed = p.uses[0].list.speed(i)
		for _, u := range p.uses[1:] {
			m.speed = profile.Slowest(m.speed, u.list.speed(i))
		}
	}
}

// heldBack tells whether the i-th model was as slow as speed somewhere, or as small.
func (p *pool) heldBack(i int, speed *profile.Profile) bool {
	m := p.models[i].speed
	if speed.MaxBatch() == m.MaxBatch() && !slices.ContainsFunc(p.uses, func(u use) bool { return u.list.speed(i).MaxBatch() == m.MaxBatch() }) {
		return true
	}
	for b := 1; b <= m.MaxBatch(); b++ {
		if speed.Latency(b) == m.Latency(b) {
			return true
		}
	}
	return false
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
