package members

import (
	"slices"
	"strings"

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
	spec := *p.newest.at(i)
	spec.MaxBatch = p.uses[0].list.at(i).MaxBatch // the newest may have left
	for _, u := range p.uses {
		spec.MaxBatch = min(spec.MaxBatch, u.list.at(i).MaxBatch)
	}
	spec.Profile = p.slowest(i, spec.MaxBatch)
	return &spec
}

// slowest is the profile that is no faster than any backend's, for no batch size.
func (p *pool) slowest(i, most int) catalog.Profile {
	first := p.uses[0].list.at(i).Profile
	same, line := true, first
	for _, u := range p.uses[1:] {
		o := u.list.at(i).Profile
		same = same && sameProfile(first, o)
		line.Alpha, line.Beta = max(line.Alpha, o.Alpha), max(line.Beta, o.Beta)
	}
	if same {
		return first
	}
	for _, u := range p.uses { // one that is slowest throughout stays a line
		if o := u.list.at(i).Profile; len(o.Table) == 0 && o.Alpha == line.Alpha && o.Beta == line.Beta && p.noTables(i) {
			return o
		}
	}
	table := make([]mono.Dur, most)
	for _, u := range p.uses {
		l, err := profile.FromDoc(u.list.at(i).Profile, u.list.at(i).MaxBatch)
		if err != nil {
			continue // CheckModel has seen it
		}
		for b := range table {
			table[b] = max(table[b], l.Latency(b+1))
		}
	}
	return catalog.Profile{Alpha: line.Alpha, Beta: line.Beta, Table: table}
}

func (p *pool) noTables(i int) bool {
	return !slices.ContainsFunc(p.uses, func(u use) bool { return len(u.list.at(i).Profile.Table) > 0 })
}

// worthSaying is how far latencies may differ without a word.
const worthSaying = 1.1

// spread is by what factor the backends' latencies differ, at worst.
func (p *pool) spread(i int) float64 {
	most := p.models[i].spec.MaxBatch
	worst := 1.0
	for _, b := range [...]int{1, most} {
		low, high := mono.Dur(0), mono.Dur(0)
		for _, u := range p.uses {
			l, err := profile.FromDoc(u.list.at(i).Profile, u.list.at(i).MaxBatch)
			if err != nil {
				continue
			}
			d := l.Latency(b)
			if low == 0 || d < low {
				low = d
			}
			high = max(high, d)
		}
		if low > 0 {
			worst = max(worst, float64(high)/float64(low))
		}
	}
	return worst
}

func sameProfile(a, b catalog.Profile) bool {
	return a.Alpha == b.Alpha && a.Beta == b.Beta && slices.Equal(a.Table, b.Table)
}

func compare(a, b string) int { return strings.Compare(a, b) }
