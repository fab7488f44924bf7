package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pool is the devices of one type: a sub-cluster.
type pool struct {
	index      int
	deviceType string
	backends   []*backend // admitted
	uses       uses       // of the lists that they have
	newest     *list      // whose SLOs and drop policies hold; nil: nobody's yet
	configured int64      // when it was read
	author     string     // the backend that brought it
	emptied    mono.Time  // when its last backend left
	models     []*model   // by key: what every list here has
	gpus       []*gpu     // by id
	byName     map[string]*gpu
	most       int    // GPUs
	live       int    // those that are there and in service
	changed    uint64 // serial
}

// use counts the backends that have a list.
type use struct {
	list       *list
	n          int
	configured int64          // the newest of theirs
	ids        []wire.ModelID // of the list's models, in its order: they hold while anybody uses it here
}

type uses []use

// of is the list's place; -1: nobody has it here.
func (u uses) of(l *list) int {
	return slices.IndexFunc(u, func(u use) bool { return u.list == l })
}

// gpu is one device of a pool, over its lives.
type gpu struct {
	pool  *pool
	id    wire.GPUID
	name  string // "backend/device"
	taken bool
	left  mono.Time // where it is not taken: since when

	// Why it is taken and does not serve: its backend says so, or the scheduler does.
	out, suspect bool
}

func (c *Cluster) poolOf(deviceType string) *pool {
	for _, p := range c.pools {
		if p.deviceType == deviceType {
			return p
		}
	}
	return nil
}

// poolFor finds or begins the pool of a type. Where there are as many as may be, the one
// that has been without backends for longest goes over to the type, but for those that b brings.
func (c *Cluster) poolFor(now mono.Time, deviceType string, b *backend, out *Effects) *pool {
	if p := c.poolOf(deviceType); p != nil {
		return p
	}
	var p *pool
	if len(c.pools) < c.limits.Pools {
		p = &pool{index: len(c.pools), most: c.limits.GPUs, byName: map[string]*gpu{}}
		c.pools = append(c.pools, p)
	} else {
		for _, q := range c.pools {
			if len(q.backends) == 0 && !b.brings(q.deviceType) && (p == nil || q.emptied < p.emptied) {
				p = q
			}
		}
		c.clearPool(now, p, out)
	}
	p.deviceType = deviceType
	out.add(Effect{Kind: AddPool, Pool: p.index, Type: deviceType})
	return p
}

// joinPool gives the pool another backend, which was checked.
func (c *Cluster) joinPool(now mono.Time, p *pool, b *backend, l *list, out *Effects) {
	if len(p.backends) == 0 && !c.setModels(now, p, l, out) {
		c.setNewest(p, nil) // it is other models' now
	}
	at := b.info.Configured
	p.backends = append(p.backends, b)
	changed, labelled := false, p.latest()
	if i := p.uses.of(l); i >= 0 {
		p.uses[i].n++
		p.uses[i].configured = max(p.uses[i].configured, at)
	} else {
		ids := make([]wire.ModelID, len(l.specs))
		for i := range l.order {
			ids[l.order[i]] = p.models[i].id
		}
		p.sayApart(b, l, out)
		p.uses = append(p.uses, use{l, 1, at, ids})
		p.slower(l)
		changed = true
	}
	switch {
	case p.newest == nil || newer(at, l, p.configured, p.newest):
		changed = changed || p.newest != l
		p.configured, p.author = at, b.info.Name
		c.setNewest(p, l)
	case p.newest != l:
		p.sayOlder(b, l, out)
	}
	if changed || p.latest() != labelled {
		c.refresh(p, b.info.Name, out)
	}
}

// leavePool takes it away. The last one leaves the models: they are away, not unknown.
func (c *Cluster) leavePool(now mono.Time, p *pool, b *backend, l *list, out *Effects) {
	p.backends = slices.DeleteFunc(p.backends, func(x *backend) bool { return x == b })
	i := p.uses.of(l)
	p.changed = c.next()
	if p.uses[i].n--; p.uses[i].n == 0 {
		p.uses = slices.Delete(p.uses, i, i+1)
		if len(p.backends) > 0 {
			p.faster(l)
			c.refresh(p, b.info.Name+" gone", out)
		}
	}
	if len(p.backends) == 0 {
		p.emptied = now
	}
}

// sayApart tells of latencies that differ from those of the backends that are there.
func (p *pool) sayApart(b *backend, l *list, out *Effects) {
	if len(p.uses) == 0 {
		return
	}
	var far changes
	for i, m := range p.models {
		if by := apart(m.speed, l.speed(i)); by > worthSaying {
			far.add(m.key, fmt.Sprintf("%.2f", by))
		}
	}
	if far.n > 0 {
		out.add(Effect{Kind: Note, Text: fmt.Sprintf("pool %s: latencies on %s differ from those on the others, by a factor of: %s; the slowest count", p.deviceType, b.info.Name, far.text())})
	}
}

// sayOlder tells of settings that do not hold, because another backend's are newer.
func (p *pool) sayOlder(b *backend, l *list, out *Effects) {
	var lost changes
	for i, m := range p.models {
		have, now := *l.at(i), *p.newest.at(i)
		have.MaxBatch, have.Profile = now.MaxBatch, now.Profile // of these the least counts, and not the newest
		if what := news(&have, &now); what != "" {
			lost.add(m.key, what)
		}
	}
	if lost.n > 0 {
		out.add(Effect{Kind: Note, Text: fmt.Sprintf("pool %s: the configuration of %s is older than that of %s, which holds: %s", p.deviceType, b.info.Name, p.author, lost.text())})
	}
}

