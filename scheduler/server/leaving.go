package server

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// leavingLeast is how long a model that was removed is served at least: until all frontends
	// have heard of it, what they sent before comes.
	leavingLeast = 4 * mono.Dur(tellRest)
	// leavingMost bounds it: what waits longer is answered with unavailable. The core keeps ids
	// from others for longer than that.
	leavingMost = 3 * mono.Second
)

// leaving are models that the control plane has removed at once: the catalogue has them no more,
// and what was sent for them is served. Whoever removed them hears of it when nothing waits: until
// then the GPUs have them. Guarded by Server.mu.
type leaving struct {
	since   mono.Time
	models  []wire.ModelID
	answers []members.Effect
}

// finishes tells whether an effect is the end of a model that may be served on.
func (s *Server) finishes(e *members.Effect) bool {
	return e.Kind == members.RemoveModel && e.Finish && s.models[e.Model].pool != nil
}

// answerAfter answers an order when what left because of it has ended; nil: at once.
func (s *Server) answerAfter(w *leaving, e *members.Effect) {
	if w == nil {
		s.answer(e)
		return
	}
	w.answers = append(w.answers, *e)
}

// leaves serves a model on until nothing waits. with are those of the same event; nil: none yet.
func (s *Server) leaves(e *members.Effect, with *leaving) *leaving {
	if with == nil {
		with = &leaving{since: mono.Now()}
		s.leaving = append(s.leaving, with)
	}
	with.models = append(with.models, e.Model)
	s.models[e.Model].leaving = with
	return with
}

// lookForLeft ends those for which nothing waits any more. Caller holds mu.
func (s *Server) lookForLeft(now mono.Time) {
	rerouted := false
	s.leaving = slices.DeleteFunc(s.leaving, func(w *leaving) bool {
		since := now.Sub(w.since)
		w.models = slices.DeleteFunc(w.models, func(id wire.ModelID) bool {
			m := &s.models[id]
			switch {
			case m.leaving != w:
				return true // it has ended, or is served again
			case since < leavingLeast || since < leavingMost && m.count.look().waiting() > 0:
				return false
			}
			s.left(id)
			rerouted = true
			return true
		})
		if len(w.models) > 0 {
			return false
		}
		for i := range w.answers {
			s.answer(&w.answers[i])
		}
		return true
	})
	if rerouted {
		s.reroute()
	}
}

// left ends one: what waits, if anything does, is answered.
func (s *Server) left(id wire.ModelID) {
	m := &s.models[id]
	m.leaving = nil
	m.pool.engine.RemoveModel(id, wire.ReasonUnavailable)
	s.fence(m.pool.engine, id)
	m.goTo(nil)
}

// endLeaving ends those of a pool: it ends, or has a GPU soon that need not have them.
func (s *Server) endLeaving(p *pool) {
	ended := false
	for _, w := range s.leaving {
		for _, id := range w.models {
			if m := &s.models[id]; m.leaving == w && m.pool == p {
				s.left(id)
				ended = true
			}
		}
	}
	if ended {
		s.reroute()
	}
}

// roomFor has a pool's engine take another model: those that leave make way.
func (s *Server) roomFor(p *pool) {
	if p.models >= engine.ModelsMax {
		s.endLeaving(p)
	}
}

// returns serves a model again that was about to leave: where it is, or it moves. Other effects
// stay as they are.
func (s *Server) returns(e *members.Effect) {
	if e.Kind != members.AddModel || int(e.Model) >= len(s.models) || s.models[e.Model].leaving == nil {
		return
	}
	m := &s.models[e.Model]
	m.leaving = nil
	if e.Kind = members.SetModel; m.pool.index != e.Pool {
		e.Kind, e.From = members.MoveModel, m.pool.index
	}
}
