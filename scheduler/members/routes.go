package members

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// stir has a model looked at before the event is over: where it is served, and as what.
func (c *Cluster) stir(m *model) {
	if !m.stirred {
		m.stirred = true
		c.stirred = append(c.stirred, m)
	}
}

// look has a pool looked at: whether it goes on, and whether units that wait may be members now.
func (c *Cluster) look(p *pool) {
	if !p.looked {
		p.looked = true
		c.looked = append(c.looked, p)
	}
}

// settle draws the conclusions of an event, which came because of somebody: models are routed
// where all members have them, units become members that have all that is routed, and so on
// until nothing changes. Units join only here and leave only before, so it ends.
func (c *Cluster) settle(because string) {
	var touched []*pool
	for len(c.stirred)+len(c.looked) > 0 {
		c.route()
		c.arrive()
		pools := c.looked
		c.looked = nil
		for _, p := range pools {
			p.looked = false
			touched = append(touched, p)
			for _, u := range p.units {
				c.join(u, false)
			}
		}
	}
	c.arrive()
	for _, p := range touched {
		c.tellPinned(p)
		c.endPool(p)
	}
	for _, p := range c.pools {
		if p != nil {
			p.say(because, c.out)
		}
	}
	c.tellPending()
}

// arrive adds those that became members to their engines: after their models.
func (c *Cluster) arrive() {
	units := c.arrived
	c.arrived = nil
	for _, u := range units {
		c.show(u)
	}
}

// route puts the models that were stirred where they belong.
func (c *Cluster) route() {
	for i := 0; i < len(c.stirred); i++ {
		m := c.stirred[i]
		m.stirred = false
		if c.models.byKey[m.key] != m {
			continue // it is forgotten
		}
		c.put(m, c.place(m))
		for k := len(m.entries) - 1; k >= 0; k-- {
			e := m.entries[k]
			c.sayPartial(e)
			if e.vars == 0 && e.gpus == 0 && !e.routed() && !e.pinned() {
				e.pool.drop(e)
			}
		}
		if m.refs == 0 && m.home == nil && m.pin != pinTo {
			c.forget(m)
		}
	}
	c.stirred = c.stirred[:0]
}

// sayPartial says once that some have a model of their own folders and others do not. What is
// ordered comes to one GPU after the other.
func (c *Cluster) sayPartial(e *entry) {
	own := slices.ContainsFunc(e.variants, func(v *variant) bool { return v.own })
	partial := own && e.pool.name == "" && e.gpus > 0 && !e.complete() && e.model.pin == pinNone && e.model.home == nil
	if partial && !e.partial {
		e.pool.partial.add(e.model.key, "")
	}
	e.partial = partial
}

// place is where a model is to be served; nil: nowhere.
func (c *Cluster) place(m *model) *entry {
	home := m.home
	switch m.pin {
	case pinNever:
		return nil
	case pinTo:
		e := m.entry(m.target)
		switch {
		case e.complete() && (e == home || e.pool.routed < c.limits.PoolModels), e.away():
			return e
		case home != nil && home != e && home.complete():
			return home // until it can go where it shall
		}
		return nil
	}
	if home != nil && home.complete() && home.pool.name == "" {
		return home
	}
	for _, e := range m.entries {
		if e.pool.name == "" && e.complete() && e.pool.routed < c.limits.PoolModels {
			return e
		}
	}
	if home != nil && home.away() && home.pool.name == "" {
		return home
	}
	return nil
}

// put serves a model at to, as it is there; nil: nowhere.
func (c *Cluster) put(m *model, to *entry) {
	from := m.home
	if to == nil {
		if from != nil {
			if from.pool.members > 0 && m.pin != pinNever {
				from.pool.lost.add(m.key, "")
				from.partial = true
			}
			c.unroute(m)
		}
		return
	}
	spec := to.effective()
	if from == to {
		what := news(to.spec, spec)
		if what == "" && sameProfile(to.spec.Profile, spec.Profile) {
			return
		}
		if what != "" {
			to.pool.news.add(m.key, what)
		}
		to.spec, m.changed = spec, c.tell()
		c.out.add(Effect{Kind: SetModel, Pool: to.pool.index, Model: m.id, Spec: spec})
		return
	}
	to.spec, m.home, m.changed = spec, to, c.tell()
	c.touchKey(m.key)
	to.pool.routed++
	to.pool.changed = c.next()
	if from == nil {
		c.out.add(Effect{Kind: AddModel, Pool: to.pool.index, Model: m.id, Spec: spec})
		return
	}
	from.pool.routed--
	from.pool.changed = c.next()
	c.look(from.pool)
	c.out.add(Effect{Kind: MoveModel, Pool: to.pool.index, From: from.pool.index, Model: m.id, Spec: spec})
}

// unroute ends a model's service.
func (c *Cluster) unroute(m *model) {
	from := m.home
	if from == nil {
		return
	}
	m.home, m.changed = nil, c.tell()
	c.touchKey(m.key)
	from.pool.routed--
	from.pool.changed = c.next()
	c.look(from.pool)
	c.out.add(Effect{Kind: RemoveModel, Pool: from.pool.index, Model: m.id, Finish: m.pin == pinNever && from.complete()})
}

// pinTo decides where a model shall be served.
func (c *Cluster) pinTo(m *model, how pin, target *pool, at stamp) {
	if m.pin == pinTo && (how != pinTo || target != m.target) {
		old := m.target
		old.pinned--
		old.come, old.went = without(old.come, m.key), append(old.went, m.key)
		old.decided(c, at)
	}
	if how == pinTo && (m.pin != pinTo || m.target != target) {
		c.entry(m, target)
		target.pinned++
		target.come, target.went = append(target.come, m.key), without(target.went, m.key)
		target.decided(c, at)
	}
	if (m.pin == pinNever) != (how == pinNever) {
		c.stood()
	}
	m.pin, m.target, m.stamp = how, target, at
	c.touchKey(m.key)
	c.stir(m)
}

func without(keys []string, key string) []string {
	return slices.DeleteFunc(keys, func(k string) bool { return k == key })
}

// decided notes a decision on what is pinned here.
func (p *pool) decided(c *Cluster, at stamp) {
	if at.after(p.stamp) {
		p.stamp = at
	}
	c.look(p)
}

// decides is the stamp of a decision of this scheduler's: after all that it has heard of, also
// from a scheduler before it whose clock was ahead.
func (c *Cluster) decides() stamp {
	at := stamp{c.limits.Epoch, c.next()}
	if !at.after(c.heard) {
		c.heard.serial++
		at = c.heard
	}
	return at
}

// tellPinned tells the backends of a pool what became of its pins, so that they can repeat it.
func (c *Cluster) tellPinned(p *pool) {
	if len(p.come)+len(p.went) == 0 {
		return
	}
	told := &catalog.Told{SubCluster: p.name, Epoch: p.stamp.epoch, Serial: p.stamp.serial, Keys: p.come, Gone: p.went}
	p.come, p.went = nil, nil
	var before *unit
	for _, u := range p.units { // those of a backend's pool are told once
		if before != nil && before.b == u.b && before.index == u.index || !u.doc().Runtime || !u.b.announced {
			continue
		}
		before = u
		c.keep(u, catalog.Keep{Told: told})
	}
}

// keep orders what a device shall have.
func (c *Cluster) keep(u *unit, k catalog.Keep) {
	if !u.doc().Runtime || c.byConn[u.b.conn] != u.b {
		return
	}
	k.Pool, k.Device, k.In = u.index, u.device, u.in()
	c.out.add(Effect{Kind: Keep, Conn: u.b.conn, Order: &k})
}
