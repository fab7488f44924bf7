package members

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// listed is how many names an error tells.
const listed = 5

// check finds why b cannot be admitted, before anything is changed.
func (c *Cluster) check(now mono.Time, b *backend, out *Effects) error {
	if old := c.byName[b.info.Name]; old != nil {
		return fmt.Errorf("a backend named %q is connected already; each needs a name of its own (backend.name), and a restarted one is let in when the link of the one before has ended", b.info.Name)
	}
	empty, begun := 0, 0
	for _, p := range c.pools {
		if len(p.backends) == 0 && !b.brings(p.deviceType) {
			empty++
		}
	}
	ids := 0
	for i, l := range b.lists {
		deviceType := b.info.Pools[i].DeviceType
		for k, other := range b.lists[:i] {
			if key := shared(l, other); key != "" {
				return fmt.Errorf("model %s is in the pools %s and %s; a model belongs to one pool", key, b.info.Pools[k].DeviceType, deviceType)
			}
		}
		p := c.poolOf(deviceType)
		if p == nil {
			begun++
		} else if free := c.limits.GPUs - p.live; b.info.Pools[i].Devices > free {
			return fmt.Errorf("pool %s has room for %d more devices of %d", deviceType, free, c.limits.GPUs)
		}
		if p != nil && p.uses.of(l) >= 0 {
			continue // another backend there has the very same models
		}
		if err := c.checkPool(p, deviceType, l); err != nil {
			return err
		}
		ids += c.idsFor(p, l)
	}
	if len(c.pools)+begun > c.limits.Pools+empty {
		return fmt.Errorf("more than %d device types", c.limits.Pools)
	}
	return c.checkIDs(now, ids, b, out)
}

// checkPool says why l's models cannot be served by pool p, nil where it is not there yet.
func (c *Cluster) checkPool(p *pool, deviceType string, l *list) error {
	if p == nil || len(p.backends) == 0 {
		for i := range l.specs {
			m := c.models.byKey[l.specs[i].Key()]
			if m != nil && m.pool != p && len(m.pool.backends) > 0 {
				return fmt.Errorf("model %s is served on %s already; a model belongs to one pool", m.key, m.pool.deviceType)
			}
		}
		return nil
	}
	missing, extra := difference(p, l)
	if len(missing)+len(extra) > 0 {
		return fmt.Errorf("pool %s: every backend must have the same models as %s; missing here: [%s], only here: [%s]",
			deviceType, p.backends[0].info.Name, some(missing), some(extra))
	}
	for i, m := range p.models {
		if field, here, there := differs(l.at(i), m.spec); field != "" {
			return fmt.Errorf("model %s: %s is %s here, and %s on %s; a model of one name and version is the same everywhere: give the other a version of its own",
				m.key, field, here, there, p.backends[0].info.Name)
		}
	}
	return nil
}

// idsFor counts the models of l that need an id.
func (c *Cluster) idsFor(p *pool, l *list) int {
	n := 0
	for i := range l.specs {
		m := c.models.byKey[l.specs[i].Key()]
		if m == nil || m.pool != p || another(m, &l.specs[i]) {
			n++
		}
	}
	return n
}

// another tells whether spec is another model under m's key: only a pool without backends takes it.
func another(m *model, spec *catalog.ModelSpec) bool {
	field, _, _ := differs(spec, m.spec)
	return field != ""
}

// checkIDs says whether there are n ids for models. Where they are short, models that no
// backend has brought for longest give theirs up, for the next attempt.
func (c *Cluster) checkIDs(now mono.Time, n int, b *backend, out *Effects) error {
	short := n - c.models.free(now, c.limits.Models)
	if short <= 0 {
		return nil
	}
	served, away := 0, []*pool(nil)
	for _, p := range c.pools {
		switch {
		case len(p.backends) > 0:
			served += len(p.models)
		case !b.brings(p.deviceType):
			away = append(away, p)
		}
	}
	if served+n > c.limits.Models {
		return fmt.Errorf("more than %d models", c.limits.Models)
	}
	slices.SortFunc(away, func(a, b *pool) int { return cmp.Compare(a.emptied, b.emptied) })
	short -= c.models.resting(now)
	for _, p := range away {
		if short <= 0 {
			break
		}
		short -= len(p.models)
		c.clearPool(now, p, out)
	}
	return fmt.Errorf("all %d ids of models are in use or rest for %v after their models have left: try again", c.limits.Models, rest)
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

// difference names what p has and l has not, and the other way round.
func difference(p *pool, l *list) (missing, extra []string) {
	i, k := 0, 0
	for i < len(p.models) || k < len(l.order) {
		switch {
		case k == len(l.order) || i < len(p.models) && p.models[i].key < l.at(k).Key():
			missing = append(missing, p.models[i].key)
			i++
		case i == len(p.models) || p.models[i].key > l.at(k).Key():
			extra = append(extra, l.at(k).Key())
			k++
		default:
			i, k = i+1, k+1
		}
	}
	return missing, extra
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
