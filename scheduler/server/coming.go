package server

import "github.com/symphony-serving/symphony/transport/mono"

// Expect notes the models of a backend in this process that loads them before it joins. They replace those that were
// noted before. A request for one of them is answered with loading.
func (s *Server) Expect(keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.cluster.Expect(mono.Now(), keys, &s.effects)
	s.carryOut(&s.effects)
}
