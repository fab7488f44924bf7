package frontend

import (
	"github.com/symphony-serving/symphony/transport/wire"
)

// follow gives a call whose model's id was taken from it, or whose scheduler went, to another
// one of the same tensors, before it was sent: the same version elsewhere, or where nobody asked
// for that one another version. nil: there is none.
func (c *Client) follow(id wire.RequestID, k *call) *admission {
	next := c.instead(k)
	if next == nil {
		return nil
	}
	return c.rebind(id, k, next)
}

// instead is a model that can have a call in place of its own, of no scheduler that gave it back;
// nil: there is none.
func (c *Client) instead(k *call) *model {
	name, version := k.model.entry.Spec.Name, k.model.entry.Spec.Version
	wanted := version
	if k.any {
		wanted = ""
	}
	if m, _ := c.choose(name, wanted); m != nil && m.uplink.bit&k.refused == 0 && k.fits(m) {
		return m
	}
	for _, u := range c.uplinks {
		v := u.of(name)
		if v == nil || u.bit&k.refused != 0 {
			continue
		}
		if k.any { // as the shares say, if it is to be had
			if m := v.choose(); m != nil && k.fits(m) {
				return m
			}
		}
		for _, m := range v.all {
			if (k.any || m.entry.Spec.Version == version) && k.fits(m) {
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
// meanwhile, or next went.
func (c *Client) rebind(id wire.RequestID, k *call, next *model) *admission {
	a := next.uplink.admitted.Load()
	if a == nil || next.gone.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, open := c.table.Find(id)
	if !open {
		return nil
	}
	k.model = next
	c.open[slot].model, c.open[slot].refused = next, k.refused
	return a
}

// refused takes a scheduler's answer to a request: there is none but refusals. What it does not
// serve, and another does, goes there: it was under way while the model moved, or the scheduler
// drains. The scheduler has done with it, so it runs once.
func (u *uplink) refused(id wire.RequestID, reason wire.Reason) {
	c := u.client
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
	a := c.rebind(id, k, next)
	if a == nil {
		return false
	}
	c.send(id, k, a, data)
	return true
}
