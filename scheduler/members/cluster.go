package members

import (
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Limits of a cluster; all positive.
type Limits struct {
	Frontends int
	Backends  int
	Pools     int
	Models    int // over all pools; also the ids that there are
	GPUs      int // per pool
}

const (
	// reserved is how long an absent device's GPU id waits for its return, and a
	// frontend's is not given to another.
	reserved = 60 * mono.Second
	// rest is how long a model's id is not given to another. Frontends hear within a fraction
	// of a second that a model is gone, and send nothing under its id from then on, also not
	// what was reserved before. One whose link takes nothing for so long may err.
	rest = 10 * mono.Second
)

// Cluster is the state. Not safe for concurrent use.
type Cluster struct {
	limits    Limits
	serial    uint64 // of the last change of the catalogue
	frontends frontends
	backends  []*backend // in the order in which they came; those that wait for a list, too
	byConn    map[Conn]*backend
	byName    map[string]*backend      // those that are admitted
	known     map[catalog.Digest]*list // or asked for
	pools     []*pool
	models    models
}

// New makes a cluster without members.
func New(l Limits) *Cluster {
	return &Cluster{limits: l, byConn: map[Conn]*backend{}, byName: map[string]*backend{}, known: map[catalog.Digest]*list{},
		models: models{byKey: map[string]*model{}}}
}

// next is the serial of the next change.
func (c *Cluster) next() uint64 {
	c.serial++
	return c.serial
}

// Serial is that of the catalogue's last change.
func (c *Cluster) Serial() uint64 { return c.serial }

// Leave takes a member away whose link has ended; others are not known and do nothing.
func (c *Cluster) Leave(now mono.Time, conn Conn, out *Effects) {
	if c.frontends.leave(now, conn, out) {
		return
	}
	if b := c.backend(conn); b != nil {
		c.removeBackend(now, b, out)
		c.judge(now, out)
	}
}

// Retire gives a backend nothing more: it drains.
func (c *Cluster) Retire(conn Conn, out *Effects) {
	b := c.backend(conn)
	if b == nil || !b.admitted || b.retired {
		return
	}
	b.retired = true
	for _, g := range b.gpus {
		if g.serves() {
			out.add(Effect{Kind: RetireGPU, Pool: g.pool.index, GPU: g.id})
		}
	}
}

// Retired reports whether the member said that it drains.
func (c *Cluster) Retired(conn Conn) bool {
	b := c.backend(conn)
	return b != nil && b.retired
}

// Bound are the ids of a backend's models, pool by pool; immutable.
func (c *Cluster) Bound(conn Conn) []catalog.Bound {
	b := c.backend(conn)
	if b == nil || !b.admitted {
		return nil
	}
	var out []catalog.Bound
	for i, l := range b.lists {
		p := c.poolOf(b.info.Pools[i].DeviceType)
		out = append(out, catalog.Bound{Pool: i, IDs: p.uses[p.uses.of(l)].ids})
	}
	return out
}

// Holder is a backend that has a model with these labels; false where there is none.
func (c *Cluster) Holder(labels catalog.Digest) (Conn, bool) {
	for _, b := range c.backends {
		if !b.admitted {
			continue
		}
		for _, l := range b.lists {
			if l.labels[labels] {
				return b.conn, true
			}
		}
	}
	return 0, false
}
