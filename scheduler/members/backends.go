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
	conn     Conn
	info     *catalog.BackendInfo
	lists    []*list // by pool
	admitted bool
	retired  bool
	gpus     []*gpu // when admitted, pool by pool
}

// brings tells whether it has devices of the type.
func (b *backend) brings(deviceType string) bool {
	return slices.ContainsFunc(b.info.Pools, func(p catalog.Pool) bool { return p.DeviceType == deviceType })
}

func (c *Cluster) backend(conn Conn) *backend { return c.byConn[conn] }

// JoinBackend takes a backend's introduction: it is admitted or refused as soon as its
// models are known.
func (c *Cluster) JoinBackend(now mono.Time, conn Conn, info *catalog.BackendInfo, out *Effects) {
	if err := c.checkInfo(info); err != nil {
		out.refuse(conn, err)
		return
	}
	same := func(b *backend) bool { return b.info.Name == info.Name && b.info.Instance == info.Instance }
	if i := slices.IndexFunc(c.backends, same); i >= 0 { // admitted or not
		old := c.backends[i]
		out.add(Effect{Kind: Replace, Conn: old.conn})
		c.removeBackend(now, old, out)
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
	c.judge(now, out)
}

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
	}
	return nil
}

// judge admits or refuses those whose models are known by now.
func (c *Cluster) judge(now mono.Time, out *Effects) {
	for i := 0; i < len(c.backends); i++ {
		b := c.backends[i]
		if b.admitted || slices.ContainsFunc(b.lists, func(l *list) bool { return !l.known() }) {
			continue
		}
		if err := c.check(now, b, out); err != nil {
			out.refuse(b.conn, err)
			c.removeBackend(now, b, out)
			i = -1 // another may have been waiting for what this one held: from the start
			continue
		}
		c.admit(now, b, out)
	}
}

// admit makes b a member. It was checked.
func (c *Cluster) admit(now mono.Time, b *backend, out *Effects) {
	b.admitted = true
	c.byName[b.info.Name] = b
	joined := make([]*pool, len(b.lists))
	for i, l := range b.lists {
		joined[i] = c.poolFor(now, b.info.Pools[i].DeviceType, b, out)
		c.joinPool(now, joined[i], b, l, out)
	}
	out.add(Effect{Kind: AdmitBackend, Conn: b.conn})
	for i, p := range joined {
		doc := &b.info.Pools[i]
		for device := range doc.Devices {
			g := p.seat(now, b.info.Name, device)
			b.gpus = append(b.gpus, g)
			e := b.adds(g, i, device)
			if device < len(doc.FreeAt) {
				e.Free = max(0, doc.FreeAt[device])
			}
			out.add(e)
		}
		p.changed = c.next()
	}
}

// removeBackend takes one away, admitted or not.
func (c *Cluster) removeBackend(now mono.Time, b *backend, out *Effects) {
	c.backends = slices.DeleteFunc(c.backends, func(x *backend) bool { return x == b })
	delete(c.byConn, b.conn)
	if b.admitted {
		delete(c.byName, b.info.Name)
	}
	for _, g := range b.gpus {
		if g.serves() {
			out.add(Effect{Kind: RemoveGPU, Pool: g.pool.index, GPU: g.id})
			g.pool.live--
		}
		g.taken, g.left, g.out, g.suspect = false, now, false, false
	}
	for i, l := range b.lists {
		if b.admitted {
			c.leavePool(now, c.poolOf(b.info.Pools[i].DeviceType), b, l, out)
		}
		c.release(now, b, l, out)
	}
}
