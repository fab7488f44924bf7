package backend

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// uplink is a scheduler of the backend's group, and the link to it, which is dialled again and
// again. Each is told all that there is here, and names models and frontends in its own way; the
// orders of one are obeyed (reigns).
type uplink struct {
	b       *Backend // Immutable, and so are the next ones.
	index   int
	address string
	log     zerolog.Logger
	telling chan struct{} // it is to be told of models
	keeper  *transport.Keeper

	link  atomic.Pointer[transport.Link] // where it has admitted us; nil while it has not
	ids   atomic.Pointer[ids]            // of its present life; nil: it has had none
	reign atomic.Uint64                  // that its orders must be of; 0: it is not obeyed

	order executor.Order // Scratch of the link's receiving goroutine, of which there is one at a time.

	// Guarded by the reigns' mu.
	number standby.Link // of the link where it has admitted us
	asks   bool         // it knows promises
	said   wire.Epoch   // of which a refusal is in the log
}

// newUplinks makes those to a group's schedulers; nothing is dialled yet.
func newUplinks(b *Backend, addresses []string) (all []*uplink) {
	for i, address := range addresses {
		u := &uplink{b: b, index: i, address: address, log: b.log, telling: make(chan struct{}, 1)}
		if len(addresses) > 1 {
			u.log = b.log.With().Str("scheduler", address).Logger()
		}
		all = append(all, u)
	}
	return all
}

// dial begins to hold the link up.
func (u *uplink) dial() {
	u.keeper = transport.Keep(u.b.cfg.Network, u.address, transport.Options{Hello: u.b.hello()}, u, u.introduce, func(err error) {
		u.b.log.Warn().Str("scheduler", u.address).Err(err).Msg("no link to the scheduler; trying on")
	})
}

// introduce is the first message on a new link: what we have.
func (u *uplink) introduce(l transport.Link) {
	b := u.b
	info := catalog.BackendInfo{Name: b.cfg.Name, Instance: b.instance, Configured: b.configured}
	now, room := mono.Now(), newHeldRoom()
	for _, p := range b.pools {
		doc := p.introduction(u, l)
		doc.Held = p.holds(len(b.uplinks) == 1, room)
		for _, e := range p.executors { // a link lost and dialled again finds devices that still run
			doc.FreeAt = append(doc.FreeAt, e.FreeIn(now))
		}
		info.Pools = append(info.Pools, doc)
	}
	if room.untold > 0 {
		u.log.Warn().Int("weights", room.untold).Msgf("devices hold more weights than an introduction may tell of (%d, in %d MiB): of the others the scheduler is not told now; give models shorter names, or devices fewer pages",
			catalog.HeldMax, heldBytes>>20)
	}
	transport.SendDoc(l, wire.DocBackend, info)
	if b.draining.Load() { // the link before was told, and this one was not
		if err := l.Send(u.farewell()); err != nil {
			l.Close(err) // else the scheduler would go on to order: the next link brings it the farewell
		}
	}
}

// leave tells the scheduler that this backend drains, also where it has not heard yet that it is
// admitted; false: there is no link.
func (u *uplink) leave() bool {
	l := u.keeper.Link()
	return l != nil && l.Send(u.farewell()) == nil
}

func (u *uplink) farewell() []byte {
	m := wire.Leave{}
	if s := u.ids.Load(); s != nil {
		m.Epoch = s.life
	}
	return m.Append(nil)
}

// admitted begins anew with a scheduler: its ids are those of its life.
func (u *uplink) admitted(l transport.Link, a catalog.Admitted) error {
	if a.Error != "" {
		return fmt.Errorf("%w: this backend is not admitted: %s", transport.ErrRejected, a.Error) // the keeper tells it, and waits longer each time
	}
	b := u.b
	if err := b.reigns.admits(u, a.Epoch); err != nil {
		return err
	}
	s := u.ids.Load()
	if s == nil || s.life != a.Epoch {
		s = newIDs(a.Epoch)
		u.ids.Store(s)
	}
	b.members.begin(u.index, s.frontends) // this link's Members follow
	u.link.Store(&l)
	b.reigns.up(u, l, a.Epoch)
	b.service.tellAll(l)
	u.wakeTeller()
	if len(b.uplinks) > 1 {
		b.catchUp(u, l)
	}
	u.log.Info().Uint64("epoch", uint64(a.Epoch)).Msg("admitted by the scheduler")
	return nil
}

// Closed implements transport.Handler.
func (u *uplink) Closed(l transport.Link, err error) {
	p := u.link.Load()
	had, obeyed := p != nil && *p == l, false
	if had {
		u.b.members.lose(u.index)
		u.link.Store(nil)
		obeyed = u.b.reigns.down(u)
	}
	if u.b.draining.Load() || !had && errors.Is(err, transport.ErrRejected) {
		return
	}
	text := "lost the scheduler: what runs is finished; dialling again"
	switch {
	case len(u.b.uplinks) == 1:
	case obeyed:
		text = "lost the scheduler that is obeyed: what runs is finished, and another one may take over; dialling again"
	default:
		text = "lost a scheduler that is not obeyed; dialling again"
	}
	u.log.Warn().AnErr("cause", err).Msg(text)
}
