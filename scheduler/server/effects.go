package server

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// errReplaced is why a link ends whose process has another one.
var errReplaced = errors.New("replaced by a new link of the same process")

// carryOut does what the members' core has decided, in its order, and lets frontends hear
// of what changed. Caller holds mu.
func (s *Server) carryOut(effects *members.Effects) {
	rerouted := false
	for i := range *effects {
		e := &(*effects)[i]
		switch e.Kind {
		case members.Refuse:
			s.refuse(e.Conn, e.Err)
		case members.Replace:
			if l := s.link(e.Conn); l != nil {
				l.Close(errReplaced)
			}
			s.forget(e.Conn)
		case members.Want:
			if l := s.link(e.Conn); l != nil {
				transport.SendDoc(l, wire.DocWant, catalog.Want{Models: e.Digest})
			}
		case members.AddPool:
			s.addPool(e)
		case members.AddModel, members.SetModel, members.RemoveModel:
			s.changeModel(e)
			rerouted = rerouted || e.Kind != members.SetModel
		case members.AdmitBackend:
			if rerouted { // before the first batch of a model there are requests for it
				s.reroute()
				rerouted = false
			}
			s.admitBackend(s.backends[e.Conn])
		case members.AddGPU:
			s.addGPU(e)
		case members.RetireGPU:
			p := s.pools[e.Pool]
			p.engine.RetireGPU(p.gpu(e.GPU).life)
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
	if rerouted {
		s.reroute()
	}
	s.teller.look()
}

func (s *Server) addPool(e *members.Effect) {
	if e.Pool == len(s.pools) {
		s.newPool()
	}
	s.pools[e.Pool].deviceType = e.Type
}

func (s *Server) changeModel(e *members.Effect) {
	p := s.pools[e.Pool]
	for int(e.Model) >= len(s.models) {
		s.models = append(s.models, nil)
	}
	if e.Kind == members.RemoveModel {
		p.engine.RemoveModel(e.Model, wire.ReasonUnavailable)
		s.models[e.Model] = nil
		return
	}
	cfg, err := modelConfig(e.Spec, s.cfg.QueueMax)
	switch {
	case err != nil:
	case e.Kind == members.SetModel:
		p.engine.SetModel(e.Model, cfg)
	default:
		if err = p.engine.AddModel(e.Model, cfg); err == nil {
			s.models[e.Model] = p
		}
	}
	if err != nil { // the core has checked the model, New the limits
		s.log.Error().Str("model", e.Spec.Key()).Err(err).Msg("the engine does not take this model")
	}
}

func (s *Server) addGPU(e *members.Effect) {
	p := s.pools[e.Pool]
	g := p.grow(e.GPU)
	g.name = e.Name
	if err := s.seatGPU(s.backends[e.Conn], p, g, e.Index, e.Device, e.Free); err != nil {
		s.log.Error().Str("gpu", e.Name).Err(err).Msg("the engine does not take this GPU")
	}
}

// reroute publishes where requests go.
func (s *Server) reroute() {
	routes := make([]route, len(s.models))
	for id, p := range s.models {
		if p != nil {
			routes[id] = route{p.engine, p}
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
	}
	delete(s.backends, conn)
	delete(s.frontends, conn)
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
