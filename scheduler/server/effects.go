package server

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// errReplaced is why a link ends whose process has another one.
var errReplaced = errors.New("replaced by a new link of the same process")

// carryOut does what the members' core has decided, in its order, and lets frontends hear
// of what changed. Caller holds mu.
func (s *Server) carryOut(effects *members.Effects) {
	rerouted, left := false, (*leaving)(nil)
	for i := range *effects {
		e := &(*effects)[i]
		s.returns(e)
		if e.Kind != members.MoveModel && len(s.moves) > 0 {
			s.finishMoves()
		}
		switch e.Kind {
		case members.Refuse:
			s.refuse(e.Conn, e.Err)
		case members.Replace:
			if l := s.link(e.Conn); l != nil {
				l.Close(errReplaced)
			}
			s.forget(e.Conn)
		case members.Want:
			s.want(e)
		case members.AddPool:
			s.addPool(e)
		case members.RemovePool:
			s.removePool(s.pools[e.Pool])
		case members.MoveModel:
			s.moveModel(e)
		case members.Keep:
			s.keep(e)
		case members.Bind:
			s.sendBackend(e.Conn, wire.DocBound, e.Bound)
		case members.Answer:
			s.answerAfter(left, e)
		case members.AddModel, members.SetModel, members.RemoveModel:
			if s.finishes(e) {
				left = s.leaves(e, left)
			} else {
				s.changeModel(e)
				rerouted = rerouted || e.Kind != members.SetModel
			}
		case members.AdmitBackend:
			if rerouted { // before the first batch of a model there are requests for it
				s.reroute()
				rerouted = false
			}
			s.admitBackend(s.backends[e.Conn])
		case members.AddGPU:
			s.addGPU(e)
		case members.RetireGPU:
			s.retireGPU(s.pools[e.Pool], e.GPU)
		case members.RemoveGPU:
			p := s.pools[e.Pool]
			s.unseatGPU(p, p.gpu(e.GPU))
		case members.AdmitFrontend:
			s.admitFrontend(s.frontends[e.Conn], e.Frontend)
		case members.RemoveFrontend:
			s.removeFrontend(e.Conn, e.Frontend)
		case members.Note:
			s.log.Info().Msg(e.Text)
		}
	}
	*effects = (*effects)[:0]
	if len(s.moves) > 0 {
		s.finishMoves()
	}
	if rerouted {
		s.reroute()
	}
	s.look()
}

// look has those look who tell others what has become of the members.
func (s *Server) look() {
	s.teller.look()
	s.controllers.look()
	if s.group != nil {
		s.group.standing.look()
	}
}

func (s *Server) want(e *members.Effect) {
	if l := s.link(e.Conn); l != nil {
		transport.SendDoc(l, wire.DocWant, catalog.Want{Models: e.Digest})
	}
}

func (s *Server) addPool(e *members.Effect) {
	for e.Pool >= len(s.pools) {
		s.pools = append(s.pools, nil)
	}
	if p := s.pools[e.Pool]; p != nil && !p.paged.Alike(e.Paged) {
		s.removePool(p) // without models and GPUs: another engine takes its place, of another kind or with pages of another size
	}
	if s.pools[e.Pool] == nil {
		s.newPool(e.Pool, e.Paged)
	}
	p := s.pools[e.Pool]
	p.paged = e.Paged
	s.endLeaving(p)
	p.deviceType, p.name = e.Type, e.SubCluster
	if p.name != "" {
		s.log.Info().Str("pool", p.label()).Msg("sub-cluster begins")
	}
}

func (s *Server) changeModel(e *members.Effect) {
	p := s.pools[e.Pool]
	for int(e.Model) >= len(s.models) {
		s.models = append(s.models, served{})
	}
	m := &s.models[e.Model]
	if e.Kind == members.RemoveModel {
		p.engine.RemoveModel(e.Model, wire.ReasonUnavailable)
		s.fence(p.engine, e.Model)
		m.goTo(nil)
		return
	}
	if e.Kind == members.AddModel && (m.spec == nil || m.spec.Key() != e.Spec.Key()) {
		m.count = &modelCount{}
	}
	m.spec = e.Spec
	cfg, err := modelConfig(e.Spec, s.cfg.QueueMax)
	s.roomFor(p)
	switch {
	case err != nil:
	case e.Kind == members.SetModel:
		p.engine.SetModel(e.Model, cfg)
	default:
		if err = p.serve(e.Model, cfg, e.Spec); err == nil {
			m.goTo(p)
		}
	}
	if err != nil { // the core has checked the model, New the limits
		s.log.Error().Str("model", e.Spec.Key()).Err(err).Msg("the engine does not take this model")
	}
}

