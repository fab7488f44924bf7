package members

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// list is the models of a pool as a backend has them. Backends that are configured alike
// share one: the scheduler asks for it once and judges it once.
type list struct {
	digest catalog.Digest
	specs  []catalog.ModelSpec // in the sender's order; nil: not here yet
	order  []int               // into specs, by key
	asked  Conn                // who shall send it; 0: it is here
	users  int                 // backends that have it, those that are not admitted yet, too
}

func (l *list) known() bool { return l.asked == 0 }

// at is the i-th model by key.
func (l *list) at(i int) *catalog.ModelSpec { return &l.specs[l.order[i]] }

// find finds a model by its key.
func (l *list) find(key string) *catalog.ModelSpec {
	i, ok := slices.BinarySearchFunc(l.order, key, func(i int, key string) int { return compare(l.specs[i].Key(), key) })
	if !ok {
		return nil
	}
	return l.at(i)
}

// fill gives the list its models, or says what is wrong with them.
func (l *list) fill(models []catalog.ModelSpec) error {
	order := make([]int, len(models))
	for i := range models {
		order[i] = i
		if err := CheckModel(&models[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(order, func(a, b int) int { return compare(models[a].Key(), models[b].Key()) })
	for i := 1; i < len(order); i++ {
		if key := models[order[i]].Key(); key == models[order[i-1]].Key() {
			return fmt.Errorf("model %s is there twice", key)
		}
	}
	l.specs, l.order, l.asked = models, order, 0
	return nil
}

// sloMax is the longest SLO.
const sloMax = 3600 * mono.Second

// CheckModel says what is wrong with a model by itself.
func CheckModel(m *catalog.ModelSpec) error {
	if m.Name == "" || m.Version == "" {
		return fmt.Errorf("model %q version %q: both must be given", m.Name, m.Version)
	}
	if m.SLO <= 0 || m.SLO > sloMax {
		return fmt.Errorf("model %s: SLO %v, must be above 0 and at most an hour", m.Key(), m.SLO)
	}
	for _, side := range [][]catalog.TensorSpec{m.Inputs, m.Outputs} {
		for i := range side {
			if side[i].ByteSize() < 0 {
				return fmt.Errorf("model %s: tensor %q is of type %s: the elements of every tensor must have a fixed size", m.Key(), side[i].Name, side[i].Type)
			}
		}
	}
	if _, err := profile.FromDoc(m.Profile, m.MaxBatch); err != nil {
		return fmt.Errorf("model %s: %w", m.Key(), err)
	}
	if _, err := batching.ParsePolicy(m.DropPolicy); err != nil {
		return fmt.Errorf("model %s: %w", m.Key(), err)
	}
	return nil
}

// listOf finds a list, or begins one that conn is asked for.
func (c *Cluster) listOf(conn Conn, d catalog.Digest, out *Effects) *list {
	l := c.known[d]
	if l == nil {
		l = &list{digest: d, asked: conn}
		c.known[d] = l
		out.add(Effect{Kind: Want, Conn: conn, Digest: d})
	}
	l.users++
	return l
}

// release gives a list up that a backend has no more. One that nobody has sent yet is
// asked of the next that waits for it.
func (c *Cluster) release(b *backend, l *list, out *Effects) {
	if l.users--; l.users > 0 {
		if l.asked == b.conn {
			c.askNext(l, b, out)
		}
		return
	}
	for _, p := range c.pools {
		if p.newest == l {
			return // an empty pool's
		}
	}
	delete(c.known, l.digest)
}

func (c *Cluster) askNext(l *list, but *backend, out *Effects) {
	for _, b := range c.backends {
		if b != but && slices.Contains(b.lists, l) {
			l.asked = b.conn
			out.add(Effect{Kind: Want, Conn: b.conn, Digest: l.digest})
			return
		}
	}
}

// Models takes a list from a backend that was asked for it; err says what the server
// found wrong with the document.
func (c *Cluster) Models(now mono.Time, conn Conn, d catalog.Digest, models []catalog.ModelSpec, err error, out *Effects) {
	b := c.backend(conn)
	if b == nil {
		return
	}
	l := c.known[d]
	switch {
	case l == nil || l.asked != conn:
		err = fmt.Errorf("a model list came that was not asked for")
	case err == nil:
		err = l.fill(models)
	}
	if err != nil {
		out.refuse(conn, err)
		c.removeBackend(now, b, out)
	}
	c.judge(now, out)
}
