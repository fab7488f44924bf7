package frontend

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// uplink is one scheduler as the client knows it, and the link to it.
//
// Schedulers do not know of each other: each serves what its own backends have, with an epoch,
// serials and ids of its own, so nothing that one says means anything at another. Catalogues
// are not put together, either: a request looks into each one's snapshot (lookup.go), and what
// it finds knows its uplink. So what one scheduler does, loses or forgets is nothing to the
// requests of the others.
type uplink struct {
	client  *Client
	group   *group
	address string
	bit     uint64 // of its group, in call.refused

	keeper   *transport.Keeper         // nil until connect
	models   atomic.Pointer[snapshot]  // nil: the catalogue of this admission has not come
	before   atomic.Pointer[earlier]   // what the scheduler before had
	admitted atomic.Pointer[admission] // nil: the scheduler does not have us now
	trouble  atomic.Pointer[error]     // why it has not admitted us

	book atomic.Pointer[book] // that ids are of now

	life uint64 // of the scheduler's process that the link leads to; 0: none. Guarded by Client.mu.

	said said // Guarded by group.mu.

	// Owned by the goroutine that receives from the scheduler.
	served *served
	hidden bool // it was said that others cannot reach this frontend's address
}

// admission is what the scheduler made of us.
type admission struct {
	epoch wire.Epoch
	id    wire.FrontendID
	link  transport.Link
}

// book is one life of a scheduler's ids: a model of an earlier one is not sent under its id.
type book struct{ epoch wire.Epoch }

// up reports whether the scheduler has admitted us.
func (u *uplink) up() bool { return u.admitted.Load() != nil }

// told reports whether it has, and has said what it serves.
func (u *uplink) told() bool { return u.up() && u.models.Load() != nil }

// connect keeps the link to the scheduler up.
func (u *uplink) connect() {
	c := u.client
	address := c.o.Advertise
	if address == "" {
		address = c.data.Address()
	}
	up := func(l transport.Link) {
		if err := u.meets(l.Peer().Incarnation); err != nil {
			l.Close(err) // the keeper tells it, and waits longer each time
			return
		}
		transport.SendDoc(l, wire.DocFrontend, catalog.FrontendInfo{Name: c.o.Name, Instance: c.instance, Address: address})
	}
	said := "no link to the scheduler; trying on"
	switch {
	case u.group.only == nil:
		said = "no link to a scheduler of the group; trying on"
	case len(c.uplinks) > 1:
		said = "no link to the scheduler; trying on. Models of other schedulers are served as before"
	}
	u.keeper = transport.Keep(c.o.Network, u.address, transport.Options{Hello: c.hello()}, u, up, func(err error) {
		c.log.Warn().Str("scheduler", u.address).Err(err).Msg(said)
		u.trouble.Store(&err)
		c.signal()
	})
}

// meets refuses a scheduler that another uplink leads to: it takes one link of a process, and
// would end each for the other for ever.
func (u *uplink) meets(life uint64) error {
	c := u.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.uplinks {
		if o != u && life != 0 && o.life == life {
			return fmt.Errorf("%w: this is the scheduler that %s leads to: leave one of the two addresses out", transport.ErrRejected, o.address)
		}
	}
	u.life = life
	return nil
}

// leave tells the scheduler that no more comes.
func (u *uplink) leave() {
	if a := u.admitted.Load(); a != nil {
		_ = a.link.Send((&wire.Leave{Epoch: a.epoch}).Append(nil))
	}
}

func (u *uplink) close() {
	if u.keeper != nil {
		u.keeper.Close()
	}
}

// Buffer implements transport.Handler.
func (*uplink) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (u *uplink) Receive(l transport.Link, f transport.Frame) {
	switch f.Kind {
	case wire.KindAnswer:
		var m wire.Answer
		if err := m.Decode(f.Body); err != nil {
			l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
			return
		}
		u.refused(l, m.Request, m.Reason)
	case wire.KindLead:
		var m wire.Lead
		if err := m.Decode(f.Body); err != nil {
			l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
			return
		}
		u.group.heard(u, l, m)
	case wire.KindDoc:
		if err := u.onDoc(l, f); errors.Is(err, transport.ErrRejected) {
			l.Close(err)
		} else if err != nil {
			l.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
		}
	case wire.KindLeave: // the scheduler drains: its refusals say so
	default:
		l.Close(fmt.Errorf("%w: frame of kind %d from the scheduler", transport.ErrProtocol, f.Kind))
	}
}

