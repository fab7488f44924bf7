package members

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// listed is how many names an error tells.
const listed = 5

// plainOf counts the newcomer's devices that belong to the sub-cluster of their type that nobody
// plans.
func (c *Cluster) plainOf(info *catalog.BackendInfo, index int) (n int) {
	for device := range info.Pools[index].Devices {
		if c.inOf(info, index, device) == "" {
			n++
		}
	}
	return n
}

func (c *Cluster) plain(info *catalog.BackendInfo, index int) bool { return c.plainOf(info, index) > 0 }

// check finds why b cannot be admitted, before anything is changed.
func (c *Cluster) check(b *backend) error {
	if old := c.byName[b.info.Name]; old != nil {
		return fmt.Errorf("a backend named %q is connected already; each needs a name of its own (backend.name), and a restarted one is let in when the link of the one before has ended", b.info.Name)
	}
	ids, begun := 0, 0
	for i, l := range b.lists {
		doc := &b.info.Pools[i]
		if l.holders == 0 {
			if err := c.checkModels(l); err != nil {
				return err
			}
			ids += c.idsFor(b, l)
		}
		for _, other := range b.lists[:i] {
			if key := apartIn(l, other); key != "" {
				return fmt.Errorf("model %s is not the same in the pools of %s; a model of one name and version is the same everywhere", key, b.info.Name)
			}
		}
		if err := c.checkPaged(b, doc, l); err != nil {
			return err
		}
		if !c.plain(b.info, i) {
			continue
		}
		for k, other := range b.lists[:i] {
			if key := shared(l, other); key != "" && c.plain(b.info, k) {
				return fmt.Errorf("model %s is in the pools %s and %s; a model belongs to one pool", key, b.info.Pools[k].DeviceType, doc.DeviceType)
			}
		}
		p := c.poolOf(doc.DeviceType, "")
		if p == nil {
			begun++
		} else if free := c.limits.GPUs - len(p.units); c.plainOf(b.info, i) > free {
			return fmt.Errorf("pool %s has room for %d more devices of %d", doc.DeviceType, free, c.limits.GPUs)
		}
		if err := c.checkPlain(p, doc, l, c.plainOf(b.info, i) == doc.Devices); err != nil {
			return err
		}
	}
	if begun > c.room(b) {
		return fmt.Errorf("more than %d device types and sub-clusters", c.limits.Pools)
	}
	return c.checkIDs(ids, b)
}

// checkModels says which of a list's models is not the one that others have under its name.
func (c *Cluster) checkModels(l *list) error {
	for i := range l.order {
		spec := l.at(i)
		m := c.models.byKey[spec.Key()]
		if m == nil || m.refs == 0 || m.is == nil {
			continue
		}
		if field, here, there := differs(spec, m.is); field != "" {
			return fmt.Errorf("model %s: %s is %s here, and %s on %s; a model of one name and version is the same everywhere: give the other a version of its own",
				m.key, field, here, there, c.holderOf(m))
		}
	}
	return nil
}

// holderOf is a backend that has a model.
func (c *Cluster) holderOf(m *model) string {
	for _, b := range c.backends {
		if !b.admitted {
			continue
		}
		for _, u := range b.units {
			if u.has(m) {
				return b.info.Name
			}
		}
	}
	return "another"
}

// checkPlain says why l's models cannot be served by pool p, which nobody plans; nil where it is
// not there yet. Where some of the newcomer's devices are elsewhere (whole is false) the list is
// only what they have in common: each of the others waits until it has what is routed.
func (c *Cluster) checkPlain(p *pool, doc *catalog.Pool, l *list, whole bool) error {
	if p != nil && slices.ContainsFunc(p.uses, func(u *use) bool { return u.list == l && u.pure > 0 }) {
		return nil // another device there has the very same models
	}
	own := l.owned(doc.Ordered)
	for i := range l.order {
		m := c.models.byKey[l.at(i).Key()]
		if m != nil && own[i] && m.home != nil && m.home.pool != p && m.home.pool.name == "" && len(m.home.pool.units) > 0 {
			return fmt.Errorf("model %s is served on %s already; a model belongs to one pool", m.key, m.home.pool.deviceType)
		}
	}
	if p == nil || len(p.units) == 0 || !whole {
		return nil
	}
	var missing, extra []string
	for _, e := range p.entries {
		if e.routed() && !e.ordered() && l.find(e.model.key) == nil {
			missing = append(missing, e.model.key)
		}
	}
	for i := range l.order {
		key := l.at(i).Key()
		if m := c.models.byKey[key]; own[i] && (m == nil || m.pin == pinNone && (m.entry(p) == nil || m.entry(p).gpus == 0 && !m.entry(p).routed())) {
			extra = append(extra, key)
		}
	}
	slices.Sort(missing)
	if len(missing)+len(extra) > 0 {
		return fmt.Errorf("pool %s: every backend must have the same models as %s; missing here: [%s], only here: [%s]",
			doc.DeviceType, p.units[0].b.info.Name, some(missing), some(extra))
	}
	return nil
}

