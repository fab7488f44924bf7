package members

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Service takes a device of a backend out of service, or back into it: the backend says
// that it is lost, or that its times cannot be trusted, and later that it is well. The GPU
// keeps its id meanwhile. What is said of a device again, or by who is no member, changes
// nothing.
func (c *Cluster) Service(conn Conn, index, device int, works bool, why string, out *Effects) error {
	return c.service(conn, index, device, why, out, func(u *unit) {
		u.out = !works
		u.suspect = u.suspect && !works
	})
}

// Suspect does the same for the scheduler's own reasons, until they are taken back: a device
// from which reports do not come. A backend that says that it works knows better.
func (c *Cluster) Suspect(conn Conn, index, device int, suspect bool, why string, out *Effects) error {
	return c.service(conn, index, device, why, out, func(u *unit) { u.suspect = suspect })
}

func (c *Cluster) service(conn Conn, index, device int, why string, out *Effects, change func(*unit)) error {
	u, err := c.unitAt(conn, index, device)
	if u == nil {
		return err
	}
	c.begin(c.now, out)
	worked := u.works()
	change(u)
	if u.works() == worked {
		return nil
	}
	u.changed = c.next()
	where := "pool " + u.doc().DeviceType
	if u.pool != nil {
		where = "pool " + u.pool.label()
		c.look(u.pool)
	}
	c.show(u)
	if worked {
		c.idle(u)
		out.note(fmt.Sprintf("%s: GPU %s is out of service, what ran there is queued again: %s", where, u.name, why))
	} else {
		out.note(fmt.Sprintf("%s: GPU %s is back in service", where, u.name))
	}
	c.settle(u.b.info.Name)
	return nil
}

// unitAt finds a member's device; nil without an error where there is no such member.
func (c *Cluster) unitAt(conn Conn, index, device int) (*unit, error) {
	b := c.backend(conn)
	if b == nil || !b.admitted {
		return nil, nil
	}
	if index < 0 || index >= len(b.info.Pools) || device < 0 || device >= b.info.Pools[index].Devices {
		return nil, fmt.Errorf("device %d of pool %d, which does not exist", device, index)
	}
	return b.unitsOf(index)[device], nil
}

// patience is how long the devices of a sub-cluster of which none serves wait for one that has
// all that is to be routed there. Then the one that has most of it begins.
const patience = 10 * mono.Second

// Tick does what is due: a few times a second is often enough.
func (c *Cluster) Tick(now mono.Time, out *Effects) {
	c.begin(now, out)
	c.dismissLate()
	for _, p := range c.pools {
		if p != nil {
			c.begins(p)
		}
	}
	if c.starved {
		c.rename()
	}
	c.lapse()
	c.memory.sweep(now)
	c.names.tidy(c)
	c.settle("nobody better")
}

// begins lets the fullest device of a pool begin when patience is at an end.
func (c *Cluster) begins(p *pool) {
	if p.members > 0 || len(p.units) == 0 {
		p.alone = 0
		return
	}
	if p.alone == 0 {
		p.alone = c.now
	}
	if c.now.Sub(p.alone) <= patience {
		return
	}
	var best *unit
	most := -1
	for _, u := range p.units {
		if n := u.tally((*entry).pinned); u.works() && !u.draining && n > most {
			best, most = u, n
		}
	}
	if best != nil && c.join(best, true) {
		c.out.note(fmt.Sprintf("pool %s: GPU %s begins with %d of %d models; nobody has all of them", p.label(), best.name, most, p.pinned))
	}
}

// rename tries again to find ids for the models that found none.
func (c *Cluster) rename() {
	c.starved = false
	for _, b := range c.backends {
		for i, s := range b.stocks {
			var bound []*item
			for _, it := range s.items {
				if it.bad == "" || it.model != nil {
					continue
				}
				if c.name(it); it.model != nil {
					c.recount(it, b.unitsOf(i), 1)
					it.changed = c.next()
					bound = append(bound, it)
				}
			}
			c.bind(b, i, bound)
		}
	}
}