func (u *uplink) onDoc(l transport.Link, f transport.Frame) error {
	c := u.client
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil {
		return err
	}
	switch d.Type {
	case wire.DocAdmitted:
		if err := u.onAdmitted(l, f.Payload); err != nil {
			return err
		}
	case wire.DocChanges:
		ch, err := catalog.DecodeChanges(f.Payload)
		if err != nil {
			return err
		}
		if u.served == nil {
			return errChanges
		}
		if u.group.holds(u) {
			u.served.part()
		}
		if err := u.served.change(&ch, c.metrics); err != nil || ch.More {
			return err
		}
		u.models.Store(u.served.snapshot(u.models.Load(), u.before.Load()))
		u.group.news(u)
	case wire.DocLabels:
		if err := c.labels.got(f.Payload); err != nil { // a backend's fault, for which no request is to fail
			c.labels.bad.Add(err)
			return nil
		}
	}
	c.signal()
	return nil
}

func (u *uplink) onAdmitted(l transport.Link, payload []byte) error {
	a, err := catalog.DecodeAdmitted(payload)
	if err != nil {
		return err
	}
	if a.Error != "" {
		err := fmt.Errorf("%w: this frontend is not admitted: %s", transport.ErrRejected, a.Error)
		u.trouble.Store(&err)
		return err // the keeper tells it, and waits longer each time
	}
	if u.admitted.Swap(nil) != nil {
		u.group.elect() // another life, over the same link
	}
	if s := u.models.Load(); s != nil {
		now := mono.Now()
		u.before.Store(&earlier{s.names(now), now})
	}
	if u.served != nil {
		u.served.endAll()
	}
	u.served = newServed(u, a.Epoch)
	u.models.Store(nil) // another epoch has other ids: wait for its catalogue
	u.trouble.Store(nil)
	u.admitted.Store(&admission{epoch: a.Epoch, id: a.Frontend, link: l})
	u.group.elect()
	u.client.log.Info().Str("scheduler", u.address).Uint64("epoch", uint64(a.Epoch)).Uint32("id", uint32(a.Frontend)).Str("address", a.Address).Msg("admitted by the scheduler")
	u.sayIfHidden(l, a.Address)
	return nil
}

// sayIfHidden warns of an address that only this host knows, while the scheduler is on
// another: backends are likely to be elsewhere, too.
func (u *uplink) sayIfHidden(l transport.Link, address string) {
	_, remote := transport.HostsOf(l)
	host, _, err := wire.SplitTCP(address)
	if u.hidden || remote == "" || wire.Loopback(remote) || err != nil || !wire.Loopback(host) {
		return
	}
	u.hidden = true
	u.client.log.Warn().Str("address", address).Str("scheduler", remote).Msg("backends on other hosts cannot reach this address: set frontend.listen to tcp:0.0.0.0:0 or to an address of this host, or frontend.advertise to one that they can dial")
}

// Closed implements transport.Handler.
func (u *uplink) Closed(l transport.Link, err error) {
	c := u.client
	a := u.admitted.Load()
	had := a != nil && a.link == l
	if had {
		u.admitted.CompareAndSwap(a, nil)
	}
	c.mu.Lock()
	u.life = 0
	c.mu.Unlock()
	words := "lost the scheduler: requests for its models are answered unavailable until it is back"
	if u.group.only != nil {
		c.failOf(u, wire.ReasonUnavailable)
	} else {
		u.group.elect()
		words = "lost a scheduler of a group: its requests go to the one that leads, or wait for one, up to their deadlines"
	}
	c.signal()
	select {
	case <-c.stop:
		return
	default:
	}
	if had || !errors.Is(err, transport.ErrRejected) {
		c.log.Warn().Str("scheduler", u.address).AnErr("cause", err).Msg(words)
	}
}
