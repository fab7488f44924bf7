package standby

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// cause is why a spare claims.
type cause uint8

const (
	ended   cause = iota // the leader's process
	silent               // the leader is
	alone                // nobody else is there
	vacancy              // the group is there, and nobody leads
	lost                 // by all backends that have one
	unsure               // there may be one that is not heard
)

// due is when a spare claims if nothing is heard until then, and why.
func (s *Scheduler) due(now mono.Time) (at mono.Time, why cause) {
	all := s.allHeard(now)
	if len(s.backends) == 0 && !all { // cut off, or nearly: it would lead nothing
		return mono.Never, unsure
	}
	turn := s.turn(now)
	if l := s.leading(); l != nil {
		if l.gone {
			return l.goneAt.Add(turn), ended
		}
		return l.at.Add(s.silence(l) - (doubts-1)*doubtWait + turn), silent
	}
	at, why = s.vacant.Add(s.patience+turn), unsure
	switch soon := s.vacant.Add(s.cfg.Silence + turn); {
	case s.driven(): // by one that we cannot reach: a refused dial is no proof
	case all && len(s.peers) == 0:
		at, why = s.vacant.Add(s.aloneWait()), alone
	case soon >= at:
	case all:
		at, why = soon, vacancy
	case s.allLost():
		at, why = soon, lost
	}
	if c := s.claiming(now); c != nil {
		at = max(at, c.since.Add(candidateWait+turn))
	}
	return at, why
}

// aloneWait is how long one that is alone waits. One that begins anew was overtaken: what it claims is above
// that reign, and backends have a while to say whether somebody drives them who is in no list here.
func (s *Scheduler) aloneWait() mono.Dur {
	if s.cfg.Heard != 0 {
		return startWait
	}
	return 0
}

// consider makes a spare claim if that is due.
func (s *Scheduler) consider(now mono.Time, out *Effects) {
	at, why := s.due(now)
	if now < at {
		s.looks = 0
		return
	}
	if now < s.steady {
		return
	}
	if why == silent { // what says otherwise may wait to be read
		if s.looks == 0 || now >= s.looked.Add(doubtWait) {
			s.looks++
			s.looked = now
			s.send(s.leading(), out) // a leader whose timer is late beats when it hears something
		}
		if s.looks < doubts {
			return
		}
	}
	s.looks = 0
	s.claim(now, false, s.says(why), out)
}

// says is a cause in words.
func (s *Scheduler) says(why cause) string {
	switch l := s.leading(); why {
	case ended:
		return fmt.Sprintf("the process of scheduler %d, which led, has ended", l.beat.Number)
	case silent:
		return fmt.Sprintf("scheduler %d, which leads, is silent for %v", l.beat.Number, s.silence(l))
	case alone:
		return "no other scheduler of the group is there"
	case vacancy:
		return "the group is there, and nobody leads"
	case lost:
		return "the backends have lost the scheduler that they obey"
	default:
		return fmt.Sprintf("no leader was heard for %v", s.patience)
	}
}

// turn is how much later than the first of several spares that see the same this one claims: first
// those that have more backends, then the lower numbers.
func (s *Scheduler) turn(now mono.Time) mono.Dur {
	ahead := mono.Dur(0)
	for i := range s.peers {
		p := &s.peers[i]
		if p.beat.Leads || !s.fresh(now, p) {
			continue
		}
		if theirs, ours := int(p.beat.Backends), len(s.backends); theirs > ours || theirs == ours && p.beat.Number < s.cfg.Number {
			ahead++
		}
	}
	return ahead * turnWait
}

// claiming is a peer that has a reign of its own and does not lead; nil: none. (One that fell and
// has heard of no later reign looks the same, for candidateWait.)
func (s *Scheduler) claiming(now mono.Time) *peer {
	var last *peer
	for i := range s.peers {
		p := &s.peers[i]
		if s.fresh(now, p) && !p.beat.Leads && p.beat.Epoch != 0 && uint16(p.beat.Epoch) == p.beat.Number && p.beat.Epoch == s.highest &&
			(last == nil || p.since > last.since) {
			last = p
		}
	}
	return last
}

// driven reports whether some backend obeys a scheduler that is not this one, and has not lost it.
func (s *Scheduler) driven() bool {
	for i := range s.backends {
		if b := &s.backends[i]; b.told && b.obeys != 0 && !s.mine(b.obeys) && !b.lost {
			return true
		}
	}
	return false
}

// allLost reports whether some backend has lost the scheduler that it obeys, and none has one.
func (s *Scheduler) allLost() bool {
	some := false
	for i := range s.backends {
		b := &s.backends[i]
		switch {
		case !b.told || b.obeys == 0 || s.mine(b.obeys):
		case b.lost:
			some = true
		default:
			return false
		}
	}
	return some
}
