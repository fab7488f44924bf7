package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// frontend is one frontend's link: its requests come in here.
type frontend struct {
	server *Server
	name   string

	// Owned by the link's receiving goroutine until admitted, then immutable.
	link     transport.Link
	id       wire.FrontendID
	address  string
	admitted bool

	submit wire.Submit // Owned by the receiving goroutine: scratch.
	answer []byte      // Likewise.
	drops  dropTally
}

func (f *frontend) countDrop(r wire.Reason) { f.drops.add(r) }

// Buffer implements transport.Handler.
func (f *frontend) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (f *frontend) Receive(l transport.Link, m transport.Frame) {
	switch m.Kind {
	case wire.KindSubmit:
		f.onSubmit(l, m.Body)
	case wire.KindDoc:
		if err := f.onDoc(l, m); err != nil {
			f.server.refusals.Refused("frontend "+f.name, err)
			refuse(l, err)
		}
	case wire.KindLeave: // it finishes what is open and closes the link itself
	default:
		l.Close(fmt.Errorf("%w: frame of kind %d from a frontend", transport.ErrProtocol, m.Kind))
	}
}

// onSubmit is the request path: decode, look up, push.
func (f *frontend) onSubmit(l transport.Link, body []byte) {
	m := &f.submit
	if err := m.Decode(body, l.Shift()); err != nil || !f.admitted {
		l.Close(errors.Join(transport.ErrProtocol, err))
		return
	}
	s := f.server
	if w := s.cfg.Watch.Submitted; w != nil {
		w(m.Request)
	}
	reason := wire.ReasonNone
	routes := *s.routes.Load()
	switch {
	case s.draining.Load():
		reason = wire.ReasonDraining
	case int(m.Model) >= len(routes):
		reason = wire.ReasonUnknownModel
	case !routes[m.Model].ready:
		reason = wire.ReasonUnavailable
	default:
		r := batching.Request{ID: m.Request, Frontend: f.id, Arrival: m.Arrival, Deadline: m.Deadline, Input: m.Input}
		if !routes[m.Model].engine.Submit(m.Model, &r) {
			reason = wire.ReasonFull
		}
	}
	if reason == wire.ReasonNone {
		return
	}
	f.countDrop(reason)
	s.metrics.drop(reason)
	f.answer = (&wire.Answer{Request: m.Request, Reason: reason}).Append(f.answer[:0])
	_ = l.Send(f.answer) // a link that takes no answers is closed by its heartbeats
}

func (f *frontend) onDoc(l transport.Link, m transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(m.Body); err != nil {
		return err
	}
	if d.Type != wire.DocFrontend {
		return fmt.Errorf("a frontend sends its FrontendInfo, not document %d", d.Type)
	}
	if f.admitted {
		return errors.New("a frontend introduces itself once")
	}
	info, err := catalog.DecodeFrontendInfo(m.Payload)
	if err != nil {
		return err
	}
	if info.Address == "" || len(info.Address) > 128 {
		return fmt.Errorf("FrontendInfo: address %q must have 1 to 128 bytes", info.Address)
	}
	return f.server.admitFrontend(f, l, info)
}

// admitFrontend gives the frontend its id; every backend hears of it before
// the frontend can submit anything (rule 3).
func (s *Server) admitFrontend(f *frontend, l transport.Link, info catalog.FrontendInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.frontends) >= s.cfg.FrontendsMax {
		return fmt.Errorf("%d frontends are connected already", s.cfg.FrontendsMax)
	}
	f.link, f.address, f.admitted = l, info.Address, true
	if info.Name != "" {
		f.name = info.Name
	}
	all := slices.Clone(*s.frontendsBy.Load())
	f.id = wire.FrontendID(len(all))
	for i, other := range all { // the ids of those who left long ago are used again
		if other == nil && i < len(all)-s.cfg.FrontendsMax {
			f.id = wire.FrontendID(i)
			break
		}
	}
	if int(f.id) == len(all) {
		all = append(all, f)
	} else {
		all[f.id] = f
	}
	s.frontendsBy.Store(&all)
	s.frontends[f.id] = f
	s.peers.Add(1)
	s.tellMember(f, true)
	transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Epoch: s.epoch, Frontend: f.id})
	transport.SendDoc(l, wire.DocCatalogue, s.catalogue())
	s.log.Info().Str("frontend", f.name).Uint32("id", uint32(f.id)).Str("address", f.address).Msg("frontend joined")
	return nil
}

// Closed implements transport.Handler.
func (f *frontend) Closed(_ transport.Link, err error) {
	if !f.admitted {
		return
	}
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.frontends, f.id)
	s.peers.Add(-1)
	all := slices.Clone(*s.frontendsBy.Load())
	all[f.id] = nil
	s.frontendsBy.Store(&all)
	s.tellMember(f, false)
	s.log.Info().Str("frontend", f.name).Uint32("id", uint32(f.id)).AnErr("cause", err).Msg("frontend left")
}

func (s *Server) tellMember(f *frontend, up bool) {
	frame := s.memberFrame(f, up)
	for _, b := range s.backends {
		_ = b.link.Send(frame)
	}
}

func (s *Server) memberFrame(f *frontend, up bool) []byte {
	return (&wire.Member{Epoch: s.epoch, Frontend: f.id, Up: up, Address: f.address}).Append(nil)
}

// refuse tells the peer why it is not admitted, and closes.
func refuse(l transport.Link, err error) {
	transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Error: err.Error()})
	l.Close(fmt.Errorf("%w: %w", transport.ErrRejected, err))
}
