package members

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// backend is one that is admitted, or waits until its models are known.
type backend struct {
	conn      Conn
	info      *catalog.BackendInfo
	lists     []*list // by pool
	admitted  bool
	announced bool // it was told so
	retired   bool
	stocks    []*stock // by pool; when admitted
	units     []*unit  // when admitted, pool by pool
}

// brings tells whether it has devices of the type.
func (b *backend) brings(deviceType string) bool {
	return slices.ContainsFunc(b.info.Pools, func(p catalog.Pool) bool { return p.DeviceType == deviceType })
}

// unitsOf are the devices of one of its pools.
func (b *backend) unitsOf(index int) []*unit {
	at := 0
	for i := range index {
		at += b.info.Pools[i].Devices
	}
	return b.units[at : at+b.info.Pools[index].Devices]
}

func (c *Cluster) backend(conn Conn) *backend { return c.byConn[conn] }

// JoinBackend takes a backend's introduction: it is admitted or refused as soon as its
// models are known.
func (c *Cluster) JoinBackend(now mono.Time, conn Conn, info *catalog.BackendInfo, out *Effects) {
	c.begin(now, out)
	if err := c.checkInfo(info); err != nil {
		out.refuse(conn, err)
		return
	}
	same := func(b *backend) bool { return b.info.Name == info.Name && b.info.Instance == info.Instance }
	if i := slices.IndexFunc(c.backends, same); i >= 0 { // admitted or not
		old := c.backends[i]
		out.add(Effect{Kind: Replace, Conn: old.conn})
		c.removeBackend(old)
	}
	if len(c.backends) >= c.limits.Backends {
		out.refuse(conn, fmt.Errorf("%d backends are connected already", c.limits.Backends))
		return
	}
	b := &backend{conn: conn, info: info}
	c.backends = append(c.backends, b)
	c.byConn[conn] = b
	for i := range info.Pools {
		b.lists = append(b.lists, c.listOf(now, conn, info.Pools[i].Models, out))
	}
	c.judge()
}

// nameMax bounds the names of sub-clusters.
const nameMax = 256

func tooLong(name string) bool { return len(name) > nameMax }

func (c *Cluster) checkInfo(info *catalog.BackendInfo) error {
	if info.Name == "" || len(info.Pools) == 0 {
		return errors.New("a backend needs a name and at least one pool")
	}
	for i := range info.Pools {
		p := &info.Pools[i]
		before := slices.ContainsFunc(info.Pools[:i], func(q catalog.Pool) bool { return q.DeviceType == p.DeviceType })
		if p.DeviceType == "" || p.Devices < 1 || p.Devices > c.limits.GPUs || before {
			return fmt.Errorf("pool %q with %d devices: each pool needs a device type of its own and 1 to %d devices", p.DeviceType, p.Devices, c.limits.GPUs)
		}
		if !p.Models.Valid() {
			return fmt.Errorf("pool %q: %q is not the digest of a model list", p.DeviceType, p.Models)
		}
		if len(p.In) > p.Devices || slices.ContainsFunc(p.In, tooLong) {
			return fmt.Errorf("pool %q: %d sub-clusters of %d devices, with names of at most %d bytes", p.DeviceType, len(p.In), p.Devices, nameMax)
		}
	}
	return nil
}

// judge admits or refuses those whose models are known by now.
func (c *Cluster) judge() {
	for i := 0; i < len(c.backends); i++ {
		b := c.backends[i]
		if b.admitted || slices.ContainsFunc(b.lists, func(l *list) bool { return !l.known() }) {
			continue
		}
		if err := c.check(b); err != nil {
			c.out.refuse(b.conn, err)
			c.removeBackend(b)
			i = -1 // another may have been waiting for what this one held: from the start
			continue
		}
		c.admit(b)
	}
}

