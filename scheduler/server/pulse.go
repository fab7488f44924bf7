package server

import "fmt"

// LoopPulse is what tells whether a loop turns.
type LoopPulse struct {
	Turns   uint64
	Waiting int // inputs in its rings now
}

// Pulse is that of all loops, by their names. It takes the server's lock: where it does not
// return the cold path is stuck.
func (s *Server) Pulse() map[string]LoopPulse {
	out := map[string]LoopPulse{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.livePools {
		stats := p.engine.Stats()
		name := fmt.Sprintf("sub-cluster %d of %s", p.index, p.deviceType)
		out["rank loop of "+name] = LoopPulse{stats.Rank.Turns, stats.Rank.Waiting}
		for i, l := range stats.Models {
			out[fmt.Sprintf("model loop %d of %s", i, name)] = LoopPulse{l.Turns, l.Waiting}
		}
	}
	return out
}
