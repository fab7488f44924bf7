package members

import (
	"cmp"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Changes are what became of the catalogue after serial since, at most most models of it:
// More says that another part follows. Epoch is left to the caller.
func (c *Cluster) Changes(since uint64, most int) catalog.Changes {
	out := catalog.Changes{Since: since, Serial: c.serial}
	var changed []*model
	for _, m := range c.models.byID {
		if m != nil && m.changed > since && (m.home != nil || since > 0) {
			changed = append(changed, m)
		}
	}
	slices.SortFunc(changed, func(a, b *model) int { return cmp.Compare(a.changed, b.changed) })
	if len(changed) > most {
		changed = changed[:most]
		out.Serial, out.More = changed[most-1].changed, true
	}
	for _, m := range changed {
		if m.home == nil {
			out.Gone = append(out.Gone, m.id)
			continue
		}
		p := m.home.pool
		out.Models = append(out.Models, catalog.Served{ID: m.id, DeviceType: p.deviceType, SubCluster: p.name, Spec: *m.home.spec})
	}
	for i := range c.models.byID { // also where the id is another's by now
		if d := c.models.left[i]; d.told && d.serial > since && d.serial <= out.Serial && since > 0 {
			out.Gone = append(out.Gone, wire.ModelID(i))
		}
	}
	for _, p := range c.pools {
		if p != nil && p.changed > since && p.changed <= out.Serial {
			out.Pools = append(out.Pools, p.state())
		}
	}
	out.Pending = c.pendings.since(since, out.Serial)
	for _, n := range c.names.all {
		if n.changed > since && n.changed <= out.Serial {
			out.Names = append(out.Names, n.doc)
		}
	}
	return out
}
