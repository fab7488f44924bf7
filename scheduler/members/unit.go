package members

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// unit is a device of an admitted backend.
//
//	nowhere --enter--> of a pool, waits --join--> of the pool's members --show--> a GPU of its engine
type unit struct {
	b        *backend
	index    int // of the pool in the backend's list
	device   int // in that pool
	name     string
	pool     *pool // nil: it is nowhere
	use      *use  // of its backend's list there
	joined   bool  // it is a member: it has all that is routed there
	draining bool
	back     bool // the drain is called off: it serves again once it has nothing left
	added    bool // it is a GPU of the engine
	gpu      *gpu // its id there, while it is a member
	free     mono.Dur

	// Why it is no GPU though it is a member: its backend says so, or the scheduler does.
	out, suspect bool

	orders        []*order // that are under way
	born, changed uint64   // serials
}

// unitName is what the control plane calls a device.
func unitName(backend, deviceType string, device int) string {
	return fmt.Sprintf("%s/%s/%d", backend, deviceType, device)
}

func (u *unit) stock() *stock      { return u.b.stocks[u.index] }
func (u *unit) doc() *catalog.Pool { return &u.b.info.Pools[u.index] }

// works reports whether nothing is known against it.
func (u *unit) works() bool { return !u.out && !u.suspect }

// in is the sub-cluster's name.
func (u *unit) in() string {
	if u.pool == nil {
		return catalog.Nowhere
	}
	return u.pool.name
}

// enter makes it the pool's: it waits until it has what is routed there.
func (c *Cluster) enter(u *unit, p *pool) {
	c.turn(p, u.doc().Paged)
	u.pool, u.use = p, p.useOf(c, u.stock().list)
	u.use.units++
	p.units = append(p.units, u)
	u.changed = c.next()
	c.look(p)
}

// exit takes it out of its pool, whatever it was there.
func (c *Cluster) exit(u *unit) {
	p := u.pool
	if p == nil {
		return
	}
	c.unjoin(u)
	for i, x := range p.units {
		if x == u {
			p.units = append(p.units[:i], p.units[i+1:]...)
			break
		}
	}
	if u.use.units--; u.use.units == 0 {
		p.endUse(c, u.use)
	}
	u.pool, u.use, u.draining, u.back = nil, nil, false, false
	u.changed = c.next()
	if len(p.units) == 0 {
		p.emptied = c.now
	}
	c.look(p)
}

// join makes it a member if it may be one.
func (c *Cluster) join(u *unit, force bool) bool {
	p := u.pool
	if p == nil || u.joined || u.draining || !u.works() || p.members >= p.most || !force && !c.fits(u) {
		return false
	}
	u.joined = true
	p.members++
	c.count(u, 1)
	u.gpu = p.seat(c.now, u)
	c.review(p)
	c.arrived = append(c.arrived, u)
	u.changed, p.changed = c.next(), c.next()
	return true
}

// unjoin makes it wait again, if it is a member.
func (c *Cluster) unjoin(u *unit) {
	if !u.joined {
		return
	}
	u.joined = false
	c.show(u)
	u.gpu.taken, u.gpu.left, u.gpu = false, c.now, nil
	u.pool.members--
	c.count(u, -1)
	c.review(u.pool)
	u.changed, u.pool.changed = c.next(), c.next()
}

// show adds it to its engine or takes it out, as it should be.
func (c *Cluster) show(u *unit) {
	serves := u.joined && u.works() && u.b.announced
	if serves == u.added {
		return
	}
	u.added = serves
	p := u.pool
	u.changed, p.changed = c.next(), c.tell()
	if !serves {
		p.live--
		c.out.add(Effect{Kind: RemoveGPU, Pool: p.index, GPU: u.gpu.id})
		return
	}
	p.live++
	c.out.add(Effect{Kind: AddGPU, Conn: u.b.conn, Pool: p.index, GPU: u.gpu.id, Name: u.gpu.name, Index: u.index, Device: u.device, Free: u.free})
	u.free = 0
	if u.b.retired || u.draining {
		c.out.add(Effect{Kind: RetireGPU, Pool: p.index, GPU: u.gpu.id})
	}
}

// count counts all models that a member has, or no longer.
func (c *Cluster) count(u *unit, by int) {
	s := u.stock()
	for i, v := range u.use.vars {
		if !s.told(i) {
			c.add(v, by)
		}
	}
	for _, it := range s.items {
		if it.on(u.device) {
			c.add(c.variantOf(it, u.pool), by)
		}
	}
	if len(s.items) == 0 {
		u.use.pure += by
	}
}

// tally is how many of the models that want says yes to a device has, of those that its pool
// knows.
func (u *unit) tally(want func(*entry) bool) int {
	n, s := 0, u.stock()
	for i, v := range u.use.vars {
		if !s.told(i) && want(v.entry) {
			n++
		}
	}
	for _, it := range s.items {
		if it.on(u.device) {
			if e := it.model.entry(u.pool); e != nil && want(e) {
				n++
			}
		}
	}
	return n
}

// fits reports whether it has what it must have to be a member: what is routed to the pool
// now, and where nobody is a member, all that shall be.
func (c *Cluster) fits(u *unit) bool {
	p := u.pool
	switch {
	case p.members > 0:
		return u.use.pure > 0 && len(u.stock().items) == 0 || u.tally((*entry).routed) == p.routed
	case p.name == "":
		return true // it takes any
	}
	return u.tally((*entry).pinned) == p.pinned
}

// lacks names what it lacks to be a member of p, the first few of it.
func (c *Cluster) lacks(u *unit, p *pool) []string {
	var all []string
	for _, e := range p.entries {
		if (e.routed() && p.members > 0 || e.pinned() && p.members == 0) && !u.has(e.model) {
			all = append(all, e.model.key)
		}
	}
	return all
}

// has reports whether the device has a model.
func (u *unit) has(m *model) bool { return m != nil && u.stock().has(u.device, m) }
