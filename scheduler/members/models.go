package members

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Where a model shall be served.
type pin uint8

const (
	pinNone  pin = iota // where nobody plans and all have it
	pinTo               // by the sub-cluster that the control plane says
	pinNever            // nowhere, it says
)

// model is one that somebody has, or that shall be served.
type model struct {
	id      wire.ModelID
	key     string
	is      *catalog.ModelSpec // what it is; nil: nobody has said it yet
	refs    int                // lists and items of backends that are there
	entries []*entry           // by pool
	home    *entry             // where it is served; nil: nowhere
	pin     pin
	target  *pool // of pinTo
	stamp   stamp // of the decision on that
	set     catalog.Settings
	files   catalog.Digest // of those that backends were ordered to get; "": nobody has told it
	changed uint64         // serial
	stirred bool
}

// stamp orders what schedulers have decided.
type stamp struct{ epoch, serial uint64 }

func (s stamp) after(o stamp) bool {
	return s.epoch > o.epoch || s.epoch == o.epoch && s.serial > o.serial
}

func (m *model) entry(p *pool) *entry {
	for _, e := range m.entries {
		if e.pool == p {
			return e
		}
	}
	return nil
}

// entry finds or begins a model's entry in a pool.
func (c *Cluster) entry(m *model, p *pool) *entry {
	if e := m.entry(p); e != nil {
		return e
	}
	e := &entry{model: m, pool: p, at: len(p.entries)}
	p.entries = append(p.entries, e)
	m.entries = append(m.entries, e)
	return e
}

// models are all of them, by id and by key.
type models struct {
	byID   []*model // nil: free
	left   []departure
	byKey  map[string]*model
	vacant int                      // ids below len(byID) that are free
	stands map[string]catalog.Stand // what the leader told of models, those that come, too
}

// departure is when an id became free.
type departure struct {
	at     mono.Time
	serial uint64
	told   bool // somebody may know it: it was served
}

// free counts the ids that a model can have now.
func (s *models) free(now mono.Time, limit int) int {
	return limit - len(s.byID) + s.vacant - s.resting(now)
}

// resting counts those that are free and must rest.
func (s *models) resting(now mono.Time) int {
	n := 0
	if s.vacant == 0 {
		return 0
	}
	for i, m := range s.byID {
		if m == nil && now.Sub(s.left[i].at) <= rest {
			n++
		}
	}
	return n
}

// add gives a model the smallest id that is free and has rested; nil: there is none.
func (s *models) add(now mono.Time, key string, is *catalog.ModelSpec, limit int) *model {
	m := &model{key: key, is: is}
	if t, told := s.stands[key]; told {
		if m.stand(&t); t.Never {
			m.pin, m.stamp = pinNever, stamp{t.Epoch, t.Serial}
		}
	}
	if s.vacant > 0 {
		for i := range s.byID {
			if s.byID[i] == nil && now.Sub(s.left[i].at) > rest {
				m.id, s.byID[i], s.byKey[key] = wire.ModelID(i), m, m
				s.vacant--
				return m
			}
		}
	}
	if len(s.byID) >= limit {
		return nil
	}
	m.id = wire.ModelID(len(s.byID))
	s.byID, s.left = append(s.byID, m), append(s.left, departure{})
	s.byKey[key] = m
	return m
}

func (s *models) remove(now mono.Time, m *model, serial uint64) {
	delete(s.byKey, m.key)
	s.byID[m.id], s.left[m.id] = nil, departure{now, serial, m.changed > 0}
	s.vacant++
}

// held counts those that cannot be forgotten: somebody has them, or they were ordered.
func (s *models) held() int {
	n := 0
	for _, m := range s.byID {
		if m != nil && (m.refs > 0 || m.pin == pinTo) {
			n++
		}
	}
	return n
}

// identify finds or begins the model that spec is; "" or why there is none. own is how many references
// of the key's model are the caller's: where there are no others, another model may take its place.
func (c *Cluster) identify(spec *catalog.ModelSpec, own int) (*model, string) {
	key := spec.Key()
	m := c.models.byKey[key]
	if m != nil && m.is != nil {
		field, here, there := differs(spec, m.is)
		if field == "" {
			return m, ""
		}
		if m.refs > own {
			return nil, field + " is " + here + " here, and " + there + " elsewhere: give it a version of its own"
		}
		return c.replace(m, spec)
	}
	if m == nil {
		if m = c.models.add(c.now, key, spec, c.limits.Models); m == nil {
			c.starved = true
			return nil, "no id for a model is free"
		}
	}
	m.is = spec
	return m, ""
}

// replace lets another model have the key of one that nobody has any more.
func (c *Cluster) replace(m *model, spec *catalog.ModelSpec) (*model, string) {
	c.unroute(m)
	pin, target, at, set := m.pin, m.target, m.stamp, m.set
	c.pinTo(m, pinNone, nil, m.stamp)
	c.forget(m)
	n := c.models.add(c.now, m.key, spec, c.limits.Models)
	if n == nil {
		c.starved = true
		return nil, "no id for a model is free"
	}
	n.set = set
	c.pinTo(n, pin, target, at)
	return n, ""
}

// forget frees a model's id.
func (c *Cluster) forget(m *model) {
	for _, e := range slices.Clone(m.entries) {
		e.pool.drop(e)
	}
	serial := c.tell()
	c.stood()
	c.models.remove(c.now, m, serial)
	if m.changed > 0 {
		c.gone.model(serial, m.key)
	}
}
