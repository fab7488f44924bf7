package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// members are the frontends and the data links to them. A link is kept by the frontend's process,
// whatever schedulers call it: it outlives a scheduler, and is there when another one takes over.
type members struct {
	backend *Backend

	mu      sync.Mutex // Guards what follows.
	all     []*member
	rosters []*roster // by scheduler of the group: that of its present life; nil: it has had none
	obeyed  int       // the scheduler that is obeyed; -1: none
	closed  bool
	ending  sync.WaitGroup
}

// member is one frontend. Immutable.
type member struct {
	instance uint64
	address  string
	keeper   *transport.Keeper
}

func newMembers(b *Backend) *members { return &members{backend: b, obeyed: -1} }

// linkPatience is how long batches may wait for a new frontend's link: bringing up an
// RDMA lane takes longer than dialling. (A batch waits no longer than its deadline lets it.)
const linkPatience = mono.Second

// set takes a scheduler's news of a frontend.
func (m *members) set(r *roster, news wire.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if !news.Up {
		if at := slices.IndexFunc(r.named, func(n naming) bool { return n.id == news.Frontend }); at >= 0 {
			k := r.named[at].member
			r.drop(k)
			if !m.isNamed(k) {
				m.forget(k)
			}
		}
		return
	}
	k := m.memberFor(r, news)
	at := r.at(k)
	if at < 0 {
		r.named = append(r.named, naming{})
		at = len(r.named) - 1
	}
	r.named[at] = naming{k, news.Frontend, news.Address}
	r.publish()
}

// memberFor is the frontend of the news: the one that there is, or another. Caller holds mu.
func (m *members) memberFor(r *roster, news wire.Member) *member {
	at := slices.IndexFunc(m.all, func(k *member) bool { return k.instance == news.Instance })
	if at < 0 {
		k := m.dial(news)
		m.all = append(m.all, k)
		return k
	}
	old := m.all[at]
	if old.address == news.Address || m.staysAt(r, old) {
		return old
	}
	k := m.dial(news) // it is seen elsewhere now
	m.all[at] = k
	for _, other := range m.rosters {
		if other == nil {
			continue
		}
		if i := other.at(old); i >= 0 {
			other.named[i].member = k
			other.publish()
		}
	}
	m.end(old)
	return k
}

// staysAt reports whether a frontend stays where it is linked although one scheduler sees it
// elsewhere: another one sees it there, and there it answers. (A frontend that listens on all
// addresses has as many as its host.) Caller holds mu.
func (m *members) staysAt(r *roster, k *member) bool {
	return k.keeper.Link() != nil && m.counts(func(other *roster) bool {
		i := other.at(k)
		return other != r && i >= 0 && other.named[i].seen == k.address
	})
}

// counts reports whether something holds of a roster that counts: of a scheduler that can be
// heard, or that is obeyed, though its link is lost. Caller holds mu.
func (m *members) counts(is func(*roster) bool) bool {
	for i, r := range m.rosters {
		if r != nil && (r.linked || i == m.obeyed) && is(r) {
			return true
		}
	}
	return false
}

func (m *members) isNamed(k *member) bool {
	return m.counts(func(r *roster) bool { return r.at(k) >= 0 })
}

// forget ends the link to a frontend that no scheduler names any more. Caller holds mu.
func (m *members) forget(k *member) {
	for _, r := range m.rosters {
		if r != nil {
			r.drop(k)
		}
	}
	if at := slices.Index(m.all, k); at >= 0 {
		m.all = slices.Delete(m.all, at, at+1)
	}
	m.end(k)
}

// dial begins to keep a link to a frontend up.
func (m *members) dial(news wire.Member) *member {
	k := &member{instance: news.Instance, address: news.Address}
	log := m.backend.log.With().Str("frontend", news.Address).Logger()
	strange := false // another answered last time. Owned by the keeper.
	k.keeper = transport.KeepWith(context.Background(), transport.KeepConfig{Network: m.backend.cfg.Network, Address: news.Address,
		Options: transport.Options{Hello: m.backend.hello()}, Handler: dataHandler{}, Seed: rand.Uint64(), Patience: linkPatience,
		OnUp: func(l transport.Link) {
			if peer := l.Peer(); peer.Incarnation != news.Instance {
				l.Close(fmt.Errorf("%w: another frontend (%q) answers", transport.ErrRejected, peer.Name))
				if !strange {
					log.Warn().Str("answers", peer.Name).Msg("another process answers where this frontend should be: give each frontend an address of its own by frontend.listen or frontend.advertise; trying on")
				}
				strange = true
				return
			}
			strange = false
		},
		OnFail: func(err error) {
			log.Warn().Err(err).Msg("no data link to the frontend; trying on")
		}})
	return k
}

// begin takes a scheduler's roster up, empty: the frontends that it names follow. The links stay
// until settle.
func (m *members) begin(scheduler int, r *roster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.rosters) <= scheduler {
		m.rosters = append(m.rosters, nil)
	}
	m.rosters[scheduler] = r
	r.named, r.linked, r.settled = nil, true, false
	r.publish()
}

// lose says that a scheduler cannot be heard now: what it named last counts as long as it is
// the one that is obeyed.
func (m *members) lose(scheduler int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if scheduler >= len(m.rosters) || m.rosters[scheduler] == nil {
		return
	}
	m.rosters[scheduler].linked = false
	if scheduler != m.obeyed {
		m.sweep()
	}
}

// obey says which scheduler is obeyed.
func (m *members) obey(scheduler int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.obeyed = scheduler
}

// settle says that a scheduler has named all frontends: our models' ids come after the members.
// Who joins later is dialled anew.
func (m *members) settle(r *roster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.settled = true
	m.sweep()
}

// sweep ends the links of frontends that nobody names who counts, unless a scheduler has yet to name
// its own. (Not where another one is obeyed: batches of the one before run, and it may be that the way
// of a frontend to the new one is what is cut.) Caller holds mu.
func (m *members) sweep() {
	if m.counts(func(r *roster) bool { return r.linked && !r.settled }) {
		return
	}
	for _, k := range slices.Clone(m.all) {
		if !m.isNamed(k) {
			m.forget(k)
		}
	}
}

// end closes a link without waiting for it. Caller holds mu.
func (m *members) end(k *member) {
	m.ending.Add(1)
	go func() {
		defer m.ending.Done()
		k.keeper.Close()
	}()
}

func (m *members) closeAll() {
	m.mu.Lock()
	m.closed = true
	for _, k := range m.all {
		m.end(k)
	}
	m.all = nil
	for _, r := range m.rosters {
		if r != nil {
			r.named = nil
			r.publish()
		}
	}
	m.mu.Unlock()
	m.ending.Wait()
}

// dataHandler is the backend's side of a data link: frontends answer READs
// (inside the transport) and say nothing else.
type dataHandler struct{}

// Buffer implements transport.Handler.
func (dataHandler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (dataHandler) Receive(l transport.Link, f transport.Frame) {
	if f.Kind != wire.KindLeave {
		l.Close(fmt.Errorf("%w: frame of kind %d from a frontend", transport.ErrProtocol, f.Kind))
	}
}

// Closed implements transport.Handler; the Keeper dials again until the
// scheduler says that the frontend has left.
func (dataHandler) Closed(transport.Link, error) {}
