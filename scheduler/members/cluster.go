package members

import (
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Limits of a cluster; all positive, but for those in brackets, where zero means them.
type Limits struct {
	Frontends  int
	Backends   int
	Pools      int    // sub-clusters
	Models     int    // over all sub-clusters; also the ids that there are
	PoolModels int    // served by a sub-cluster [Models]
	GPUs       int    // per sub-cluster
	Epoch      uint64 // of the scheduler: what it tells backends is newer than what those before it told
}

const (
	// reserved is how long an absent device's GPU id waits for its return, and a
	// frontend's is not given to another.
	reserved = 60 * mono.Second
	// rest is how long a model's id is not given to another. Frontends hear within a fraction
	// of a second that a model is gone, and send nothing under its id from then on, also not
	// what was reserved before. One whose link takes nothing for so long may err.
	rest = 10 * mono.Second
	// poolRest is how long the index of a sub-cluster that has ended is not given to another:
	// reports of its batches may be on their way.
	poolRest = 60 * mono.Second
)

// Cluster is the state. Not safe for concurrent use.
type Cluster struct {
	limits      Limits
	serial      uint64 // of the last change
	served      uint64 // of the last one that frontends must hear of
	frontends   frontends
	backends    []*backend // in the order in which they came; those that wait for a list, too
	byConn      map[Conn]*backend
	byName      map[string]*backend      // those that are admitted
	known       map[catalog.Digest]*list // or asked for
	pools       []*pool                  // by index; nil: free
	vacated     []mono.Time              // by index: since when it is free
	models      models
	byUnit      map[string]*unit // of admitted backends, by name
	memory      memory
	names       names
	pendings    pendings
	controllers []Conn
	underway    int       // orders, of all units
	lapses      mono.Time // before which none of them has taken too long
	plan        uint64    // the newest that an order was of
	gone        gone
	heard       stamp  // the newest that a backend has repeated
	standing    uint64 // of the last change of what Standing tells
	stoodBy     uint64 // reign of the Standing that was taken last

	// Of the event at hand: when it is, what comes of it, and what must be looked at before it
	// is over (settle).
	now     mono.Time
	out     *Effects
	stirred []*model
	looked  []*pool
	arrived []*unit
	starved bool // a model found no id: there may be one later
}

// New makes a cluster without members.
func New(l Limits) *Cluster {
	if l.PoolModels == 0 {
		l.PoolModels = l.Models
	}
	return &Cluster{limits: l, lapses: mono.Never, byConn: map[Conn]*backend{}, byName: map[string]*backend{}, known: map[catalog.Digest]*list{},
		models: models{byKey: map[string]*model{}}, byUnit: map[string]*unit{}, memory: memory{byName: map[string]*record{}}, names: names{byName: map[string]*name{}}}
}

// next is the serial of the next change.
func (c *Cluster) next() uint64 {
	c.serial++
	return c.serial
}

// tell is the serial of a change that frontends must hear of.
func (c *Cluster) tell() uint64 {
	c.served = c.next()
	return c.served
}

// Serial is that of the catalogue's last change.
func (c *Cluster) Serial() uint64 { return c.served }

// FactsSerial is that of the last change of what Facts tell.
func (c *Cluster) FactsSerial() uint64 { return c.serial }

// begin begins an event.
func (c *Cluster) begin(now mono.Time, out *Effects) { c.now, c.out = now, out }

// Leave takes a member away whose link has ended; others are not known and do nothing.
func (c *Cluster) Leave(now mono.Time, conn Conn, out *Effects) {
	if c.frontends.leave(now, conn, out) || c.leaveController(conn) {
		return
	}
	c.begin(now, out)
	if b := c.backend(conn); b != nil {
		c.removeBackend(b)
		c.judge()
	}
}

// ModelID is the id of a model that is known.
func (c *Cluster) ModelID(key string) (wire.ModelID, bool) {
	if m := c.models.byKey[key]; m != nil {
		return m.id, true
	}
	return 0, false
}

// Retire gives a backend nothing more: it drains.
func (c *Cluster) Retire(conn Conn, out *Effects) {
	b := c.backend(conn)
	if b == nil || !b.admitted || b.retired {
		return
	}
	b.retired = true
	c.begin(c.now, out)
	for _, u := range b.units {
		if u.added && !u.draining {
			out.add(Effect{Kind: RetireGPU, Pool: u.pool.index, GPU: u.gpu.id})
		}
		u.changed = c.next()
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
	for i, s := range b.stocks {
		out = append(out, catalog.Bound{Pool: i, IDs: s.list.ids})
	}
	return out
}

// Holder is a backend that has a model with these labels; false where there is none.
func (c *Cluster) Holder(labels catalog.Digest) (Conn, bool) {
	for _, b := range c.backends {
		if !b.admitted {
			continue
		}
		for _, s := range b.stocks {
			if s.labelled(labels) {
				return b.conn, true
			}
		}
	}
	return 0, false
}
