package members

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// memory is what the control plane has said of devices, also of those that are away: a backend
// that comes back is told what it lacks, and its devices are where they were, without it.
type memory struct {
	byName map[string]*record
	all    []*record
	swept  mono.Time
}

// record is what was said of a device.
type record struct {
	name   string
	in     string // the sub-cluster that it belongs to
	placed bool   // in counts: else its backend knows better
	wanted []catalog.Source
	left   mono.Time // where it is away: since when
	away   bool
}

const (
	// remembered is how long a device may be away.
	remembered = 24 * 3600 * mono.Second
	// recordsMax bounds how many are.
	recordsMax = 1 << 16
)

// of finds what was said of a device, or begins it.
func (m *memory) of(name string) *record {
	if r := m.byName[name]; r != nil {
		return r
	}
	r := &record{name: name}
	m.byName[name] = r
	m.all = append(m.all, r)
	return r
}

// leaves notes that a device is away.
func (m *memory) leaves(now mono.Time, name string) {
	if r := m.byName[name]; r != nil {
		r.left, r.away = now, true
	}
}

// sweep forgets those that are away for long, or for longest where there are too many.
func (m *memory) sweep(now mono.Time) {
	if now.Sub(m.swept) < 60*mono.Second {
		return
	}
	m.swept = now
	over := len(m.all) - recordsMax
	m.all = slices.DeleteFunc(m.all, func(r *record) bool {
		forget := r.away && (now.Sub(r.left) > remembered || over > 0)
		if forget {
			delete(m.byName, r.name)
			over--
		}
		return forget
	})
}

// wantedMax bounds the models that a device shall have: those of a sub-cluster, and those that
// are to take their places.
const wantedMax = 2 * catalog.ModelsMax

// want notes that a device shall have models; false: they are too many.
func (r *record) want(sources []catalog.Source) bool {
	at := make(map[string]int, len(r.wanted)+len(sources))
	for i := range r.wanted {
		at[r.wanted[i].Key()] = i
	}
	fresh := 0
	for i := range sources {
		if _, there := at[sources[i].Key()]; !there {
			fresh++
		}
	}
	if len(r.wanted)+fresh > wantedMax {
		return false
	}
	for i := range sources {
		key := sources[i].Key()
		if k, there := at[key]; there {
			r.wanted[k] = sources[i]
		} else {
			at[key] = len(r.wanted)
			r.wanted = append(r.wanted, sources[i])
		}
	}
	return true
}

// unwant notes that it shall not.
func (r *record) unwant(keys []string) {
	gone := map[string]bool{}
	for _, k := range keys {
		gone[k] = true
	}
	r.wanted = slices.DeleteFunc(r.wanted, func(s catalog.Source) bool { return gone[s.Key()] })
}

// remember notes where a device is from now on.
func (c *Cluster) remember(u *unit) {
	r := c.memory.of(u.name)
	r.in, r.placed = u.in(), true
}

// inOf is the sub-cluster that a device of a newcomer belongs to.
func (c *Cluster) inOf(info *catalog.BackendInfo, index, device int) string {
	doc := &info.Pools[index]
	if r := c.memory.byName[unitName(info.Name, doc.DeviceType, device)]; r != nil && r.placed {
		return r.in
	}
	if device < len(doc.In) {
		return doc.In[device]
	}
	return ""
}

// recall tells a backend that was admitted what its devices shall have, and where they are, as
// far as it does not say so itself, and what is routed there.
func (c *Cluster) recall(b *backend) {
	for _, u := range b.units {
		doc := u.doc()
		said := ""
		if u.device < len(doc.In) {
			said = doc.In[u.device]
		}
		k := catalog.Keep{}
		if r := c.memory.byName[u.name]; r != nil {
			for i := range r.wanted {
				if !u.stock().there(u.device, r.wanted[i].Key()) {
					s := r.wanted[i]
					if m := c.models.byKey[s.Key()]; m != nil && s.Digest == "" {
						s.Digest = m.files // which were got since
					}
					k.Load = append(k.Load, s)
				}
			}
		}
		k.Told = c.toldWhole(u)
		if said != u.in() || len(k.Load) > 0 || k.Told != nil {
			c.keep(u, k)
		}
	}
}

// toldWhole is all that is pinned to a unit's pool, for the first of its backend's pool there.
func (c *Cluster) toldWhole(u *unit) *catalog.Told {
	p := u.pool
	if p == nil || p.name == "" {
		return nil
	}
	for _, x := range u.b.units {
		if x == u {
			break
		}
		if x.pool == p && x.index == u.index {
			return nil
		}
	}
	return p.toldWhole()
}

func (p *pool) toldWhole() *catalog.Told {
	t := &catalog.Told{SubCluster: p.name, Epoch: p.stamp.epoch, Serial: p.stamp.serial, Whole: true}
	for _, e := range p.entries {
		if e.pinned() {
			t.Keys = append(t.Keys, e.model.key)
		}
	}
	slices.Sort(t.Keys)
	return t
}

// hear takes what a newcomer was told of its sub-clusters before: by schedulers that are no
// more, or by this one. What was decided later holds.
func (c *Cluster) hear(b *backend) {
	for i := range b.info.Pools {
		doc := &b.info.Pools[i]
		for k := range doc.Told {
			if slices.Contains(doc.In, doc.Told[k].SubCluster) { // of others it knows nothing
				c.hearOf(b, doc.DeviceType, &doc.Told[k])
			}
		}
	}
}

func (c *Cluster) hearOf(b *backend, deviceType string, t *catalog.Told) {
	at := stamp{t.Epoch, t.Serial}
	if t.SubCluster == "" || t.SubCluster == catalog.Nowhere || len(t.SubCluster) > nameMax || len(t.Keys) > c.limits.PoolModels {
		return
	}
	if at.after(c.heard) {
		c.heard = at
	}
	p := c.poolFor(deviceType, t.SubCluster, b)
	if p == nil || !at.after(p.stamp) {
		return
	}
	named := map[string]bool{} // of a whole word those that stay, else those that go
	for _, key := range t.Gone {
		named[key] = !t.Whole
	}
	for _, key := range t.Keys {
		named[key] = t.Whole
	}
	for _, e := range slices.Clone(p.entries) {
		if e.pinned() && named[e.model.key] != t.Whole { // by a word that is older
			c.pinTo(e.model, pinNone, nil, at)
		}
	}
	for _, key := range t.Keys {
		m := c.models.byKey[key]
		if m == nil {
			m = c.models.add(c.now, key, nil, c.limits.Models)
		}
		newer := m != nil && (at.after(m.stamp) || at == m.stamp && m.pin == pinNone) // it left another one by the same word
		if newer && (p.pinned < c.limits.PoolModels || m.pin == pinTo && m.target == p) {
			c.pinTo(m, pinTo, p, at)
		}
	}
	p.decided(c, at)
}
