package members

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// controller notes a link of the control plane's.
func (c *Cluster) controller(conn Conn) {
	if !slices.Contains(c.controllers, conn) {
		c.controllers = append(c.controllers, conn)
	}
}

// leaveController forgets one, and whom its orders are to be answered to: what they ask for
// goes on.
func (c *Cluster) leaveController(conn Conn) bool {
	before := len(c.controllers)
	c.controllers = slices.DeleteFunc(c.controllers, func(x Conn) bool { return x == conn })
	if len(c.controllers) == before {
		return false
	}
	for _, b := range c.backends {
		for _, u := range b.units {
			c.drop(u, func(w *order) bool { return w.conn == conn })
		}
	}
	if len(c.controllers) == 0 {
		c.plan = 0 // the next may have lost its state, and number plans anew; who leads is not said here
	}
	return true
}

// names say which versions of a model answer.
type names struct {
	byName map[string]*name
	all    []*name
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
	}
	return nil
}

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