// move is a model that goes from one engine to another.
type move struct {
	id       wire.ModelID
	from, to *pool
}

// moveModel begins a move: the engine where the model goes knows it first.
func (s *Server) moveModel(e *members.Effect) {
	from, to := s.pools[e.From], s.pools[e.Pool]
	m := &s.models[e.Model]
	m.spec = e.Spec
	s.roomFor(to)
	cfg, err := modelConfig(e.Spec, s.cfg.QueueMax)
	if err == nil {
		err = to.serve(e.Model, cfg, e.Spec)
	}
	if err != nil { // the core has checked the model, New the limits
		s.log.Error().Str("model", e.Spec.Key()).Err(err).Msg("the engine does not take this model")
		from.engine.RemoveModel(e.Model, wire.ReasonUnavailable)
		s.fence(from.engine, e.Model)
		m.goTo(nil)
		return
	}
	m.goTo(to)
	s.moves = append(s.moves, move{e.Model, from, to})
}

// finishMoves lets requests go to the new engines, and then what waits in the old ones: so none
// is lost or answered twice, and those that have read a route before follow.
func (s *Server) finishMoves() {
	s.reroute()
	for _, m := range s.moves {
		if err := m.from.engine.HandOver(m.id, m.to.engine); err != nil {
			s.log.Error().Str("model", s.models[m.id].spec.Key()).Err(err).Msg("what waited for a model that moves is lost")
			m.from.engine.RemoveModel(m.id, wire.ReasonUnavailable)
		}
		s.fence(m.from.engine, m.id)
	}
	s.moves = s.moves[:0]
}

// sendBackend sends a member what the core has for it.
func (s *Server) sendBackend(conn members.Conn, t wire.DocType, doc any) {
	if b := s.backends[conn]; b != nil {
		transport.SendDoc(b.link, t, doc)
	}
}

func (s *Server) addGPU(e *members.Effect) {
	p := s.pools[e.Pool]
	s.endLeaving(p)
	g := p.grow(e.GPU)
	g.name = e.Name
	if b := s.backends[e.Conn]; !s.obeyed(b) {
		s.putAside(b, &aside{pool: p, gpu: g, index: e.Index, device: e.Device, free: mono.Now().Add(e.Free)})
		return
	}
	if err := s.seatGPU(s.backends[e.Conn], p, g, e.Index, e.Device, e.Free); err != nil {
		s.log.Error().Str("gpu", e.Name).Err(err).Msg("the engine does not take this GPU")
	}
}

// reroute publishes where requests go.
func (s *Server) reroute() {
	routes := make([]route, len(s.models))
	for id := range s.models {
		if m := &s.models[id]; m.pool != nil {
			routes[id] = route{m.pool.engine, m.pool, m.count}
		} else {
			routes[id].count = m.count // of what still runs
		}
	}
	s.routes.Store(&routes)
}

// enter numbers a newcomer's link; false: it is too late for newcomers. Caller holds mu.
func (s *Server) enter(l transport.Link) (members.Conn, bool) {
	if s.closed {
		refuse(l, errClosing)
		return 0, false
	}
	s.conns++
	return s.conns, true
}

// link is a member's, or a newcomer's; nil when it is gone.
func (s *Server) link(conn members.Conn) transport.Link {
	if f := s.frontends[conn]; f != nil {
		return f.link
	}
	if b := s.backends[conn]; b != nil {
		return b.link
	}
	return nil
}

func (s *Server) forget(conn members.Conn) {
	if b := s.backends[conn]; b != nil && b.admitted.Swap(false) {
		s.peers.Add(-1)
		if s.group != nil {
			s.disobeys(b)
		}
	}
	delete(s.backends, conn)
	delete(s.frontends, conn)
	delete(s.controllers.all, conn)
	s.labels.forget(conn)
}

// refuse tells a newcomer why it is not admitted, and closes its link.
func (s *Server) refuse(conn members.Conn, err error) {
	if b := s.backends[conn]; b != nil {
		s.refusals.Refused("backend "+b.name, err)
	} else if f := s.frontends[conn]; f != nil {
		s.refusals.Refused("frontend "+f.name, err)
	}
	if l := s.link(conn); l != nil {
		refuse(l, err)
	}
	s.forget(conn)
}

// refuse tells the peer why it is not admitted, and closes.
func refuse(l transport.Link, err error) {
	transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Error: err.Error()})
	l.Close(transport.Refuse(err))
}

func unexpected(t wire.DocType, who string) error {
	return fmt.Errorf("document %d is not expected of a %s now", t, who)
}
