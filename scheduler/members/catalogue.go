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
		if m != nil && m.changed > since {
			changed = append(changed, m)
		}
	}
	slices.SortFunc(changed, func(a, b *model) int { return cmp.Compare(a.changed, b.changed) })
	if len(changed) > most {
		changed = changed[:most]
		out.Serial, out.More = changed[most-1].changed, true
	}
	for _, m := range changed {
		out.Models = append(out.Models, catalog.Served{ID: m.id, DeviceType: m.pool.deviceType, Spec: *m.spec})
	}
	for i, m := range c.models.byID {
		if d := c.models.left[i]; m == nil && d.serial > since && d.serial <= out.Serial && since > 0 {
			out.Gone = append(out.Gone, wire.ModelID(i))
		}
	}
	for _, p := range c.pools {
		if p.changed > since && p.changed <= out.Serial {
			out.Pools = append(out.Pools, catalog.PoolState{DeviceType: p.deviceType, GPUs: p.live})
		}
	}
	return out
}
