package server

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A model may be unloaded from GPUs as soon as it is routed elsewhere, but the loop that it leaves
// may have a grant for one of them still. So a backend is told to unload only when the loops have
// carried out the ends of models that were ordered before: the batches that they began before are
// on their way to it by then, on the same link.

// fences are the ends that have not been carried out, and what waits for them. Guarded by Server.mu.
type fences struct {
	ahead  []fence
	held   []heldKeep // in their order
	serial uint64     // of the last fence
}

type fence struct {
	engine.Fence
	serial uint64
}

// heldKeep is an order to a backend that waits for the fences up to after.
type heldKeep struct {
	effect members.Effect
	after  uint64
}

// fence notes that a model's end was ordered. Caller holds mu.
func (s *Server) fence(e *engine.Engine, id wire.ModelID) {
	f := &s.fences
	f.serial++
	f.ahead = append(f.ahead, fence{e.Fence(id), f.serial})
}

// keep tells a backend what a device shall have: now, or, where it is to unload, when nothing of
// that is on its way to it. What is told it after that waits as well. Caller holds mu.
func (s *Server) keep(e *members.Effect) {
	if b := s.backends[e.Conn]; b != nil && !s.obeyed(b) {
		return // Recall says it when the backend obeys
	}
	s.passFences()
	f := &s.fences
	waits := slices.ContainsFunc(f.held, func(h heldKeep) bool { return h.effect.Conn == e.Conn })
	if !waits && (len(e.Order.Unload) == 0 || len(f.ahead) == 0) {
		s.sendBackend(e.Conn, wire.DocKeep, e.Order)
		return
	}
	f.held = append(f.held, heldKeep{*e, f.serial})
}

// passFences tells the backends what has waited for long enough. Caller holds mu.
func (s *Server) passFences() {
	f := &s.fences
	f.ahead = slices.DeleteFunc(f.ahead, func(x fence) bool { return x.Passed() })
	n := 0
	for n < len(f.held) && (len(f.ahead) == 0 || f.ahead[0].serial > f.held[n].after) {
		s.sendBackend(f.held[n].effect.Conn, wire.DocKeep, f.held[n].effect.Order)
		n++
	}
	f.held = slices.Delete(f.held, 0, n)
}
