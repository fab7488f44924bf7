package server

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// frontend is one frontend's link: its requests come in here.
type frontend struct {
	server *Server
	name   string
	conn   members.Conn // 0: it has not introduced itself. Owned by the receiving goroutine until then.

	link     transport.Link  // Guarded by Server.mu until admitted, then immutable.
	id       wire.FrontendID // likewise
	instance uint64          // likewise: of its process
	admitted atomic.Bool

	told   uint64 // Guarded by Server.mu: the catalogue's serial that it knows
	behind bool   // Guarded by Server.mu: a part is missing

	submit wire.Submit // Owned by the receiving goroutine: scratch.
	answer []byte      // Likewise.
}

// Buffer implements transport.Handler.
func (f *frontend) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Receive implements transport.Handler.
func (f *frontend) Receive(l transport.Link, m transport.Frame) {
	switch m.Kind {
	case wire.KindSubmit:
		f.onSubmit(l, m.Body)
	case wire.KindCancel:
		f.onCancel(l, m.Body)
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
	if err := m.Decode(body, l.Shift()); err != nil || !f.admitted.Load() {
		l.Close(errors.Join(transport.ErrProtocol, err))
		return
	}
	s := f.server
	if w := s.cfg.Watch.Submitted; w != nil {
		w(m.Request)
	}
	if s.held != nil && s.held.batches.Load() > 0 && s.held.take(f, m) {
		return
	}
	reason := s.hand(f, m)
	if reason == wire.ReasonNone {
		return
	}
	s.metrics.drop(reason)
	f.answer = (&wire.Answer{Request: m.Request, Reason: reason}).Append(f.answer[:0])
	s.send(l, f.answer)
}

func (f *frontend) onDoc(l transport.Link, m transport.Frame) error {
	var d wire.Doc
	if err := d.Decode(m.Body); err != nil {
		return err
	}
	switch {
	case d.Type == wire.DocFrontend && f.conn == 0:
		info, err := catalog.DecodeFrontendInfo(m.Payload)
		if err != nil {
			return err
		}
		f.join(l, &info)
		return nil
	case d.Type == wire.DocFrontend:
		return errors.New("a frontend introduces itself once")
	case d.Type == wire.DocWant && f.admitted.Load():
		w, err := catalog.DecodeWant(m.Payload)
		if err != nil {
			return err
		}
		f.server.mu.Lock()
		defer f.server.mu.Unlock()
		f.server.wantLabels(mono.Now(), f, w.Labels)
		return nil
	}
	return unexpected(d.Type, "frontend")
}

func (f *frontend) join(l transport.Link, info *catalog.FrontendInfo) {
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, open := s.enter(l)
	if !open {
		return
	}
	f.conn, f.link, f.instance = conn, l, info.Instance
	if info.Name != "" {
		f.name = info.Name
	}
	s.frontends[f.conn] = f
	_, seen := transport.HostsOf(l)
	s.cluster.JoinFrontend(mono.Now(), f.conn, info, seen, &s.effects)
	s.carryOut(&s.effects)
}

// admitFrontend tells every backend of it before it can submit anything (rule 3).
func (s *Server) admitFrontend(f *frontend, id wire.FrontendID) {
	who := s.cluster.Frontend(id)
	f.id = id
	all := slices.Clone(*s.frontendsBy.Load())
	for int(id) >= len(all) {
		all = append(all, nil)
	}
	all[id] = f
	s.frontendsBy.Store(&all)
	for _, b := range s.backends {
		s.tellMember(b, who, true)
	}
	transport.SendDoc(f.link, wire.DocAdmitted, catalog.Admitted{Epoch: s.epoch, Frontend: id, Address: who.Address})
	s.tellLead(f.link)
	f.behind = true // an empty catalogue is one, too
	f.admitted.Store(true)
	s.peers.Add(1)
	s.log.Info().Str("frontend", f.name).Uint32("id", uint32(id)).Str("address", who.Address).Msg("frontend joined")
}

func (s *Server) removeFrontend(conn members.Conn, id wire.FrontendID) {
	s.peers.Add(-1)
	all := slices.Clone(*s.frontendsBy.Load())
	all[id] = nil
	s.frontendsBy.Store(&all)
	for _, b := range s.backends {
		s.tellMember(b, &members.Frontend{ID: id}, false)
	}
	delete(s.frontends, conn)
}

// tellMember tells a backend of a frontend. One that cannot be told would expire its
// requests without a word: its link ends, and it joins anew.
func (s *Server) tellMember(b *backend, f *members.Frontend, up bool) {
	if !b.admitted.Load() {
		return
	}
	if err := b.link.Send(s.member(f, up, b)); err != nil {
		b.link.Close(err)
	}
}

// member is a Member frame for one backend. Caller holds mu.
func (s *Server) member(f *members.Frontend, up bool, to *backend) []byte {
	local, remote := transport.HostsOf(to.link)
	return (&wire.Member{Epoch: s.epoch, Frontend: f.ID, Up: up, Instance: f.Instance, Address: f.AddressFor(local, remote)}).Append(nil)
}

// Closed implements transport.Handler.
func (f *frontend) Closed(_ transport.Link, err error) {
	if f.conn == 0 {
		return
	}
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frontends[f.conn] != f {
		return // it was refused or replaced
	}
	if s.closed {
		s.forget(f.conn)
		return
	}
	if f.admitted.Load() {
		s.log.Info().Str("frontend", f.name).Uint32("id", uint32(f.id)).AnErr("cause", err).Msg("frontend left")
	}
	s.cluster.Leave(mono.Now(), f.conn, &s.effects)
	s.carryOut(&s.effects)
	s.forget(f.conn)
}
