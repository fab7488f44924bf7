package members

import (
	"cmp"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// gone is what followers of the facts must still hear of that is no more.
type gone struct {
	units  []parted
	pools  []parted
	models []parted
	floor  uint64 // who knows less than this must begin anew
}

// parted is a device, model or sub-cluster that is no more, since serial.
type parted struct {
	serial           uint64
	name, deviceType string
}

// partedMax is how many are remembered.
const partedMax = 2048

func (g *gone) add(list *[]parted, p parted) {
	if len(*list) >= partedMax {
		g.floor = max(g.floor, (*list)[partedMax/2-1].serial)
		*list = slices.Delete(*list, 0, partedMax/2)
	}
	*list = append(*list, p)
}

func (g *gone) unit(serial uint64, name string) { g.add(&g.units, parted{serial: serial, name: name}) }
func (g *gone) model(serial uint64, key string) {
	g.add(&g.models, parted{serial: serial, name: key})
}
func (g *gone) pool(serial uint64, p *pool) {
	g.add(&g.pools, parted{serial: serial, name: p.name, deviceType: p.deviceType})
}

// piece is a part of the facts that became so at serial: a device, what it has of a model, or a
// model that is routed.
type piece struct {
	serial uint64
	unit   *unit
	item   *item
	whole  bool // all that the unit has of its list, too
	model  *model
}

// Facts are what became of devices, models and sub-clusters after serial since, in order, about
// most of them: More says that another part follows. Since 0, or where too much is forgotten
// meanwhile, they are Whole. Epoch, rates and counts are left to the caller.
func (c *Cluster) Facts(since uint64, most int) catalog.Facts {
	out := catalog.Facts{Serial: c.serial, Plan: c.plan}
	if since < c.gone.floor {
		since = 0
	}
	out.Whole = since == 0
	pieces := c.pieces(since)
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.serial, b.serial) })
	n := 0
	for i := range pieces {
		if n >= most && pieces[i].serial > pieces[i-1].serial {
			pieces = pieces[:i]
			out.Serial, out.More = pieces[i-1].serial, true
			break
		}
		if n++; pieces[i].whole {
			n += len(pieces[i].unit.stock().list.order)
		}
	}
	at := map[*unit]int{}
	for _, p := range pieces {
		if p.model != nil {
			c.factOf(p.model, &out)
			continue
		}
		i, ok := at[p.unit]
		if !ok {
			i = len(out.GPUs)
			at[p.unit] = i
			out.GPUs = append(out.GPUs, p.unit.facts())
		}
		p.unit.tell(p, &out.GPUs[i])
	}
	c.parted(since, &out)
	return out
}

// pieces are all that changed after since.
func (c *Cluster) pieces(since uint64) (all []piece) {
	for _, b := range c.backends {
		for _, u := range b.units {
			if u.changed > since {
				all = append(all, piece{serial: u.changed, unit: u})
			}
			if u.born > since {
				all = append(all, piece{serial: u.born, unit: u, whole: true})
			}
			for _, it := range u.stock().items {
				if it.changed > since && !(since == 0 && it.state == catalog.StateGone && it.at < 0) {
					all = append(all, piece{serial: it.changed, unit: u, item: it})
				}
			}
		}
	}
	for _, m := range c.models.byID {
		if m != nil && m.changed > since && (m.home != nil || since > 0) {
			all = append(all, piece{serial: m.changed, model: m})
		}
	}
	return all
}

func (c *Cluster) factOf(m *model, out *catalog.Facts) {
	if m.home == nil {
		out.GoneModels = append(out.GoneModels, m.key)
		return
	}
	p := m.home.pool
	out.Models = append(out.Models, catalog.ModelFacts{Key: m.key, DeviceType: p.deviceType, In: p.name, Set: m.ordered()})
}

// ordered are the settings that orders have put in force; nil: none.
func (m *model) ordered() *catalog.Settings {
	if m.set == (catalog.Settings{}) {
		return nil
	}
	set := m.set
	return &set
}

// SetOf are those of a model, by its key.
func (c *Cluster) SetOf(key string) *catalog.Settings {
	if m := c.models.byKey[key]; m != nil {
		return m.ordered()
	}
	return nil
}

// parted tells of what is no more, and of the sub-clusters.
func (c *Cluster) parted(since uint64, out *catalog.Facts) {
	for _, p := range c.gone.pools {
		if since > 0 && p.serial > since && p.serial <= out.Serial && c.poolOf(p.deviceType, p.name) == nil {
			out.SubClusters = append(out.SubClusters, catalog.SubClusterFacts{Name: p.name, DeviceType: p.deviceType, Planned: p.name != ""})
		}
	}
	for _, p := range c.pools {
		if p != nil && p.changed > since && p.changed <= out.Serial {
			out.SubClusters = append(out.SubClusters, p.facts())
		}
	}
	if since == 0 {
		return
	}
	for _, g := range c.gone.units {
		if g.serial > since && g.serial <= out.Serial { // also one that is back, with other models perhaps
			out.GoneGPUs = append(out.GoneGPUs, g.name)
		}
	}
	for _, m := range c.gone.models {
		if m.serial > since && m.serial <= out.Serial {
			out.GoneModels = append(out.GoneModels, m.name)
		}
	}
}

func (p *pool) facts() catalog.SubClusterFacts {
	return catalog.SubClusterFacts{Name: p.name, DeviceType: p.deviceType, Planned: p.name != "", GPUs: p.live, Models: p.routed}
}

// facts is a device as it is now, without its models.
func (u *unit) facts() catalog.GPUFacts {
	f := catalog.GPUFacts{Name: u.name, DeviceType: u.doc().DeviceType, In: u.in(), Memory: u.doc().Memory, Measures: u.doc().Measures, Paged: u.doc().Paged != nil, CannotPage: u.doc().CannotPage, State: catalog.GPUFree}
	switch {
	case !u.works():
		f.State = catalog.GPUOut
	case u.draining || u.added && u.b.retired:
		f.State = catalog.GPUDraining
	case u.added:
		f.State = catalog.GPUServing
	}
	return f
}

// tell adds a piece of what the device has.
func (u *unit) tell(p piece, f *catalog.GPUFacts) {
	s := u.stock()
	if p.item != nil {
		f.Stock = append(f.Stock, p.item.facts(u.device))
	}
	if !p.whole {
		return
	}
	for i := range s.list.order {
		if s.told(i) {
			continue
		}
		d := catalog.Stocked{Key: s.list.at(i).Key(), State: catalog.StateReady, Local: s.own == nil || s.own[i]}
		if s.brought != nil {
			d.Files = s.brought[i]
		}
		if u.device == 0 {
			d.Spec = s.list.at(i)
		}
		f.Stock = append(f.Stock, d)
	}
}

// facts is a model as a device has it.
func (it *item) facts(device int) catalog.Stocked {
	d := it.doc
	d.Slot = 0
	switch {
	case it.there(device) && it.bad != "":
		d.State, d.Error = catalog.StateFailed, it.bad
	case it.there(device):
		d.State, d.Error = catalog.StateReady, ""
		if it.first() == device {
			d.Spec = it.told
		}
	case d.State == catalog.StateReady:
		d.State, d.Files = catalog.StateGone, catalog.Files{} // others have it
	}
	return d
}

// first is the first device that has it.
func (it *item) first() int {
	for i, w := range it.devices {
		for b := range 64 {
			if w>>b&1 != 0 {
				return 64*i + b
			}
		}
	}
	return -1
}
