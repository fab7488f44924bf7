package members

import "fmt"

// Service takes a device of a backend out of service, or back into it: the backend says
// that it is lost, or that its times cannot be trusted, and later that it is well. The GPU
// keeps its id meanwhile. What is said of a device again, or by who is no member, changes
// nothing.
func (c *Cluster) Service(conn Conn, index, device int, works bool, why string, out *Effects) error {
	return c.service(conn, index, device, why, out, func(g *gpu) {
		g.out = !works
		g.suspect = g.suspect && !works
	})
}

// Suspect does the same for the scheduler's own reasons, until they are taken back: a device
// from which reports do not come. A backend that says that it works knows better.
func (c *Cluster) Suspect(conn Conn, index, device int, suspect bool, why string, out *Effects) error {
	return c.service(conn, index, device, why, out, func(g *gpu) { g.suspect = suspect })
}

func (c *Cluster) service(conn Conn, index, device int, why string, out *Effects, change func(*gpu)) error {
	b := c.backend(conn)
	if b == nil || !b.admitted {
		return nil
	}
	if index < 0 || index >= len(b.info.Pools) || device < 0 || device >= b.info.Pools[index].Devices {
		return fmt.Errorf("device %d of pool %d, which does not exist", device, index)
	}
	at := device
	for i := range index {
		at += b.info.Pools[i].Devices
	}
	g := b.gpus[at]
	before := g.serves()
	change(g)
	if g.serves() == before {
		return nil
	}
	g.pool.changed = c.next()
	if before {
		g.pool.live--
		out.add(Effect{Kind: RemoveGPU, Pool: g.pool.index, GPU: g.id})
		out.add(Effect{Kind: Note, Text: fmt.Sprintf("pool %s: GPU %s is out of service, what ran there is queued again: %s", g.pool.deviceType, g.name, why)})
		return nil
	}
	g.pool.live++
	out.add(b.adds(g, index, device))
	if b.retired {
		out.add(Effect{Kind: RetireGPU, Pool: g.pool.index, GPU: g.id})
	}
	out.add(Effect{Kind: Note, Text: fmt.Sprintf("pool %s: GPU %s is back in service", g.pool.deviceType, g.name)})
	return nil
}

// serves reports whether nothing is known against a GPU that is there.
func (g *gpu) serves() bool { return !g.out && !g.suspect }

// adds is the effect that adds a GPU which is device of the backend's index-th pool.
func (b *backend) adds(g *gpu, index, device int) Effect {
	return Effect{Kind: AddGPU, Conn: b.conn, Pool: g.pool.index, GPU: g.id, Name: g.name, Index: index, Device: device}
}
