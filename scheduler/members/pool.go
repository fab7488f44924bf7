package members

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pool is a sub-cluster: devices of one type and the models that are served there.
type pool struct {
	index      int
	deviceType string
	name       string         // "": of all devices of the type, where nobody plans
	paged      *catalog.Paged // its devices' memory; nil: models are resident
	units      []*unit        // that belong to it, members or not
	members    int
	entries    []*entry
	routed     int // of the entries: models that are served here
	pinned     int // that shall be
	uses       []*use
	gpus       []*gpu // by id
	byName     map[string]*gpu
	most       int // GPUs
	live       int // those that are GPUs of the engine
	changed    uint64
	emptied    mono.Time // when its last unit left
	alone      mono.Time // since when units wait and none is a member; 0: it is not so
	looked     bool

	stamp      stamp    // of the newest decision on what is pinned here
	come, went []string // pinned or not any more, in the event at hand

	far, news, partial, lost, older changes // notes of the event at hand
	author                          string  // of older: whose holds
}

// label is what people call it.
func (p *pool) label() string {
	if p.name == "" {
		return p.deviceType
	}
	return p.deviceType + "/" + p.name
}

// use counts the units of a pool that have a list, members or not.
type use struct {
	list  *list
	units int
	pure  int        // members of which nothing else was told
	vars  []*variant // of the list's models, by key
}

// useOf finds or begins the use of a list.
func (p *pool) useOf(c *Cluster, l *list) *use {
	for _, u := range p.uses {
		if u.list == l {
			return u
		}
	}
	u := &use{list: l, vars: make([]*variant, len(l.models))}
	all := make([]variant, len(l.models))
	for i, m := range l.models {
		e := c.entry(m, p)
		e.vars++
		all[i] = variant{entry: e, spec: l.at(i), speed: l.speed(i), digest: l.digest, own: true}
		u.vars[i] = &all[i]
	}
	p.uses = append(p.uses, u)
	return u
}

func (p *pool) endUse(c *Cluster, u *use) {
	p.uses = slices.DeleteFunc(p.uses, func(x *use) bool { return x == u })
	for _, v := range u.vars {
		if v.entry.vars--; v.entry.vars == 0 {
			c.stir(v.entry.model)
		}
	}
}

// drop forgets an entry that nobody has and that is neither served nor to be.
func (p *pool) drop(e *entry) {
	last := p.entries[len(p.entries)-1]
	p.entries[e.at], last.at = last, e.at
	p.entries = p.entries[:len(p.entries)-1]
	e.model.entries = slices.DeleteFunc(e.model.entries, func(x *entry) bool { return x == e })
}

// gpu is one device of a pool, over its lives.
type gpu struct {
	id    wire.GPUID
	name  string // "backend/device"
	taken bool
	left  mono.Time // where it is not taken: since when
}

func (c *Cluster) poolOf(deviceType, name string) *pool {
	for _, p := range c.pools {
		if p != nil && p.deviceType == deviceType && p.name == name {
			return p
		}
	}
	return nil
}

// spare is whether another type may have the pool: nobody plans it, and nobody is there.
func (p *pool) spare(b *backend) bool {
	return p.name == "" && len(p.units) == 0 && (b == nil || !b.brings(p.deviceType))
}

// room counts the pools that may begin: those of types that b brings do not make way.
func (c *Cluster) room(b *backend) int {
	n := c.limits.Pools - len(c.pools)
	for i, p := range c.pools {
		if p == nil && c.now.Sub(c.vacated[i]) > poolRest || p != nil && p.spare(b) {
			n++
		}
	}
	return n
}