// admit makes b a member. It was checked.
func (c *Cluster) admit(b *backend) {
	b.admitted = true
	c.byName[b.info.Name] = b
	for i := range b.info.Pools { // before its models are known: others' ids may be freed for them
		if c.plain(b.info, i) {
			c.poolFor(b.info.Pools[i].DeviceType, "", b)
		}
	}
	for i, l := range b.lists {
		c.resolve(l)
		s := &stock{backend: b.info.Name, doc: &b.info.Pools[i], list: l}
		if ordered := b.info.Pools[i].Ordered; len(ordered) > 0 {
			s.own = l.owned(ordered)
			c.take(s, ordered, b.info.Pools[i].Brought)
		}
		b.stocks = append(b.stocks, s)
		for device := range b.info.Pools[i].Devices {
			c.unitOf(b, i, device)
		}
	}
	c.hear(b)
	for _, u := range b.units {
		c.placeUnit(u)
	}
	for _, u := range b.units {
		if u.pool != nil {
			c.configure(u)
			c.join(u, false)
		}
	}
	c.route()
	c.out.add(Effect{Kind: AdmitBackend, Conn: b.conn})
	b.announced = true
	c.recall(b)
	c.settle(b.info.Name)
	for _, u := range b.units {
		if u.pool != nil && !u.joined {
			c.out.note(fmt.Sprintf("pool %s: GPU %s waits until it has what is routed there; it lacks: %s", u.pool.label(), u.name, some(c.lacks(u, u.pool))))
		}
	}
}

// unitOf begins a device.
func (c *Cluster) unitOf(b *backend, index, device int) {
	doc := &b.info.Pools[index]
	u := &unit{b: b, index: index, device: device, name: unitName(b.info.Name, doc.DeviceType, device), born: c.next()}
	u.changed = u.born
	if device < len(doc.FreeAt) {
		u.free = max(0, doc.FreeAt[device])
	}
	b.units = append(b.units, u)
	c.byUnit[u.name] = u
	if r := c.memory.byName[u.name]; r != nil {
		r.away = false
	}
}

// placeUnit takes it to the sub-cluster that it belongs to.
func (c *Cluster) placeUnit(u *unit) {
	in := c.inOf(u.b.info, u.index, u.device)
	if in == catalog.Nowhere {
		return
	}
	p := c.poolFor(u.doc().DeviceType, in, u.b)
	if p == nil {
		c.out.note(fmt.Sprintf("GPU %s is in no sub-cluster: there are %d already, and %q is none of them", u.name, c.limits.Pools, in))
		return
	}
	c.enter(u, p)
}

// configure lets the settings of a backend's list hold in a unit's pool if they are the newest,
// once for all its units there.
func (c *Cluster) configure(u *unit) {
	for _, x := range u.b.units {
		if x == u {
			break
		}
		if x.use == u.use {
			return
		}
	}
	at, name := u.b.info.Configured, u.b.info.Name
	for i, v := range u.use.vars {
		e := v.entry
		v.own = v.own && (u.stock().own == nil || u.stock().own[i])
		if at > v.configured {
			if v.configured = at; len(e.variants) > 1 {
				c.stir(e.model)
			}
		}
		if e.newest != nil && e.newest != v.spec && newer(e.configured, e.digest, at, v.digest) {
			have := *v.spec
			have.MaxBatch, have.Profile = e.newest.MaxBatch, e.newest.Profile // of these the least counts, and not the newest
			if what := news(&have, e.newest); what != "" {
				u.pool.older.add(e.model.key, what)
				u.pool.author = e.author
			}
			continue
		}
		e.newer(c, v.spec, at, v.digest, name)
	}
	if p := u.pool; p.older.n > 0 {
		c.out.note(fmt.Sprintf("pool %s: the configuration of %s is older than that of %s, which holds: %s", p.label(), name, p.author, p.older.text()))
		p.older = changes{}
	}
}

// removeBackend takes one away, admitted or not.
func (c *Cluster) removeBackend(b *backend) {
	c.backends = slices.DeleteFunc(c.backends, func(x *backend) bool { return x == b })
	delete(c.byConn, b.conn)
	if b.admitted {
		delete(c.byName, b.info.Name)
		for _, u := range b.units {
			c.removeUnit(u)
		}
		for _, s := range b.stocks {
			c.clearStock(s)
		}
		for _, l := range b.lists {
			c.unresolve(l)
		}
	}
	for _, l := range b.lists {
		c.release(c.now, b, l, c.out)
	}
	c.settle(b.info.Name + " gone")
}

// removeUnit ends a device.
func (c *Cluster) removeUnit(u *unit) {
	if u.draining && !u.back {
		c.idle(u)
	} else if u.pool != nil && u.pool.name != "" {
		c.remember(u)
	}
	c.exit(u)
	c.fail(u, "its backend has left")
	delete(c.byUnit, u.name)
	c.memory.leaves(c.now, u.name)
	c.gone.unit(c.next(), u.name)
}

// clearStock lets go of what was told of.
func (c *Cluster) clearStock(s *stock) {
	for _, it := range s.items {
		it.free(c)
		c.pends(it, pendNot)
		if it.model != nil {
			it.model.refs--
			c.stir(it.model)
		}
	}
}
