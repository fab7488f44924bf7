package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// names say which versions of a model answer.
type names struct {
	byName map[string]*name
	all    []*name
	swept  mono.Time
}

// name is a model's; of one without shares frontends must hear, and then it may be forgotten.
type name struct {
	doc     catalog.Name
	changed uint64
	at      mono.Time
}

// versionsMax bounds the versions of a name.
const versionsMax = 256

func (n *names) set(c *Cluster, docs []catalog.Name) error {
	fresh := 0
	for i := range docs {
		d := &docs[i]
		if d.Name == "" || len(d.Name) > nameMax || len(d.Shares) > versionsMax {
			return fmt.Errorf("name %q with %d versions: it needs 1 to %d bytes, and at most %d versions", d.Name, len(d.Shares), nameMax, versionsMax)
		}
		sum := uint64(0)
		for k, s := range d.Shares {
			if s.Version == "" || slices.ContainsFunc(d.Shares[:k], func(t catalog.Share) bool { return t.Version == s.Version }) {
				return fmt.Errorf("name %q: version %q is empty or there twice", d.Name, s.Version)
			}
			sum += uint64(s.Weight)
		}
		if len(d.Shares) > 0 && sum == 0 {
			return fmt.Errorf("name %q: all weights are 0", d.Name)
		}
		if n.byName[d.Name] == nil && len(d.Shares) > 0 {
			fresh++
		}
	}
	if len(n.all)+fresh > c.limits.Models {
		n.sweep(c)
	}
	if len(n.all)+fresh > c.limits.Models {
		return fmt.Errorf("more than %d names", c.limits.Models)
	}
	for _, d := range docs {
		x := n.byName[d.Name]
		if x == nil && len(d.Shares) == 0 {
			continue // nobody was told of any
		}
		if x == nil {
			x = &name{}
			n.byName[d.Name] = x
			n.all = append(n.all, x)
		} else if slices.Equal(x.doc.Shares, d.Shares) {
			continue
		}
		x.doc, x.changed, x.at = d, c.tell(), c.now
		c.stood()
	}
	return nil
}

// sweepEvery is between two looks at which names may be forgotten.
const sweepEvery = 30 * mono.Second

// tidy does that now and then: a name is a model's, and models come and go for years.
func (n *names) tidy(c *Cluster) {
	if len(n.all) == 0 || c.now.Sub(n.swept) < sweepEvery {
		return
	}
	n.swept = c.now
	n.bury(c)
	n.sweep(c)
}

// bury takes the shares of names away that no model has any more, here or ordered: frontends
// hear of it, and then they are forgotten. Whoever has a model of the name loaded again says what
// its shares are.
func (n *names) bury(c *Cluster) {
	dead := map[string]*name{}
	for _, x := range n.all {
		if len(x.doc.Shares) > 0 {
			dead[x.doc.Name] = x
		}
	}
	for _, m := range c.models.byID {
		if m != nil && len(dead) > 0 {
			delete(dead, nameOf(m.key))
		}
	}
	for _, r := range c.memory.all {
		if len(dead) == 0 {
			return
		}
		for i := range r.wanted {
			delete(dead, r.wanted[i].Name)
		}
	}
	for _, x := range n.all {
		if dead[x.doc.Name] != nil {
			x.doc.Shares, x.changed, x.at = nil, c.tell(), c.now
			c.stood()
		}
	}
}

// nameOf is the name in a model's key: a version has no slash.
func nameOf(key string) string { return key[:max(0, strings.LastIndexByte(key, '/'))] }

// sweep forgets names without shares that all have heard of.
func (n *names) sweep(c *Cluster) {
	n.all = slices.DeleteFunc(n.all, func(x *name) bool {
		forget := len(x.doc.Shares) == 0 && c.now.Sub(x.at) > rest
		if forget {
			delete(n.byName, x.doc.Name)
		}
		return forget
	})
}
