package members

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What a spare must know to take over: frontends and backends introduce themselves to it, too, and
// tell it what they have and what the leader orders of them (Overhear). The rest the leader tells:
// Standing, which holds like orders, also for models that nobody has yet.

// StandingSerial is that of the last change of what Standing tells.
func (c *Cluster) StandingSerial() uint64 { return c.standing }

// stood notes that it has changed.
func (c *Cluster) stood() { c.standing++ }

// Standing is what orders have set, and what backends do not tell, in the words of who leads by reign.
func (c *Cluster) Standing(reign wire.Epoch) catalog.Standing {
	doc := catalog.Standing{Reign: uint64(reign)}
	for _, m := range c.models.byID {
		if m == nil {
			continue
		}
		s := catalog.Stand{Key: m.key, Set: m.ordered(), Digest: m.files}
		if m.pin == pinNever {
			s.Never, s.Epoch, s.Serial = true, m.stamp.epoch, m.stamp.serial
		}
		if s.Set != nil || s.Digest != "" || s.Never {
			doc.Stands = append(doc.Stands, s)
		}
	}
	for _, n := range c.names.all {
		if len(n.doc.Shares) > 0 {
			doc.Named = append(doc.Named, n.doc)
		}
	}
	return doc
}

// TakeStanding lets what the leader has told hold from now on, in place of what was told before.
// Settings that are wrong are left out: a leader has checked what it was ordered. One that has been
// overtaken and does not know it yet has old ones: nothing of it holds.
func (c *Cluster) TakeStanding(now mono.Time, doc *catalog.Standing, out *Effects) error {
	if doc.Reign < c.stoodBy {
		return nil
	}
	c.stoodBy = doc.Reign
	c.begin(now, out)
	c.models.stands = make(map[string]catalog.Stand, len(doc.Stands))
	for _, s := range doc.Stands {
		if s.Set == nil || checkSettings(s.Set) == nil {
			c.models.stands[s.Key] = s
		}
	}
	for _, m := range c.models.byID {
		if m == nil {
			continue
		}
		s := c.models.stands[m.key]
		before, pinned := m.set, m.pin
		switch at := (stamp{s.Epoch, s.Serial}); {
		case s.Never && m.pin != pinNever && at.after(m.stamp):
			c.pinTo(m, pinNever, nil, at)
		case !s.Never && m.pin == pinNever:
			c.pinTo(m, pinNone, nil, m.stamp)
		}
		m.stand(&s)
		if !sameSettings(before, m.set) && m.home != nil {
			m.changed = c.tell()
		}
		if m.pin != pinned || !sameSettings(before, m.set) {
			c.stir(m)
		}
	}
	err := c.names.replace(c, doc.Named)
	c.stood()
	c.settle("the leader's word")
	return err
}

// stand lets the settings that were told of a model hold.
func (m *model) stand(s *catalog.Stand) {
	if m.set = (catalog.Settings{}); s.Set != nil {
		m.set = *s.Set
	}
	if m.files == "" {
		m.files = s.Digest
	}
}

func sameSettings(a, b catalog.Settings) bool {
	return same(a.SLO, b.SLO) && same(a.MaxBatch, b.MaxBatch) && same(a.DropPolicy, b.DropPolicy)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// replace has these names, and no others, say which versions answer.
func (n *names) replace(c *Cluster, docs []catalog.Name) error {
	kept := make(map[string]bool, len(docs))
	for i := range docs {
		kept[docs[i].Name] = true
	}
	all := slices.Clone(docs)
	for _, x := range n.all {
		if !kept[x.doc.Name] && len(x.doc.Shares) > 0 {
			all = append(all, catalog.Name{Name: x.doc.Name})
		}
	}
	return n.set(c, all)
}

// Overhear takes what another scheduler, which leads, has ordered a backend, which repeats it: where
// its device belongs, what it is to have, and what is routed there.
func (c *Cluster) Overhear(now mono.Time, conn Conn, k *catalog.Keep, out *Effects) error {
	u, err := c.unitAt(conn, k.Pool, k.Device)
	if u == nil {
		return err
	}
	if tooLong(k.In) {
		return fmt.Errorf("a sub-cluster with a name of %d bytes", len(k.In))
	}
	for i := range k.Load {
		if err := checkStocked(&catalog.Stocked{Key: k.Load[i].Key()}, 0); err != nil {
			return err
		}
	}
	c.begin(now, out)
	r := c.memory.of(u.name)
	r.want(k.Load)
	r.unwant(k.Unload)
	if k.In != u.in() {
		c.goesTo(u, k.In)
		r.in, r.placed = k.In, true
	}
	if k.Told != nil && k.Told.SubCluster == u.in() {
		c.hearOf(u.b, u.doc().DeviceType, k.Told)
	}
	c.settle(u.b.info.Name)
	return nil
}

// goesTo takes a device to another sub-cluster, where it waits until it has what is routed there.
func (c *Cluster) goesTo(u *unit, in string) {
	c.exit(u)
	if in == catalog.Nowhere {
		return
	}
	if p := c.poolFor(u.doc().DeviceType, in, u.b); p != nil {
		c.enter(u, p)
		c.configure(u)
	}
}

// Recall tells a backend again what its devices shall have, and where they are: it was told before,
// but did not obey this scheduler then.
func (c *Cluster) Recall(now mono.Time, conn Conn, out *Effects) {
	if b := c.backend(conn); b != nil && b.admitted {
		c.begin(now, out)
		c.recall(b)
	}
}
