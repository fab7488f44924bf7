package frontend

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// group is schedulers of which one leads and the others are spares. Each is a whole scheduler with
// ids, a catalogue and an uplink of its own; requests go to the one that leads: of those that have
// admitted us and say that they lead, the one of the highest reign. A scheduler alone in its group
// leads without saying so, and nothing here costs its requests anything.
//
// Invariants, of a group of several:
//
//  1. A request is sent to one reign at a time (call.at), under an id of that scheduler's
//     catalogue, and only that reign's refusals are heard. Outputs are taken from whoever comes
//     first: backends run what they had begun.
//  2. A request that is open while its reign ends, or that comes while nobody leads, stays in the
//     table, up to its deadline: what waits is bounded by the table, and has one answer.
//  3. Whoever puts a request down unsent says so (parked) before it looks for a reign once more,
//     and the loop looks for requests after the reign or catalogue has changed: one of both sees the other.
//  4. What the last leader told answers lookups (held) until the next one serves as much, for
//     settleMax at most: neither readiness nor requests notice which of both catalogues came first.
type group struct {
	// Immutable.
	client  *Client
	members []*uplink
	only    *uplink // of a group of one; nil: there are several
	name    string  // A+B
	called  string  // in errors
	kick    chan struct{}
	again   prometheus.Counter // requests sent again
	changes prometheus.Counter // of who leads

	leads  atomic.Pointer[reign]    // nil: nobody. Written with mu held.
	held   atomic.Pointer[snapshot] // what the leader before told, while it answers. Written with mu held.
	before atomic.Pointer[earlier]  // what it had, and the next one did not
	parked atomic.Bool              // a request was put down unsent since the loop looked last
	vacant atomic.Int64             // mono.Time since when nobody leads
	grace  atomic.Int64             // settleMax

	mu   sync.Mutex // Guards what is said above, uplink.said, and what follows.
	last *reign

	takeover // Owned by loop.
}

// reign is the time for which a scheduler leads, over one link.
type reign struct {
	uplink *uplink
	a      *admission
	epoch  wire.Epoch
	since  mono.Time
}

// said is what a scheduler said last over a link of whether it leads.
type said struct {
	link transport.Link
	lead wire.Lead
}

const (
	// settleMax is how long after a take-over the new leader may still lack what the one before
	// served: its catalogue is on its way, or backends have not promised yet.
	settleMax = mono.Second
	// vacantMax is how long a group without a leader counts as there. After that it is away, as a
	// scheduler is that cannot be reached.
	vacantMax = 10 * mono.Second
)

// newGroup is the i-th of n.
func newGroup(c *Client, addresses []string, i, n int) *group {
	g := &group{client: c, name: strings.Join(addresses, "+"), called: "the scheduler", kick: make(chan struct{}, 1)}
	g.grace.Store(int64(settleMax))
	if n > 1 {
		g.called = "scheduler " + addresses[0]
	}
	if len(addresses) > 1 {
		g.called = "the group of schedulers " + g.name
	}
	for _, address := range addresses {
		g.members = append(g.members, &uplink{client: c, group: g, address: address, bit: 1 << i})
	}
	if len(addresses) == 1 {
		g.only = g.members[0]
	}
	return g
}

// view is the catalogue that answers for the group; nil: none has come.
func (g *group) view() *snapshot {
	if g.only != nil {
		return g.only.models.Load()
	}
	if s := g.held.Load(); s != nil {
		return s
	}
	if r := g.leads.Load(); r != nil {
		return r.uplink.models.Load()
	}
	return nil
}

// of are a name's versions in this group, as told last; nil: there are none.
func (g *group) of(name string) *versions {
	if s := g.view(); s != nil {
		return s.of(name)
	}
	return nil
}

// had reports whether the leader before served a name that this one does not, a moment ago.
func (g *group) had(name string) bool {
	e := g.before.Load()
	return e != nil && e.names[name] && mono.Now().Sub(e.since) < returnMax
}

func (g *group) unavailable(model, why string) *Error {
	return &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: model, Msg: g.called + " " + why}
}

// asked is whom to ask about a model of the group; nil: nobody now.
func (g *group) asked() *admission {
	if g.only != nil {
		return g.only.admitted.Load()
	}
	if r := g.leads.Load(); r != nil {
		return r.a
	}
	return nil
}

// up reports whether the group takes requests.
func (g *group) up() bool {
	if g.only != nil {
		return g.only.up()
	}
	return g.leads.Load() != nil || g.held.Load() != nil && mono.Now().Sub(mono.Time(g.vacant.Load())) < vacantMax && !g.client.stopped()
}

// told reports whether one leads and has said what it serves.
func (g *group) told() bool {
	if g.only != nil {
		return g.only.told()
	}
	r := g.leads.Load()
	return r != nil && r.uplink.told()
}

// troubled reports whether there is a reason why the group is not there, other than that it takes its time.
func (g *group) troubled() bool {
	for _, u := range g.members {
		if u.trouble.Load() == nil {
			return false
		}
	}
	return true
}

// heard takes a scheduler's word of whether it leads. An older one than it said before over the
// same link came late.
func (g *group) heard(u *uplink, l transport.Link, m wire.Lead) {
	if g.only != nil {
		return
	}
	g.mu.Lock()
	if u.said.link != l || m.Epoch >= u.said.lead.Epoch {
		u.said = said{l, m}
	}
	g.mu.Unlock()
	g.elect()
}

