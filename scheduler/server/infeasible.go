package server

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// infeasibleEvery is the span between two looks.
const infeasibleEvery = mono.Second

// lookForInfeasible logs models of which no request can make its SLO, and those of which some can again. It adds
// what one item takes to what the network and the margin take. All of these, and the SLO, change while a model is
// served. Caller holds mu.
func (s *Server) lookForInfeasible(now mono.Time) {
	if now < s.infeasibleLook {
		return
	}
	s.infeasibleLook = now.Add(infeasibleEvery)
	for p := range s.livePools {
		p.infeasible = 0
	}
	for id := range s.models {
		m := &s.models[id]
		if m.pool == nil || m.spec == nil {
			m.infeasible = false
			continue
		}
		why, clear := s.infeasible(m)
		switch {
		case why != "" && !m.infeasible:
			m.infeasible = true
			s.log.Warn().Str("model", m.spec.Key()).Str("pool", m.pool.label()).Msg(why)
		case clear && m.infeasible:
			m.infeasible = false
			s.log.Info().Str("model", m.spec.Key()).Str("pool", m.pool.label()).Stringer("slo", m.spec.SLO).Stringer("one", m.spec.Profile.Alone()).Msg("requests can be in time again")
		}
		if m.infeasible {
			m.pool.infeasible++
		}
	}
}

// infeasible is why no request of a model can be in time; "": some can. clear: by so much that the next look will
// not say otherwise because a delay was measured again.
func (s *Server) infeasible(m *served) (why string, clear bool) {
	if why = m.spec.Infeasible(); why != "" {
		return why, false
	}
	delay := m.pool.delay.Sized(m.spec.InputBytes())
	way := delay.Of(1) + s.cfg.Margin
	left := m.spec.SLO - m.spec.Profile.Alone() - way
	if left < 0 {
		why = fmt.Sprintf("no request can be in time: one item takes %s, and its way there and back up to %s, more together than its SLO of %s; raise slo, or serve it on faster devices",
			catalog.Span(m.spec.Profile.Alone()), catalog.Span(way), catalog.Span(m.spec.SLO))
	}
	return why, left > way/4
}
