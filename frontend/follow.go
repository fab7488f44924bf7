package frontend

import (
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// follow gives a call whose model's id was taken from it, or whose scheduler went, to another
// one of the same tensors, before it was sent: the same version elsewhere, or where nobody asked
// for that one another version. nil: there is none, unless the call waits for a group's leader.
func (c *Client) follow(id wire.RequestID, k *call) (a *admission, waits bool) {
	next := c.instead(k)
	if next == nil {
		return nil, false
	}
	return c.rebind(id, k, next)
}

// instead is a model that can have a call in place of its own, of no scheduler that gave it back;
// nil: there is none.
func (c *Client) instead(k *call) *model {
	name, version := k.model.entry.Spec.Name, k.model.entry.Spec.Version
	wanted, free := version, k.any && !k.again // what may have been begun elsewhere is of that version
	if free {
		wanted = ""
	}
	if m, _ := c.choose(name, wanted); m != nil && m.uplink.bit&k.refused == 0 && k.fits(m) {
		return m
	}
	for _, g := range c.groups {
		v := g.of(name)
		if v == nil || v.all[0].uplink.bit&k.refused != 0 {
			continue
		}
		if free { // as the shares say, if it is to be had
			if m := v.choose(); m != nil && k.fits(m) {
				return m
			}
		}
		for _, m := range v.all {
			if (free || m.entry.Spec.Version == version) && k.fits(m) {
				return m
			}
		}
	}
	return nil
}

// fits reports whether a model takes now what the call has for the one that it had.
func (k *call) fits(m *model) bool {
	spec, other := &k.model.entry.Spec, &m.entry.Spec
	return m.serving() && spec.SameTensors(other) && (k.width == 0 || spec.SameImages(other))
}

// rebind makes an open call next's, and is the admission to send it with; nil: it is answered
// meanwhile, or next went, unless the call waits for who leads next's group.
func (c *Client) rebind(id wire.RequestID, k *call, next *model) (a *admission, waits bool) {
	g := next.uplink.group
	a = next.uplink.admitted.Load()
	if g.only != nil && (a == nil || next.gone.Load()) {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, open := c.table.Find(id)
	if !open {
		return nil, false
	}
	now := &c.open[slot]
	if now.at != k.at {
		return nil, true // its group's loop was faster
	}
	now.model, now.refused, now.at, now.again = next, k.refused, nil, k.again
	if g.only == nil {
		if g.place(id, now); now.at == nil {
			return nil, true
		}
		a = now.at.a
	}
	k.model, k.at = now.model, now.at
	return a, false
}

// refused takes a scheduler's answer to a request: there is none but refusals. What it does not
// serve, and another does, goes there: it was under way while the model moved, or the scheduler
// drains. The scheduler has done with it, so it runs once.
func (u *uplink) refused(l transport.Link, id wire.RequestID, reason wire.Reason) {
	c := u.client
	if u.group.only == nil {
		u.group.refused(l, id, reason)
		return
	}
	if len(c.uplinks) > 1 {
		k, open := c.lookAt(id)
		if !open || k.model.uplink != u { // not its to answer
			return
		}
		if c.moved(id, &k, reason) {
			return
		}
	}
	c.fail(id, reason)
}

func (c *Client) lookAt(id wire.RequestID) (call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, open := c.table.Find(id)
	if !open {
		return call{}, false
	}
	return c.open[slot], true
}

// moved sends a call that its scheduler refused to another one, at most once to each.
func (c *Client) moved(id wire.RequestID, k *call, reason wire.Reason) bool {
	switch reason {
	case wire.ReasonUnavailable, wire.ReasonUnknownModel, wire.ReasonDraining:
	default:
		return false
	}
	k.refused |= k.model.uplink.bit
	next, data := c.instead(k), c.arena.Bytes(k.slab)
	if next == nil || data == nil {
		return false
	}
	a, waits := c.rebind(id, k, next)
	if a != nil {
		c.send(id, k, a, data)
	}
	return a != nil || waits
}
