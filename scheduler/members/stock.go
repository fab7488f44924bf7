package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// stock is what the devices of a backend's pool have: all of a list, but for what was told of
// since. Thousands of backends that have the same from the beginning share all of it.
type stock struct {
	backend string
	doc     *catalog.Pool
	list    *list
	items   []*item // in the order in which they were told of
	byKey   map[string]*item
	listed  []*item         // by the list's order of keys; nil: none of the list was told of
	own     []bool          // likewise: it lies in the backend's folder, nobody ordered it; nil: all
	brought []catalog.Files // likewise, of those that were ordered; nil: not told
	lost    bool            // the document at hand takes something away that is routed
}

// item is a model of a backend's pool that was told of.
type item struct {
	stock      *stock
	model      *model // nil: it has none, or it cannot be one (bad)
	key        string
	at         int // in the list's order of keys; -1: it is not listed
	slot       int
	state      string
	devices    []uint64 // bits: who have it
	local      bool
	pending    int    // as what it is counted among what is not served
	why        string // it failed
	bad        string // the scheduler does not take it, and why
	told       *catalog.ModelSpec
	speed      *profile.Profile
	configured int64
	vars       []*variant // by pool
	doc        catalog.Stocked
	changed    uint64 // serial
}

// on reports whether the device has it and the scheduler may use it there.
func (it *item) on(device int) bool { return it.model != nil && it.there(device) }

func (it *item) there(device int) bool { return bit(it.devices, device) }

func bit(devices []uint64, i int) bool {
	return i/64 < len(devices) && devices[i/64]>>(i%64)&1 != 0
}

// told reports whether the i-th model of the list, by key, was told of.
func (s *stock) told(i int) bool { return s.listed != nil && s.listed[i] != nil }

// has reports whether a device has a model.
func (s *stock) has(device int, m *model) bool {
	if it := s.byKey[m.key]; it != nil {
		return it.model == m && it.on(device)
	}
	i, ok := s.list.search(m.key)
	return ok && s.list.models[i] == m
}

// there is likewise by the key, whether or not the scheduler may use it.
func (s *stock) there(device int, key string) bool {
	if it := s.byKey[key]; it != nil {
		return it.there(device)
	}
	_, ok := s.list.search(key)
	return ok
}

func (s *stock) labelled(d catalog.Digest) bool {
	return s.list.labels[d] || slices.ContainsFunc(s.items, func(it *item) bool { return it.told != nil && it.told.LabelsID == d })
}

// item finds or begins what is told of a model.
func (s *stock) item(key string) *item {
	if it := s.byKey[key]; it != nil {
		return it
	}
	it := &item{stock: s, key: key, at: -1, local: true}
	if s.byKey == nil {
		s.byKey = map[string]*item{}
	}
	s.byKey[key] = it
	s.items = append(s.items, it)
	return it
}

// fresh counts the models that it was not told of before.
func (s *stock) fresh(models []catalog.Stocked) (n int) {
	for i := range models {
		if s.byKey[models[i].Key] == nil {
			n++
		}
	}
	return n
}

// stockMax is how many models a backend's pool may have told of.
const stockMax = 2 * catalog.ModelsMax

// Stock takes what became of a backend's models. at is the time of day, unix ns.
func (c *Cluster) Stock(now mono.Time, at int64, conn Conn, doc *catalog.Stock, out *Effects) error {
	b := c.backend(conn)
	if b == nil || !b.admitted {
		return nil
	}
	if doc.Pool < 0 || doc.Pool >= len(b.stocks) {
		return fmt.Errorf("stock of pool %d, which does not exist", doc.Pool)
	}
	c.begin(now, out)
	s := b.stocks[doc.Pool]
	for i := range doc.Models {
		if err := checkStocked(&doc.Models[i], b.info.Pools[doc.Pool].Devices); err != nil {
			return err
		}
	}
	if s.fresh(doc.Models)+len(s.items) > stockMax {
		return fmt.Errorf("stock of pool %d: more than %d models were told of", doc.Pool, stockMax)
	}
	var bound []*item
	var failed changes
	for i := range doc.Models {
		said := ""
		if it := s.byKey[doc.Models[i].Key]; it != nil {
			said = it.bad
		}
		it := c.stocked(at, b, doc.Pool, &doc.Models[i])
		bound = append(bound, it)
		if it.bad != "" && it.bad != said { // once for a reason
			failed.add(it.key, it.bad)
		}
	}
	c.bind(b, doc.Pool, bound)
	if failed.n > 0 {
		out.note(fmt.Sprintf("backend %s: not served: %s", b.info.Name, failed.text()))
	}
	c.stockChanged(b, doc.Pool)
	c.settle(b.info.Name)
	for i := range doc.Models {
		c.follow(b, doc.Pool, &doc.Models[i])
	}
	return nil
}

