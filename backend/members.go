package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// members are the frontends and the data links to them.
type members struct {
	backend *Backend
	byID    atomic.Pointer[[]*transport.Keeper] // by wire.FrontendID; read on the request path

	mu     sync.Mutex // Guards changes.
	all    []*member
	closed bool
	ending sync.WaitGroup
}

// member is one frontend. Links are kept by process: a scheduler's restart gives new ids to
// the same frontends, and the links stay to those that it names before our models' ids.
type member struct {
	instance uint64
	address  string
	keeper   *transport.Keeper
	id       wire.FrontendID
	up       bool
}

func newMembers(b *Backend) *members {
	m := &members{backend: b}
	m.byID.Store(&[]*transport.Keeper{})
	return m
}

// Link implements executor.Links.
func (m *members) Link(id wire.FrontendID) transport.Link {
	if k := m.keeper(id); k != nil {
		return k.Link()
	}
	return nil
}

// AwaitFirst implements executor.Links. Of a frontend that is not known any more
// no link will come.
func (m *members) AwaitFirst(id wire.FrontendID, d mono.Dur, then func(transport.Link)) {
	if k := m.keeper(id); k != nil {
		k.AwaitFirst(d, then)
		return
	}
	then(nil)
}

// keeper is nil when the frontend is not known.
func (m *members) keeper(id wire.FrontendID) *transport.Keeper {
	if all := *m.byID.Load(); int(id) < len(all) {
		return all[id]
	}
	return nil
}

// linkPatience is how long batches may wait for a new frontend's link: bringing up an
// RDMA lane takes longer than dialling. (A batch waits no longer than its deadline lets it.)
const linkPatience = mono.Second

// set takes the news of a frontend.
func (m *members) set(news wire.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if !news.Up {
		if at := slices.IndexFunc(m.all, func(k *member) bool { return k.up && k.id == news.Frontend }); at >= 0 {
			m.end(m.all[at])
			m.all = slices.Delete(m.all, at, at+1)
		}
		m.publish()
		return
	}
	at := slices.IndexFunc(m.all, func(k *member) bool { return k.instance == news.Instance })
	if at >= 0 && m.all[at].address != news.Address { // it is seen elsewhere now
		m.end(m.all[at])
		m.all = slices.Delete(m.all, at, at+1)
		at = -1
	}
	if at < 0 {
		m.all = append(m.all, m.dial(news))
		at = len(m.all) - 1
	}
	m.all[at].id, m.all[at].up = news.Frontend, true
	m.publish()
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

// clear forgets the ids before a new admission tells them anew; the links
// stay until prune.
func (m *members) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.all {
		k.up = false
	}
	m.publish()
}

// prune ends the links of frontends that the admission did not name: our models' ids come
// after the members. Who joins later is dialled anew.
func (m *members) prune() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = slices.DeleteFunc(m.all, func(k *member) bool {
		if !k.up {
			m.end(k)
		}
		return !k.up
	})
}

// publish makes the table for the request path. Caller holds mu.
func (m *members) publish() {
	var table []*transport.Keeper
	for _, k := range m.all {
		if !k.up {
			continue
		}
		for int(k.id) >= len(table) {
			table = append(table, nil)
		}
		table[k.id] = k.keeper
	}
	m.byID.Store(&table)
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
	m.publish()
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