// setNewest lets a list's settings hold; the one before is forgotten where nobody has it.
func (c *Cluster) setNewest(p *pool, l *list) {
	old := p.newest
	p.newest = l
	if old == nil || old == l || old.users > 0 {
		return
	}
	for _, q := range c.pools {
		if q.newest == old {
			return
		}
	}
	delete(c.known, old.digest)
}

// setModels makes a pool without backends serve exactly l's models; true where they are
// the same as before.
func (c *Cluster) setModels(now mono.Time, p *pool, l *list, out *Effects) (same bool) {
	same = len(p.models) == len(l.order)
	for _, m := range slices.Clone(p.models) {
		m.speed = nil
		if spec := l.find(m.key); spec == nil || another(m, spec) {
			c.removeModel(now, m, out)
			same = false
		}
	}
	kept := p.models
	p.models = nil
	for i := range l.order {
		spec := l.at(i)
		key := spec.Key()
		if k, ok := slices.BinarySearchFunc(kept, key, func(m *model, key string) int { return strings.Compare(m.key, key) }); ok {
			p.models = append(p.models, kept[k])
			continue
		}
		if m := c.models.byKey[key]; m != nil { // of a pool that nobody is left in
			c.removeModel(now, m, out)
		}
		m := c.models.add(now, key, p, spec)
		m.changed = c.next()
		p.models = append(p.models, m)
		out.add(Effect{Kind: AddModel, Pool: p.index, Model: m.id, Spec: spec})
	}
	return same
}

// clearPool forgets the models of a pool without backends.
func (c *Cluster) clearPool(now mono.Time, p *pool, out *Effects) {
	for _, m := range slices.Clone(p.models) {
		c.removeModel(now, m, out)
	}
	c.setNewest(p, nil)
}

// removeModel takes a model from a pool without backends, whose newest list is then of
// other models.
func (c *Cluster) removeModel(now mono.Time, m *model, out *Effects) {
	c.setNewest(m.pool, nil)
	m.pool.models = slices.DeleteFunc(m.pool.models, func(x *model) bool { return x == m })
	c.models.remove(now, m, c.next())
	out.add(Effect{Kind: RemoveModel, Pool: m.pool.index, Model: m.id})
}

// refresh lets what the pool's models are now come into force, after its lists have changed
// because of a backend, and says what is different.
func (c *Cluster) refresh(p *pool, because string, out *Effects) {
	var all changes
	for i, m := range p.models {
		spec := p.effective(i)
		what := news(m.spec, spec)
		if what == "" && sameProfile(m.spec.Profile, spec.Profile) {
			continue
		}
		m.spec, m.changed = spec, c.next()
		if what != "" {
			all.add(m.key, what)
		}
		out.add(Effect{Kind: SetModel, Pool: p.index, Model: m.id, Spec: spec})
	}
	if all.n > 0 {
		out.add(Effect{Kind: Note, Text: fmt.Sprintf("pool %s: with %s, %s", p.deviceType, because, all.text())})
	}
}

// changes are told by the first few.
type changes struct {
	n     int
	first []string
}

func (c *changes) add(key, what string) {
	if c.n++; c.n <= listed {
		c.first = append(c.first, key+" "+what)
	}
}

func (c *changes) text() string {
	text := ""
	for i, s := range c.first {
		if i > 0 {
			text += "; "
		}
		text += s
	}
	if c.n > len(c.first) {
		text += fmt.Sprintf("; and %d more", c.n-len(c.first))
	}
	return text
}

// news says what of a model's settings is different now, for people; "": nothing.
func news(before, after *catalog.ModelSpec) string {
	var all []string
	if before.SLO != after.SLO {
		all = append(all, fmt.Sprintf("SLO %v (was %v)", after.SLO, before.SLO))
	}
	if before.MaxBatch != after.MaxBatch {
		all = append(all, fmt.Sprintf("max_batch %d (was %d)", after.MaxBatch, before.MaxBatch))
	}
	if before.DropPolicy != after.DropPolicy {
		all = append(all, fmt.Sprintf("drop policy %q (was %q)", after.DropPolicy, before.DropPolicy))
	}
	if before.LabelsID != after.LabelsID {
		all = append(all, "other labels")
	}
	if len(all) == 0 {
		return ""
	}
	return "has " + strings.Join(all, ", ")
}

// seat gives a backend's device the GPU id that it had before, else the smallest that
// nobody has or will come back for, else a new one, else the one that has been free for
// longest. So ids stay dense however often backends are replaced under new names.
func (p *pool) seat(now mono.Time, backend string, device int) *gpu {
	name := fmt.Sprintf("%s/%d", backend, device)
	p.live++
	if g := p.byName[name]; g != nil {
		g.taken = true
		return g
	}
	return p.give(p.free(now), name)
}

func (p *pool) free(now mono.Time) *gpu {
	var longest *gpu
	for _, g := range p.gpus {
		if g.taken {
			continue
		}
		if now.Sub(g.left) > reserved {
			return g
		}
		if longest == nil || g.left < longest.left {
			longest = g
		}
	}
	if len(p.gpus) >= p.most && longest != nil {
		return longest
	}
	g := &gpu{pool: p, id: wire.GPUID(len(p.gpus))}
	p.gpus = append(p.gpus, g)
	return g
}

func (p *pool) give(g *gpu, name string) *gpu {
	if p.byName[g.name] == g {
		delete(p.byName, g.name)
	}
	g.name, g.taken, p.byName[name] = name, true, g
	return g
}