// bind tells a backend the ids of models that it has.
func (c *Cluster) bind(b *backend, index int, items []*item) {
	bound := catalog.Bound{Pool: index}
	for _, it := range items {
		if it.model != nil {
			bound.IDs, bound.Slots = append(bound.IDs, it.model.id), append(bound.Slots, it.slot)
		}
	}
	if len(bound.IDs) > 0 {
		c.out.add(Effect{Kind: Bind, Conn: b.conn, Bound: &bound})
	}
}

func checkStocked(d *catalog.Stocked, devices int) error {
	name, version, ok := strings.Cut(reverse(d.Key), "/") // a name may have a /
	if !ok || name == "" || version == "" {
		return fmt.Errorf("stock of %q, which is no model's name and version", d.Key)
	}
	if d.Slot < 0 || d.Slot >= 1<<20 {
		return fmt.Errorf("model %s: slot %d", d.Key, d.Slot)
	}
	if !slices.IsSorted(d.Devices) || len(d.Devices) > 0 && (d.Devices[0] < 0 || d.Devices[len(d.Devices)-1] >= devices) {
		return fmt.Errorf("model %s on devices %v: there are %d, and they must rise", d.Key, d.Devices, devices)
	}
	if err := d.Files.Check(); err != nil {
		return fmt.Errorf("model %s: %w", d.Key, err)
	}
	if d.Spec != nil && d.Spec.Key() != d.Key {
		return fmt.Errorf("stock of %s tells of %s", d.Key, d.Spec.Key())
	}
	return nil
}

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// stocked takes one of them. Members of pools are counted anew: they have it no longer, and
// then as it is now.
func (c *Cluster) stocked(at int64, b *backend, index int, d *catalog.Stocked) *item {
	s := b.stocks[index]
	before := len(s.items)
	it := s.item(d.Key)
	units := b.unitsOf(index)
	if len(s.items) > before {
		if i, ok := s.list.search(d.Key); ok {
			c.unlist(units, s, it, i)
		}
		if before == 0 {
			for _, u := range units {
				if u.joined {
					u.use.pure--
				}
			}
		}
	}
	was, had := it.model, it.devices
	c.recount(it, units, -1)
	it.slot, it.state, it.why, it.local = d.Slot, d.State, d.Error, d.Local
	if it.devices = bits(d.Devices); d.State == catalog.StateGone {
		it.devices = nil
	}
	if d.Spec != nil {
		switch { // what it says for the first time it has read when it began
		case it.told == nil:
			it.configured = b.info.Configured
		case news(it.told, d.Spec) != "":
			it.configured = at
		}
		it.told, it.speed = d.Spec, nil
	}
	c.pends(it, pendOf(d.State))
	it.doc = *d
	it.doc.Spec, it.doc.Devices = nil, nil // they are kept once, as told and devices
	it.changed = c.next()
	c.name(it)
	c.recount(it, units, 1)
	if it.model != nil {
		it.refresh(c)
		c.stir(it.model)
	}
	for _, u := range units {
		if was != nil && u.joined && bit(had, u.device) && !(it.model == was && it.on(u.device)) {
			e := was.entry(u.pool)
			s.lost = s.lost || e != nil && e.routed()
			c.stir(was)
		}
	}
	return it
}

// unlist lets an item stand for the i-th model of the list from now on.
func (c *Cluster) unlist(units []*unit, s *stock, it *item, i int) {
	if s.listed == nil {
		s.listed = make([]*item, len(s.list.order))
	}
	s.listed[i], it.at = it, i
	it.told, it.model, it.configured = s.list.at(i), s.list.models[i], units[0].b.info.Configured
	it.speed = s.list.speed(i)
	it.model.refs++
	all := make([]int, len(units))
	for k, u := range units {
		all[k] = u.device
		if u.joined {
			c.add(u.use.vars[i], -1)
		}
	}
	it.devices = bits(all)
	c.recount(it, units, 1)
}

// recount counts the members that have it.
func (c *Cluster) recount(it *item, units []*unit, by int) {
	for _, u := range units {
		if u.joined && it.on(u.device) {
			c.add(c.variantOf(it, u.pool), by)
		}
	}
}