// idsFor counts the models of l that need an id.
func (c *Cluster) idsFor(b *backend, l *list) int {
	n := 0
	for i := range l.order {
		m := c.models.byKey[l.at(i).Key()]
		if m == nil || m.refs == 0 && (another(m, l.at(i)) || m.home != nil && m.home.pool.spare(b)) {
			n++ // it, or its pool, may make way
		}
	}
	return n
}

// another tells whether spec is another model under m's key: only one that nobody has makes way.
func another(m *model, spec *catalog.ModelSpec) bool {
	if m.is == nil {
		return false
	}
	field, _, _ := differs(spec, m.is)
	return field != ""
}

// checkIDs says whether there are n ids for models. Where they are short, models that no
// backend has brought for longest give theirs up, for the next attempt.
func (c *Cluster) checkIDs(n int, b *backend) error {
	short := n - c.models.free(c.now, c.limits.Models)
	if n == 0 || short <= 0 {
		return nil
	}
	if c.models.held()+n > c.limits.Models {
		return fmt.Errorf("more than %d models", c.limits.Models)
	}
	var away []*pool
	for _, p := range c.pools {
		if p != nil && p.spare(b) {
			away = append(away, p)
		}
	}
	slices.SortFunc(away, func(a, b *pool) int { return cmp.Compare(a.emptied, b.emptied) })
	short -= c.models.resting(c.now)
	for _, p := range away {
		if short <= 0 {
			break
		}
		short -= p.routed
		c.clearPool(p)
	}
	return fmt.Errorf("all %d ids of models are in use or rest for %v after their models have left: try again", c.limits.Models, rest)
}

// apartIn is a key that is another model in the one list than in the other; "": none.
func apartIn(a, b *list) string {
	for i := range a.specs {
		if other := b.find(a.specs[i].Key()); other != nil {
			if field, _, _ := differs(&a.specs[i], other); field != "" {
				return other.Key()
			}
		}
	}
	return ""
}

// shared is a key that both lists have; "": none.
func shared(a, b *list) string {
	for i := range a.specs {
		if key := a.specs[i].Key(); b.find(key) != nil {
			return key
		}
	}
	return ""
}

func some(names []string) string {
	if len(names) > listed {
		return strings.Join(names[:listed], " ") + fmt.Sprintf(" and %d more", len(names)-listed)
	}
	return strings.Join(names, " ")
}

// differs names the first field in which two are not the same model, with both values;
// "" where they are.
func differs(a, b *catalog.ModelSpec) (field, va, vb string) {
	switch {
	case a.Platform != b.Platform:
		return "platform", strconv.Quote(a.Platform), strconv.Quote(b.Platform)
	case !slices.EqualFunc(a.Inputs, b.Inputs, sameTensor):
		return "inputs", tensors(a.Inputs), tensors(b.Inputs)
	case !slices.EqualFunc(a.Outputs, b.Outputs, sameTensor):
		return "outputs", tensors(a.Outputs), tensors(b.Outputs)
	case !sameImage(a.Image, b.Image):
		return "image", image(a.Image), image(b.Image)
	}
	return "", "", ""
}

func sameTensor(a, b catalog.TensorSpec) bool {
	return a.Name == b.Name && a.Type == b.Type && slices.Equal(a.Shape, b.Shape)
}

func sameImage(a, b *catalog.ImageSpec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Layout == b.Layout && a.Channels == b.Channels && a.Resize == b.Resize && a.Scale == b.Scale && a.Invert == b.Invert &&
		slices.Equal(a.Mean, b.Mean) && slices.Equal(a.Std, b.Std)
}

func tensors(t []catalog.TensorSpec) string {
	var all []string
	for _, s := range t {
		all = append(all, fmt.Sprintf("%s %s%v", s.Name, s.Type, s.Shape))
	}
	return "(" + strings.Join(all, ", ") + ")"
}

func image(s *catalog.ImageSpec) string {
	if s == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *s)
}