// poolFor finds or begins a sub-cluster. Where there are as many as may be, the one of those
// that nobody plans that has been without devices for longest goes over to it, but for those
// of types that b brings. nil: there is no room.
func (c *Cluster) poolFor(deviceType, name string, b *backend) *pool {
	if p := c.poolOf(deviceType, name); p != nil {
		return p
	}
	p := &pool{index: -1, deviceType: deviceType, name: name, most: c.limits.GPUs, byName: map[string]*gpu{}, emptied: c.now}
	for i := range c.pools {
		if c.pools[i] == nil && c.now.Sub(c.vacated[i]) > poolRest {
			p.index = i
			break
		}
	}
	switch {
	case p.index >= 0:
	case len(c.pools) < c.limits.Pools:
		p.index = len(c.pools)
		c.pools, c.vacated = append(c.pools, nil), append(c.vacated, 0)
	default:
		var old *pool
		for _, q := range c.pools {
			if q != nil && q.spare(b) && (old == nil || q.emptied < old.emptied) {
				old = q
			}
		}
		if old == nil {
			return nil
		}
		c.clearPool(old)
		c.gone.pool(c.next(), old)
		p.index, p.gpus, p.byName = old.index, old.gpus, old.byName // the engine goes over, and counts on
	}
	c.pools[p.index] = p
	p.paged = c.pagedBy(deviceType, b)
	p.changed = c.tell()
	c.look(p)
	c.out.add(Effect{Kind: AddPool, Pool: p.index, Type: deviceType, SubCluster: name, Paged: p.paged})
	return p
}

// endPool removes a sub-cluster that was planned, and has neither devices nor models.
func (c *Cluster) endPool(p *pool) {
	if p.name == "" || len(p.units) > 0 || p.routed > 0 || p.pinned > 0 || c.pools[p.index] != p {
		return
	}
	for len(p.entries) > 0 {
		p.drop(p.entries[len(p.entries)-1])
	}
	c.pools[p.index], c.vacated[p.index] = nil, c.now
	c.gone.pool(c.next(), p)
	c.out.add(Effect{Kind: RemovePool, Pool: p.index})
}

// clearPool forgets the models of a pool without devices.
func (c *Cluster) clearPool(p *pool) {
	for _, e := range slices.Clone(p.entries) {
		m := e.model
		if e.routed() {
			c.unroute(m)
		}
		if m.refs == 0 && m.pin != pinTo {
			c.forget(m)
		} else {
			p.drop(e)
		}
	}
}

// review stirs the models that are not served and could be, or the other way round.
func (c *Cluster) review(p *pool) {
	for _, e := range p.entries {
		if e.complete() != e.routed() {
			c.stir(e.model)
		}
	}
}

// seat gives a device the GPU id that it had if it comes back soon enough: one that another
// does not come back for, else a new one, else the one that has been free for longest. So ids
// stay dense however often backends are replaced under new names.
func (p *pool) seat(now mono.Time, u *unit) *gpu {
	name := fmt.Sprintf("%s/%d", u.b.info.Name, u.device)
	if g := p.byName[name]; g != nil {
		g.taken = true
		return g
	}
	g := p.vacant(now)
	if p.byName[g.name] == g {
		delete(p.byName, g.name)
	}
	g.name, g.taken, p.byName[name] = name, true, g
	return g
}

func (p *pool) vacant(now mono.Time) *gpu {
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
	g := &gpu{id: wire.GPUID(len(p.gpus))}
	p.gpus = append(p.gpus, g)
	return g
}

// say makes the notes of the event at hand.
func (p *pool) say(because string, out *Effects) {
	if p.far.n > 0 {
		out.note(fmt.Sprintf("pool %s: latencies on %s differ from those on the others, by a factor of: %s; the slowest count", p.label(), because, p.far.text()))
	}
	if p.news.n > 0 {
		out.note(fmt.Sprintf("pool %s: with %s, %s", p.label(), because, p.news.text()))
	}
	if p.partial.n > 0 {
		out.note(fmt.Sprintf("pool %s: not on all GPUs, and not served until they are: %s", p.label(), p.partial.text()))
	}
	if p.lost.n > 0 {
		out.note(fmt.Sprintf("pool %s: no longer on all GPUs, and not served until they are again: %s", p.label(), p.lost.text()))
	}
	p.far, p.news, p.partial, p.lost = changes{}, changes{}, changes{}, changes{}
}

// state is the pool as frontends see it.
func (p *pool) state() catalog.PoolState {
	return catalog.PoolState{DeviceType: p.deviceType, SubCluster: p.name, GPUs: p.live}
}