// elect finds out who leads, after a word of it or the begin or end of a link.
func (g *group) elect() {
	if g.only != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now, next := g.leads.Load(), g.highest()
	if now == nil && next == nil || now != nil && next != nil && now.a == next.a && now.epoch == next.epoch {
		return
	}
	if now != nil && g.held.Load() == nil {
		g.held.Store(now.uplink.models.Load())
	}
	if next == nil {
		g.vacant.Store(int64(mono.Now()))
	} else {
		if g.last != nil && (g.last.uplink != next.uplink || g.last.epoch != next.epoch) {
			g.changes.Inc()
		}
		g.last = next
	}
	g.leads.Store(next)
	g.wake()
	g.client.signal()
}

// highest is the reign that counts, made anew; nil: nobody leads. Caller holds mu.
func (g *group) highest() (r *reign) {
	now := g.leads.Load()
	for _, u := range g.members {
		a, s := u.admitted.Load(), &u.said
		if a == nil || s.link != a.link || !s.lead.Leads {
			continue
		}
		if r == nil || s.lead.Epoch > r.epoch || s.lead.Epoch == r.epoch && now != nil && now.a == a {
			r = &reign{uplink: u, a: a, epoch: s.lead.Epoch, since: mono.Now()}
		}
	}
	return r
}

// holds reports whether what u told answers for the group while u does not lead it.
func (g *group) holds(u *uplink) bool {
	if g.only != nil {
		return false
	}
	s, r := g.held.Load(), g.leads.Load()
	return s != nil && s.book == u.book.Load() && (r == nil || r.uplink != u)
}

// news lets the loop look again, after a change of what u serves.
func (g *group) news(u *uplink) {
	if r := g.leads.Load(); r != nil && r.uplink == u {
		g.wake()
	}
}

// wake lets the loop look again.
func (g *group) wake() {
	if g.only != nil {
		return
	}
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// settled reports whether what the leader lacks is lacking.
func (r *reign) settled() bool {
	return r.uplink.models.Load() != nil && mono.Now().Sub(r.since) >= mono.Dur(r.uplink.group.grace.Load())
}

// counterpart is the call's model at the reign's scheduler: the same version of the same tensors;
// nil: it has none (yet).
func (r *reign) counterpart(k *call) *model {
	m := k.model
	if m.uplink == r.uplink && m.book == r.uplink.book.Load() && !m.gone.Load() {
		return m
	}
	s := r.uplink.models.Load()
	if s == nil {
		return nil
	}
	v := s.of(m.entry.Spec.Name)
	if v == nil {
		return nil
	}
	if m = v.find(m.entry.Spec.Version); m == nil || !k.fits(m) {
		return nil
	}
	return m
}

// place gives an open call whose input is written to who leads, or puts it down until somebody
// does who has its model. Caller holds Client.mu, and sends it where it has a reign then.
func (g *group) place(id wire.RequestID, k *call) {
	g.client.arena.SetRequest(k.slab, id) // from here on anybody may send it
	k.at = nil
	for range 2 { // invariant 3
		if r := g.leads.Load(); r != nil {
			if m := r.counterpart(k); m != nil {
				k.model, k.at = m, r
				return
			}
		}
		g.rests()
	}
}

// rests has the loop look at what waits unsent, should it have looked before.
func (g *group) rests() {
	if !g.parked.Swap(true) {
		g.wake()
	}
}

// submit sends a call that place has given to a reign. What the leader does not serve, and will not,
// goes elsewhere at once; what else was put down is the loop's.
func (g *group) submit(id wire.RequestID, k *call, data []byte) {
	c := g.client
	switch r := g.leads.Load(); {
	case k.at != nil:
		c.send(id, k, k.at.a, data)
	case c.stopped():
		c.fail(id, wire.ReasonDraining)
	case r != nil && r.settled():
		c.elsewhere(id)
	}
}

// refused takes a refusal. Of one who does not lead (any more), or of a request that was sent to
// another reign, it means nothing: who leads now has the request, or will.
func (g *group) refused(l transport.Link, id wire.RequestID, reason wire.Reason) {
	c := g.client
	r := g.leads.Load()
	k, open := c.lookAt(id)
	if !open || r == nil || k.at != r || r.a.link != l {
		return
	}
	switch reason {
	case wire.ReasonDraining: // whoever leads next gets it
		return
	case wire.ReasonUnavailable, wire.ReasonUnknownModel:
		if !r.settled() {
			g.park(id, r)
			return
		}
	}
	if len(c.groups) > 1 && c.moved(id, &k, reason) {
		return
	}
	c.fail(id, reason)
}

// restsLater has the loop look when it does so by itself, each lackPause until the reign is settled: a
// leader that gives requests back while it takes over would be sent them again at once, and again.
func (g *group) restsLater(r *reign) {
	if !g.parked.Swap(true) && r.settled() { // which pass asks before it looks at parked
		g.wake()
	}
}

// park puts a call down that its reign gave back.
func (g *group) park(id wire.RequestID, r *reign) {
	c := g.client
	c.mu.Lock()
	if slot, open := c.table.Find(id); open && c.open[slot].at == r {
		c.open[slot].at, c.open[slot].again = nil, true
	}
	g.restsLater(r)
	c.mu.Unlock()
}
