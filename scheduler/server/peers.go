package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// place is an address of the group, which is dialled. Each member dials all others, so there are two
// links between two of them; either will do.
type place struct {
	group   *group
	index   int
	address string
	keeper  *transport.Keeper
	cancel  context.CancelFunc
}

// dialMost is how long an attempt may take.
const dialMost = 500 * mono.Millisecond

// dial keeps the link up.
func (a *place) dial() {
	g := a.group
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(g.ctx)
	a.keeper = transport.KeepWith(ctx, transport.KeepConfig{Network: g.server.cfg.Network, Address: a.address, Options: transport.Options{Hello: g.server.hello()},
		Handler: &fellow{group: g, place: a}, Seed: rand.Uint64(), Attempt: dialMost, OnUp: a.isUp, OnFail: a.failed})
}

// isUp takes a link. One to this process itself is dropped, and its address not dialled again.
func (a *place) isUp(l transport.Link) {
	g := a.group
	switch peer := l.Peer(); {
	case peer.Incarnation == uint64(g.server.epoch):
		g.drive(func(now mono.Time, out *standby.Effects) { g.core.PlaceSelf(now, a.index, out) })
		a.cancel()
	case peer.Role != wire.RoleScheduler:
		l.Close(fmt.Errorf("%w: a group is of schedulers, and role %d answers at %s", transport.ErrRejected, peer.Role, a.address))
	default:
		lead := g.lead()
		if err := l.Send(lead.Append(nil)); err != nil { // the first frame: heartbeats may go the other link's way
			g.server.refused(l, err)
			return
		}
		g.peerUp(l, a.index)
	}
}

func (a *place) failed(err error) {
	g := a.group
	g.log.Warn().Str("scheduler", a.address).Err(err).Msg("no link to this scheduler of the group; trying on")
	if refusedDial(a.address, err) {
		g.drive(func(now mono.Time, out *standby.Effects) { g.core.PlaceRefused(now, a.index, out) })
	}
}

// probe looks once whether anybody listens there: the keeper waits a little before it dials again.
func (a *place) probe() {
	g := a.group
	ctx, cancel := context.WithTimeout(g.ctx, dialMost.Std())
	defer cancel()
	l, err := g.server.cfg.Network.Dial(ctx, a.address, transport.Options{Hello: g.server.hello()}, nobody{})
	if err == nil {
		l.Close(nil)
	} else if refusedDial(a.address, err) {
		g.drive(func(now mono.Time, out *standby.Effects) { g.core.PlaceRefused(now, a.index, out) })
	}
}

// nobody is the handler of a link that is closed at once.
type nobody struct{}

func (nobody) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (nobody) Receive(transport.Link, transport.Frame)              {}
func (nobody) Closed(transport.Link, error)                         {}

// fellow is the handler of links between schedulers.
type fellow struct {
	group *group
	place *place // Immutable. nil: the other one has dialled
	known bool   // the core knows this link. Owned by the receiving goroutine, of an accepted link.
}

// Buffer implements transport.Handler.
func (*fellow) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// PayloadMax implements transport.Limiter: what a leader tells its spares is of all models.
func (*fellow) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.BackendDocMax)
}

// Receive implements transport.Handler.
func (h *fellow) Receive(l transport.Link, m transport.Frame) {
	if h.place == nil && !h.known { // of an accepted link nothing is known before its first frame
		h.known = true
		h.group.peerUp(l, standby.Accepted)
	}
	var err error
	switch m.Kind {
	case wire.KindBeat:
		var beat wire.Beat
		if err = beat.Decode(m.Body); err == nil {
			h.group.beat(l, beat)
		}
	case wire.KindDoc:
		var d wire.Doc
		if err = d.Decode(m.Body); err == nil && d.Type == wire.DocStanding {
			err = h.group.server.onStanding(m.Payload)
		}
	case wire.KindLead: // a link's first frame; heartbeats say it all
	case wire.KindLeave: // it closes the link itself
	default:
		err = fmt.Errorf("frame of kind %d from a scheduler", m.Kind)
	}
	if err != nil {
		l.Close(errors.Join(transport.ErrProtocol, err))
	}
}

// Closed implements transport.Handler.
func (h *fellow) Closed(l transport.Link, _ error) {
	if h.place != nil {
		h.group.lost(l, h.place)
	} else {
		h.group.peerDown(l)
	}
}
