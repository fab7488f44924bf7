package members

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Devices of one type are all paged, with pages of one size, or all resident: a sub-cluster has one engine. Every model
// of a paged pool must be with each of its backends all the same, in the host's memory: what is
// on a device changes a hundred times a second, and is no affair of the members'.

// checkPaged says why a backend's pool with these models cannot be what its devices' memory says.
func (c *Cluster) checkPaged(b *backend, doc *catalog.Pool, l *list) error {
	for _, other := range c.backends {
		if !other.admitted {
			continue
		}
		for i := range other.info.Pools {
			if p := &other.info.Pools[i]; p.DeviceType == doc.DeviceType {
				if err := alike(b, doc.Paged, other, p.Paged, doc.DeviceType); err != nil {
					return err
				}
			}
		}
	}
	if doc.Paged == nil {
		return nil
	}
	for i := range l.order {
		if err := fitsPages(doc, l.at(i)); err != nil {
			return err
		}
	}
	return nil
}

func alike(b *backend, m *catalog.Paged, other *backend, n *catalog.Paged, deviceType string) error {
	switch {
	case (m == nil) != (n == nil):
		whole, part := b.info.Name, other.info.Name
		if m != nil {
			whole, part = part, whole
		}
		return fmt.Errorf("pool %s: %s has all models on its devices, and %s loads them on demand; a pool is one or the other: give one of them another device type", deviceType, whole, part)
	case m != nil && m.Page != n.Page:
		return fmt.Errorf("pool %s: pages are of %d bytes on %s, and of %d on %s; give them one size", deviceType, m.Page, b.info.Name, n.Page, other.info.Name)
	}
	return nil
}

// fitsPages says that a model is too large for a device of the pool.
func fitsPages(doc *catalog.Pool, spec *catalog.ModelSpec) error {
	if n := doc.Paged.PagesOf(spec); n > doc.Paged.Pages {
		return fmt.Errorf("model %s: its weights are %d bytes, %d pages, and a device of pool %s has %d: leave it out, or give the pool more memory", spec.Key(), spec.WeightsBytes, n, doc.DeviceType, doc.Paged.Pages)
	}
	return nil
}

// pagedBy is the memory of a type's devices, by who brings it or has it; nil: they are resident, or nobody has any.
func (c *Cluster) pagedBy(deviceType string, b *backend) *catalog.Paged {
	if b != nil {
		for i := range b.info.Pools {
			if p := &b.info.Pools[i]; p.DeviceType == deviceType {
				return p.Paged
			}
		}
	}
	for _, other := range c.backends {
		if other != b && other.admitted && other.brings(deviceType) {
			return c.pagedBy(deviceType, other)
		}
	}
	return nil
}

// turn makes a pool without devices what those are that come now: its engine begins anew, with its models.
func (c *Cluster) turn(p *pool, to *catalog.Paged) {
	if len(p.units) > 0 || p.paged.Alike(to) {
		return
	}
	for _, e := range p.entries {
		if e.routed() {
			c.unroute(e.model)
			c.stir(e.model)
		}
	}
	p.paged = to
	c.out.add(Effect{Kind: AddPool, Pool: p.index, Type: p.deviceType, SubCluster: p.name, Paged: to})
}

// weigh takes what is known of a model's weights over those who have it: the most counts.
func (e *entry) weigh(spec *catalog.ModelSpec) {
	for _, v := range e.variants {
		spec.WeightsBytes = max(spec.WeightsBytes, v.spec.WeightsBytes)
		spec.LoadTime = max(spec.LoadTime, v.spec.LoadTime)
		spec.Resident = spec.Resident || v.spec.Resident
	}
}

// Memory is that of the devices of a member's pool; nil: their models are resident, or there is no such pool.
func (c *Cluster) Memory(conn Conn, index int) *catalog.Paged {
	b := c.backend(conn)
	if b == nil || index < 0 || index >= len(b.info.Pools) {
		return nil
	}
	return b.info.Pools[index].Paged
}
