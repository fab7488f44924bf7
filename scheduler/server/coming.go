package server

import "github.com/symphony-serving/symphony/transport/mono"

// Expect notes the models of a backend in this process that loads them before it joins, in place of those that were
// noted before: who asks for one hears that it is loading.
func (s *Server) Expect(keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.cluster.Expect(mono.Now(), keys, &s.effects)
	s.carryOut(&s.effects)
}
