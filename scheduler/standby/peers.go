package standby

import (
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// peer is a process of the group. It stays known without a link while it was the last that led.
type peer struct {
	life      uint64
	links     []Link    // ascending; beats go to the last
	heard     bool      // beat and at count
	beat      wire.Beat // the last
	at        mono.Time
	lateness  mono.Dur  // of beats lately: the largest, older ones counting for less
	since     mono.Time // beat has had this reign, and led or not, since then
	suspected bool      // since beat
	gone      bool      // the process has ended
	goneAt    mono.Time
}

// place is an address of the group, as its dials went.
type place struct {
	life  uint64 // of the process that was met there last; 0: none yet
	state placeState
}

type placeState uint8

const (
	unknown placeState = iota
	met                // a link of ours led there last; it may have ended
	refused            // nobody listens there
	ourselves
)

// Accepted is the place of a link that the peer dialled.
const Accepted = -1

// PeerUp says that a link to another scheduler of the group is up: dialled to the address of that
// index, or Accepted. Both at once are usual. A link to this process itself is not one: PlaceSelf.
func (s *Scheduler) PeerUp(now mono.Time, place int, link Link, life uint64, out *Effects) {
	s.enter(now)
	if place >= 0 && place < len(s.places) {
		if before := s.places[place].life; before != life {
			s.end(now, before)
		}
		s.places[place].life, s.places[place].state = life, met
	}
	p := s.byLife(life)
	if p == nil && len(s.peers) < peersMax {
		s.peers = append(s.peers, peer{life: life})
		p = &s.peers[len(s.peers)-1]
	}
	if p != nil && !slices.Contains(p.links, link) {
		p.gone = false
		p.links = append(p.links, link)
		slices.Sort(p.links)
		s.send(p, out)
	}
	s.leave(now, out)
}

// PeerDown says that a link to another scheduler has ended.
func (s *Scheduler) PeerDown(now mono.Time, link Link, out *Effects) {
	s.enter(now)
	for i := range s.peers {
		if p := &s.peers[i]; slices.Contains(p.links, link) {
			p.links = slices.DeleteFunc(p.links, func(l Link) bool { return l == link })
			s.checkGone(now, p)
			break
		}
	}
	s.leave(now, out)
}

// PlaceRefused says that nobody listens at an address: the dial was refused by its host, not
// merely without an answer.
func (s *Scheduler) PlaceRefused(now mono.Time, place int, out *Effects) {
	s.enter(now)
	if place >= 0 && place < len(s.places) && s.places[place].state != ourselves {
		s.places[place].state = refused
		if p := s.byLife(s.places[place].life); p != nil {
			s.checkGone(now, p)
		}
	}
	s.leave(now, out)
}

// PlaceSelf says that an address is this process's own.
func (s *Scheduler) PlaceSelf(now mono.Time, place int, out *Effects) {
	s.enter(now)
	if place >= 0 && place < len(s.places) {
		s.places[place].state = ourselves
	}
	s.leave(now, out)
}

// Beat takes a heartbeat that came on a link.
func (s *Scheduler) Beat(now mono.Time, link Link, m wire.Beat, out *Effects) {
	s.enter(now)
	i := slices.IndexFunc(s.peers, func(p peer) bool { return slices.Contains(p.links, link) })
	// A life's reigns rise: one with a lower reign was overtaken by a later one on another link.
	if i >= 0 && (!s.peers[i].heard || m.Epoch >= s.peers[i].beat.Epoch) && m.Epoch < reignMax {
		p := &s.peers[i]
		if !p.heard || p.beat.Leads != m.Leads || p.beat.Epoch != m.Epoch {
			p.since = now
		}
		if !p.heard && m.Number == s.cfg.Number {
			out.note(fmt.Sprintf("another scheduler of the group has the number %d, too: give both the same list of addresses", m.Number))
		}
		if p.heard {
			p.lateness -= p.lateness / latenessMemory
			p.lateness = max(p.lateness, min(now.Sub(p.at)-p.every(), latenessMost))
		}
		if p.beat.Leads && !m.Leads && !p.suspected && s.role == Spare { // it fell
			s.vacant, s.patience = now, unheardMin
		}
		p.heard, p.beat, p.at, p.suspected, p.gone = true, m, now, false, false
		s.hear(m.Epoch)
		s.heardBeat(now, p, out)
	}
	s.leave(now, out)
}

// heardBeat acts on a peer's beat.
func (s *Scheduler) heardBeat(now mono.Time, p *peer, out *Effects) {
	m := p.beat
	if !m.Leads {
		return
	}
	why := func() string { return fmt.Sprintf("scheduler %d leads with reign %d", m.Number, m.Epoch) }
	switch s.role {
	case Spare:
		s.vacant, s.unheard, s.looks = now, 0, 0
		if m.Yields && s.leading() == p { // others may have claimed a higher reign, and not led anything
			s.claim(now, true, fmt.Sprintf("scheduler %d yields", m.Number), out)
		}
	case Candidate:
		// One that we suspected wrongly: if backends answer us it is overtaken, as they are asked.
		if m.Epoch >= s.reign || m.Backends > 0 && s.strength() == 0 && now.Sub(s.claimed) > candidateWait {
			s.fall(now, true, why(), out)
		}
	case Leader:
		// Of two reigns the one that has GPUs at all counts, then the higher. Two of one reign
		// cannot be; were they, both would end.
		ours, theirs := s.strength() > 0, m.Backends > 0
		if theirs && !ours || theirs == ours && m.Epoch >= s.reign {
			s.fall(now, true, why(), out)
		}
	}
}

func (s *Scheduler) byLife(life uint64) *peer {
	for i := range s.peers {
		if s.peers[i].life == life {
			return &s.peers[i]
		}
	}
	return nil
}

// end says that a process was replaced by another at its address.
func (s *Scheduler) end(now mono.Time, life uint64) {
	if p := s.byLife(life); p != nil && !p.gone {
		p.gone, p.goneAt = true, now
	}
}

// checkGone: a process whose links have ended and whose address refuses is no more.
func (s *Scheduler) checkGone(now mono.Time, p *peer) {
	if len(p.links) == 0 && slices.ContainsFunc(s.places, func(x place) bool { return x.life == p.life && x.state == refused }) {
		s.end(now, p.life)
	}
}

// prune forgets processes without a link, but for the one that led last.
func (s *Scheduler) prune(mono.Time) {
	if slices.ContainsFunc(s.peers, func(p peer) bool { return len(p.links) == 0 }) {
		leader := uint64(0)
		if l := s.leading(); l != nil {
			leader = l.life
		}
		s.peers = slices.DeleteFunc(s.peers, func(p peer) bool { return len(p.links) == 0 && p.life != leader })
	}
}

// linked reports whether any peer is.
func (s *Scheduler) linked() bool {
	return slices.ContainsFunc(s.peers, func(p peer) bool { return len(p.links) > 0 })
}

// silence is how long a peer's beats may stay out.
func (s *Scheduler) silence(p *peer) mono.Dur {
	return max(silenceBeats*p.every(), latenessTimes*p.lateness, s.cfg.Silence)
}

// every is the span until its next beat, as it said.
func (p *peer) every() mono.Dur { return min(max(p.beat.Every, 0), everyMax) }

// fresh reports whether a peer is there and was heard lately.
func (s *Scheduler) fresh(now mono.Time, p *peer) bool {
	return p.heard && !p.gone && len(p.links) > 0 && now.Sub(p.at) <= s.silence(p)
}

// leading is the peer that is taken for the leader; nil: none.
func (s *Scheduler) leading() *peer {
	var best *peer
	for i := range s.peers {
		p := &s.peers[i]
		if !p.heard || !p.beat.Leads || p.suspected {
			continue
		}
		if best == nil || before(&p.beat, &best.beat) {
			best = p
		}
	}
	return best
}

// before is the order of leaders: who has GPUs, then the higher reign.
func before(a, b *wire.Beat) bool {
	if (a.Backends > 0) != (b.Backends > 0) {
		return a.Backends > 0
	}
	return a.Epoch > b.Epoch
}

// allHeard reports whether every member of the group is accounted for, and none leads: nobody
// listens there, or it says itself that it does not. Without that there may be a leader beyond a cut.
func (s *Scheduler) allHeard(now mono.Time) bool {
	for i := range s.places {
		switch x := &s.places[i]; x.state {
		case ourselves, refused:
		case unknown:
			return false
		case met:
			if p := s.byLife(x.life); p == nil || !s.fresh(now, p) || p.beat.Leads {
				return false
			}
		}
	}
	for i := range s.peers { // those that dialled us
		if p := &s.peers[i]; p.heard && p.beat.Leads && !p.suspected {
			return false
		}
	}
	return true
}

// beats sends a heartbeat to all peers, and says when the next one is.
func (s *Scheduler) beats(now mono.Time, out *Effects) {
	s.every = s.cfg.Beat
	if s.role == Spare || now >= s.busy && s.role == Leader {
		s.every *= idleBeats
	}
	s.beat = now.Add(s.every)
	for i := range s.peers {
		s.send(&s.peers[i], out)
	}
}

// send sends one to a peer, over its latest link.
func (s *Scheduler) send(p *peer, out *Effects) {
	if len(p.links) == 0 {
		return
	}
	m := wire.Beat{Epoch: s.highest, Number: s.cfg.Number, Every: s.every, Backends: uint16(min(len(s.backends), math.MaxUint16))}
	if s.role != Spare {
		m.Epoch = s.reign
	}
	if s.role == Leader {
		m.Leads, m.Yields = true, s.yieldTo == p.life
		m.Backends = uint16(min(s.strength(), math.MaxUint16))
	}
	out.add(Effect{Kind: SendBeat, Link: p.links[len(p.links)-1], Beat: m})
}