// name finds the model that an item is, or says why it is none.
func (c *Cluster) name(it *item) {
	it.bad = ""
	old := it.model
	it.model = nil
	switch {
	case !slices.ContainsFunc(it.devices, func(w uint64) bool { return w != 0 }):
	case it.told == nil:
		it.bad = "its backend has not said what it is"
	default:
		if it.speed == nil {
			it.told, it.speed, it.bad = checked(it.told)
		}
		if it.bad == "" && it.stock.doc.Paged != nil {
			if err := fitsPages(it.stock.doc, it.told); err != nil {
				it.bad = err.Error()
			}
		}
		if it.bad == "" {
			it.model, it.bad = c.identify(it.told, it.counted(c.models.byKey[it.key], old))
		}
		if it.model != nil && it.stock.alone(it) {
			it.stock.renamed(it, it.model)
		}
		if it.model != nil {
			if it.bad = c.otherFiles(it); it.bad != "" {
				it.model = nil
			}
		}
	}
	it.free(c) // nobody is counted there now
	if it.model != nil {
		it.model.refs++
	}
	if old != nil {
		old.refs--
		c.stir(old)
	}
}

// counted is how often an item is among the references of the model of its key: as what it was, and in its list.
func (it *item) counted(m, was *model) (n int) {
	if was == m {
		n++
	}
	if it.stock.alone(it) && it.stock.list.models[it.at] == m {
		n++
	}
	return n
}

// checked is a model with its latencies, or what is wrong with it.
func checked(told *catalog.ModelSpec) (*catalog.ModelSpec, *profile.Profile, string) {
	spec := *told
	if err := CheckModel(&spec); err != nil {
		return told, nil, err.Error()
	}
	speed, err := profile.FromDoc(spec.Profile, spec.MaxBatch)
	if err != nil {
		return told, nil, err.Error()
	}
	spec.MaxBatch = speed.MaxBatch() // no larger than what was measured
	return &spec, speed, ""
}

// stockChanged draws the conclusions for the devices: one that has all that is routed to its
// pool becomes a member, and one that has lost something of it is none any more, as long as
// others have it. Where all have lost it, or nobody plans, the model is served no longer.
func (c *Cluster) stockChanged(b *backend, index int) {
	s := b.stocks[index]
	for _, u := range b.unitsOf(index) {
		p := u.pool
		if p == nil {
			continue
		}
		c.look(p)
		if !s.lost || !u.joined || u.works() && p.name == "" || u.tally((*entry).routed) == p.routed {
			continue
		}
		others := slices.ContainsFunc(p.units, func(x *unit) bool { return x != u && x.added && !x.draining && x.tally((*entry).routed) == p.routed })
		if u.works() && !others {
			continue
		}
		c.out.note(fmt.Sprintf("pool %s: GPU %s has lost models that are routed there, and serves no more until it has them: %s", p.label(), u.name, some(c.lacks(u, p))))
		c.unjoin(u)
		c.idle(u)
	}
	s.lost = false
	s.purge(c)
}

// tombstones is how many models that are gone a pool's stock remembers, so that who follows
// the facts hears of them.
const tombstones = 256

// purge forgets the older half of those that are gone where there are too many: who follows the
// facts has heard of these, and need not begin anew.
func (s *stock) purge(c *Cluster) {
	over := func(it *item) bool { return it.state == catalog.StateGone && it.at < 0 }
	var since []uint64
	for _, it := range s.items {
		if over(it) {
			since = append(since, it.changed)
		}
	}
	if len(since) <= tombstones {
		return
	}
	slices.Sort(since)
	s.items = slices.DeleteFunc(s.items, func(it *item) bool {
		if !over(it) || it.changed > since[len(since)/2] {
			return false
		}
		delete(s.byKey, it.key)
		c.gone.floor = max(c.gone.floor, it.changed)
		return true
	})
}

// free gives its variants up, which nobody is counted for.
func (it *item) free(c *Cluster) {
	for _, v := range it.vars {
		v.entry.vars--
		c.stir(v.entry.model)
	}
	it.vars = nil
}

// refresh lets what it says of its model now count where it is used.
func (it *item) refresh(c *Cluster) {
	for _, v := range it.vars {
		if v.n > 0 {
			v.entry.newer(c, it.told, it.configured, "", it.stock.backend)
		}
	}
}

func bits(devices []int) []uint64 {
	if len(devices) == 0 {
		return nil
	}
	out := make([]uint64, slices.Max(devices)/64+1)
	for _, d := range devices {
		out[d/64] |= 1 << (d % 64)
	}
	return out
}

// ids are those of the models that a backend's pool has, in the list's order.
func idsOf(models []*model, order []int) []wire.ModelID {
	ids := make([]wire.ModelID, len(models))
	for i, m := range models {
		ids[order[i]] = m.id
	}
	return ids
}
