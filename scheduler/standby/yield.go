package standby

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// successor is the spare that has most backends, of several the one with the lowest number; nil:
// none is heard.
func (s *Scheduler) successor(now mono.Time) *peer {
	var best *peer
	for i := range s.peers {
		p := &s.peers[i]
		if p.beat.Leads || !s.fresh(now, p) {
			continue
		}
		if best == nil || p.beat.Backends > best.beat.Backends || p.beat.Backends == best.beat.Backends && p.beat.Number < best.beat.Number {
			best = p
		}
	}
	return best
}

// yield asks a spare to take over, with each beat until it has.
func (s *Scheduler) yield(now mono.Time, p *peer, why string, out *Effects) {
	s.yieldTo, s.yieldUntil = p.life, now.Add(yieldWait)
	out.note(fmt.Sprintf("asks scheduler %d to take over: %s", p.beat.Number, why))
	s.busy = max(s.busy, s.yieldUntil)
	s.beats(now, out)
}

// govern is what a leader looks after: whether its successor has come, and whether it is the one
// that should lead. One that backends do not reach would drive nothing, while a spare could.
func (s *Scheduler) govern(now mono.Time, out *Effects) {
	if s.yieldTo != 0 {
		if now >= s.yieldUntil {
			s.yieldTo = 0
			out.note("the other scheduler did not take over within a second: leads on")
		}
		return
	}
	p := s.successor(now)
	if p == nil || int(p.beat.Backends) <= 2*len(s.backends) {
		s.few = mono.Never
		return
	}
	if s.few == mono.Never {
		s.few = now
	}
	if now.Sub(s.few) >= fewWait {
		s.few = mono.Never
		s.yield(now, p, fmt.Sprintf("it has %d backends, this one %d", p.beat.Backends, len(s.backends)), out)
	}
}
