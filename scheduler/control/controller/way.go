package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// way leads to one scheduler: the only one of its link, or one of a group. A group's schedulers are all
// kept linked; each says whether it leads, and orders go to the one that does. What the others say is
// nobody's.
type way struct {
	link    *link
	address string
	grouped bool // Immutable.
	keeper  *transport.Keeper
}

// dial keeps the way up.
func (w *way) dial() {
	c := w.link.c
	hello := wire.Hello{Role: wire.RoleController, Incarnation: rand.Uint64(), Token: transport.Token(c.cfg.Token), Name: c.cfg.Name}
	w.keeper = transport.Keep(c.cfg.Network, w.address, transport.Options{Hello: hello}, w, w.isUp, func(err error) {
		c.log.Warn().Str("scheduler", w.address).Err(err).Msg("the controller has no link to the scheduler; trying on")
	})
}

// close ends it, and says before that it is meant.
func (w *way) close() {
	_ = w.keeper.Send((&wire.Leave{}).Append(nil)) // where there is a link
	w.keeper.Close()
}

func (w *way) isUp(up transport.Link) {
	l := w.link
	if other := l.peers.hold(up.Peer().Incarnation, w); other != nil {
		l.c.log.Error().Str("address", w.address).Str("other", other.address).Msg("two addresses of control.scheduler lead to one scheduler: leave one of them out; it has the models of the first")
		up.Close(fmt.Errorf("%w: this controller has a link to this scheduler by another address", transport.ErrRejected))
		return
	}
	if !w.grouped {
		l.isUp(w, up, 0)
	}
	transport.SendDoc(up, wire.DocOrder, catalog.Order{Kind: catalog.OrderJoin}) // whose outcome nobody waits for: facts follow
}

// follow hears whether a scheduler of a group leads. Of two that say so, the later reign counts.
func (w *way) follow(up transport.Link, body []byte) error {
	var m wire.Lead
	if err := m.Decode(body); err != nil {
		return err
	}
	if !w.grouped {
		return nil // a group of which only this one is named: what it refuses it says
	}
	l := w.link
	l.mu.Lock()
	now, reign := l.up, l.reign
	l.mu.Unlock()
	switch {
	case !m.Leads && now == up:
		l.isDown(up, errors.New("another scheduler of the group is to lead"))
	case m.Leads && now == nil:
		l.isUp(w, up, m.Epoch)
	case m.Leads && now != up && m.Epoch > reign:
		l.isDown(now, errors.New("another scheduler of the group leads"))
		l.isUp(w, up, m.Epoch)
	}
	return nil
}

// counts reports whether what comes over a way is of the scheduler that leads.
func (w *way) counts(up transport.Link) bool {
	l := w.link
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up == up
}

// PayloadMax implements transport.Limiter.
func (w *way) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.SchedulerDocMax)
}

// Buffer implements transport.Handler.
func (w *way) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (w *way) Receive(up transport.Link, f transport.Frame) {
	var err error
	switch f.Kind {
	case wire.KindDoc:
		err = w.document(up, f)
	case wire.KindLead:
		err = w.follow(up, f.Body)
	case wire.KindLeave:
		w.link.c.log.Info().Str("scheduler", w.address).Msg("the scheduler drains")
	default:
		err = fmt.Errorf("frame of kind %d from the scheduler", f.Kind)
	}
	switch {
	case err == nil:
	case errors.Is(err, transport.ErrRejected):
		up.Close(err)
	default:
		up.Close(fmt.Errorf("%w: %w", transport.ErrProtocol, err))
	}
}

func (w *way) document(up transport.Link, f transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil {
		return err
	}
	switch d.Type {
	case wire.DocFacts:
		facts, err := catalog.DecodeFacts(f.Payload)
		if err != nil {
			return err
		}
		if !w.counts(up) {
			return w.stranger()
		}
		return w.link.add(said{facts: &facts})
	case wire.DocOutcome:
		o, err := catalog.DecodeOutcome(f.Payload)
		if err != nil || !w.counts(up) {
			return err
		}
		return w.link.add(said{outcome: o})
	case wire.DocAdmitted:
		a, err := catalog.DecodeAdmitted(f.Payload)
		if err == nil && a.Error != "" {
			err = fmt.Errorf("%w: this controller is not admitted: %s", transport.ErrRejected, a.Error)
		}
		return err
	}
	return nil // of a later scheduler
}

// stranger is why the link to a scheduler ends that tells facts and does not lead: one that has been
// overtaken just now, or that is in no group at all.
func (w *way) stranger() error {
	return fmt.Errorf("%w: the scheduler at %s does not say that it leads the group %s: has it been started with --standby?", transport.ErrRejected, w.address, w.link.address)
}

// Closed implements transport.Handler.
func (w *way) Closed(up transport.Link, err error) {
	w.link.peers.release(up.Peer().Incarnation, w)
	w.link.isDown(up, err)
}

var _ transport.Handler = (*way)(nil)
