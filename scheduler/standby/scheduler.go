package standby

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Errors of Promote and StepDown.
var (
	ErrLeads   = errors.New("this scheduler leads already, or is about to")
	ErrNotLead = errors.New("this scheduler does not lead: ask the one that does")
	ErrNobody  = errors.New("no other scheduler of the group is there that has a backend: this one goes on")
	ErrAlone   = errors.New("no backend is linked with this scheduler: it would lead nothing")
)

// Role is what a scheduler is in its group.
type Role uint8

const (
	Spare     Role = iota // may not drive any GPU
	Candidate             // has asked backends for their promises
	Leader
)

func (r Role) String() string { return [...]string{"spare", "candidate", "leader"}[r] }

// Scheduler is a scheduler's side of the protocol.
type Scheduler struct {
	cfg Config // Immutable.

	role    Role
	reign   wire.Epoch // claimed last: of a candidate and a leader its own; 0: none yet
	highest wire.Epoch // heard of

	peers    []peer
	places   []place
	backends []backend // by link, ascending

	// When this process was there.
	wake   mono.Time // NextWake
	steady mono.Time // suspects nobody before
	late   int       // times in a row
	looked mono.Time // at a leader's silence, last
	looks  int

	// Of a spare.
	vacant   mono.Time // the last that is known of a leader
	patience mono.Dur  // how long one is believed in that is not heard
	unheard  int       // times in a row that one was there

	// Of a candidate.
	claimed mono.Time
	keep    bool      // planned
	first   mono.Time // promise

	// Of a leader.
	yieldTo    uint64 // life of its successor; 0: it stays
	yieldUntil mono.Time
	few        mono.Time // since when a spare has far more backends

	// Heartbeats.
	busy  mono.Time // until then they are frequent
	every mono.Dur  // as was said last
	beat  mono.Time // the next
}

// backend is a link to one.
type backend struct {
	link     Link
	life     uint64
	told     bool       // it has said whom it obeys
	obeys    wire.Epoch // as it said last
	lost     bool
	asked    bool // for the reign that is claimed
	promised bool // that
}

// New is a scheduler that starts. The first wake-up is due at once.
func New(cfg Config, now mono.Time) *Scheduler {
	cfg.fill()
	patience := startWait
	if cfg.Unheard > 0 {
		patience = max(patience, unheardWait(cfg.Unheard-1))
	}
	return &Scheduler{cfg: cfg, places: make([]place, cfg.Places), wake: now, vacant: now, patience: patience, unheard: cfg.Unheard,
		highest: cfg.Heard, steady: now, first: mono.Never, few: mono.Never, every: cfg.Beat, beat: now}
}

// Role is what it is now.
func (s *Scheduler) Role() Role { return s.role }

// Reign is its own while it leads or is a candidate, else 0.
func (s *Scheduler) Reign() wire.Epoch {
	if s.role == Spare {
		return 0
	}
	return s.reign
}

// Lead is what a frontend that is admitted now has to know.
func (s *Scheduler) Lead() wire.Lead {
	if s.role == Leader {
		return wire.Lead{Epoch: s.reign, Leads: true}
	}
	return wire.Lead{Epoch: s.highest}
}

// Leader is the number of the scheduler that this one takes for the leader; false: it knows none.
func (s *Scheduler) Leader() (number uint16, ok bool) {
	if s.role == Leader {
		return s.cfg.Number, true
	}
	if p := s.leading(); p != nil {
		return p.beat.Number, true
	}
	return 0, false
}

// LeaderPlace is the address, by its index, of another one that this one takes for the leader; false: it knows none.
func (s *Scheduler) LeaderPlace() (at int, ok bool) {
	p := s.leading()
	if s.role != Spare || p == nil {
		return 0, false
	}
	at = slices.IndexFunc(s.places, func(x place) bool { return x.state == met && x.life == p.life })
	return at, at >= 0
}

// NextWake is when Tick is due. It changes with every call of the others.
func (s *Scheduler) NextWake() mono.Time { return s.wake }

// Tick does what is due.
func (s *Scheduler) Tick(now mono.Time, out *Effects) {
	s.enter(now)
	s.leave(now, out)
}

// Busy says that requests come: heartbeats are frequent for a second.
func (s *Scheduler) Busy(now mono.Time, out *Effects) {
	s.busy = now.Add(busyFor)
	if s.role == Leader && s.every > s.cfg.Beat {
		s.beat = now
		s.enter(now)
		s.leave(now, out)
	}
}

// Promote makes a spare take over, as planned: what waits at backends is run.
func (s *Scheduler) Promote(now mono.Time, out *Effects) error {
	s.enter(now)
	defer s.leave(now, out)
	if s.role != Spare {
		return ErrLeads
	}
	if len(s.backends) == 0 && !s.allHeard(now) {
		return ErrAlone
	}
	s.claim(now, true, "promoted", out)
	return nil
}

// StepDown makes the leader ask another one to take over. It leads on until that has happened; if
// it does not within a second, a note says so.
func (s *Scheduler) StepDown(now mono.Time, out *Effects) error {
	s.enter(now)
	defer s.leave(now, out)
	if s.role != Leader {
		return ErrNotLead
	}
	p := s.successor(now)
	if p == nil || p.beat.Backends == 0 {
		return ErrNobody
	}
	s.yield(now, p, "asked to step down", out)
	return nil
}

// enter notices that this process stood still: what was sent to it meanwhile is not read yet.
func (s *Scheduler) enter(now mono.Time) {
	stood := now.Sub(s.wake)
	if s.wake == mono.Never || stood <= lateMin {
		if s.wake != mono.Never && stood >= 0 {
			s.late = 0
		}
		return
	}
	if s.late < lateTimes {
		s.looks = 0
		s.late++
		s.steady = max(s.steady, now.Add(min(stood, lateMax)))
	}
}

// leave does what is due after an event, and says when the next is.
func (s *Scheduler) leave(now mono.Time, out *Effects) {
	s.prune(now)
	switch s.role {
	case Spare:
		s.consider(now, out)
	case Candidate:
		s.progress(now, out)
	}
	if s.role == Leader {
		s.govern(now, out)
	}
	if now >= s.beat {
		s.beats(now, out)
	}
	s.plan(now)
}

// plan computes NextWake.
func (s *Scheduler) plan(now mono.Time) {
	s.wake = mono.Never
	if s.linked() {
		s.wake = s.beat
	}
	switch s.role {
	case Spare:
		if at, _ := s.due(now); at != mono.Never {
			if at = max(at, s.steady); s.looks > 0 {
				at = max(at, s.looked.Add(doubtWait))
			}
			s.wake = min(s.wake, at)
		}
	case Candidate:
		if s.first != mono.Never {
			s.wake = min(s.wake, s.first.Add(graceWait))
		}
	case Leader:
		if s.yieldTo != 0 {
			s.wake = min(s.wake, s.yieldUntil)
		}
	}
	s.wake = max(s.wake, now)
}

// hear takes note of a reign.
func (s *Scheduler) hear(reign wire.Epoch) {
	if reign < reignMax {
		s.highest = max(s.highest, reign)
	}
}

// next is a reign above all that were heard of, and unlike any other member's. Where the wall
// clock is behind these it goes up by a step of the process's own: a member that starts again with
// its clock set back, and hears what its forerunner heard, would come to the same reign.
func (s *Scheduler) next(now mono.Time) wire.Epoch {
	least := s.highest + wire.Epoch(1+s.cfg.Life*0x9e3779b97f4a7c15>>40)<<16
	return max(wire.Epoch(s.cfg.Wall+uint64(now)), least)&^0xffff | wire.Epoch(s.cfg.Number)
}

// mine reports whether a reign can only be one that this scheduler had.
func (s *Scheduler) mine(reign wire.Epoch) bool {
	return reign <= s.reign && uint16(reign) == s.cfg.Number
}

// claim begins a reign: all backends are asked to promise it.
func (s *Scheduler) claim(now mono.Time, keep bool, why string, out *Effects) {
	for i := range s.peers {
		s.peers[i].suspected = s.peers[i].beat.Leads
	}
	s.reign = s.next(now)
	s.highest = s.reign
	s.role, s.claimed, s.keep, s.first = Candidate, now, keep, mono.Never
	out.note(fmt.Sprintf("claims reign %d (%d backends): %s", s.reign, len(s.backends), why))
	for i := range s.backends {
		b := &s.backends[i]
		b.asked, b.promised = false, false
		if b.told {
			s.ask(b, out)
		}
	}
	s.beats(now, out) // so that others leave it to this one
	s.progress(now, out)
}

func (s *Scheduler) ask(b *backend, out *Effects) {
	b.asked = true
	out.add(Effect{Kind: Ask, Link: b.link, Promise: wire.Promise{Epoch: s.reign, Keep: s.keep}})
}

// progress makes a candidate lead: when all that it asked have promised, or a little after the
// first; or where there is no backend and nobody who would have one.
func (s *Scheduler) progress(now mono.Time, out *Effects) {
	if len(s.backends) == 0 {
		if s.allHeard(now) {
			s.lead(now, out)
		}
		return
	}
	promised, missing := 0, 0
	for i := range s.backends {
		if b := &s.backends[i]; b.promised {
			promised++
		} else if b.asked {
			missing++
		}
	}
	if promised > 0 && (missing == 0 || now >= s.first.Add(graceWait)) {
		s.lead(now, out)
	}
}

// lead begins to drive the GPUs of those that have promised.
func (s *Scheduler) lead(now mono.Time, out *Effects) {
	s.role, s.first, s.few, s.yieldTo, s.keep = Leader, mono.Never, mono.Never, 0, false
	s.busy = now.Add(busyFor)
	out.add(Effect{Kind: Lead, Reign: s.reign})
	for i := range s.backends {
		switch b := &s.backends[i]; {
		case b.promised:
			out.add(Effect{Kind: Use, Link: b.link, Reign: s.reign})
		case b.told && !b.asked: // by a late promise: it may not have been asked, or its answer not heard
			s.ask(b, out)
		}
	}
	out.note(fmt.Sprintf("leads with reign %d, %d of %d backends have promised", s.reign, s.strength(), len(s.backends)))
	s.beats(now, out)
}

// Unheard is how often in a row it was overtaken by a reign that it did not hear: whoever begins anew after
// a reign hands it on (Config), or it would take the backends from a leader beyond a cut again and again.
func (s *Scheduler) Unheard() int { return s.unheard }

// Heard is the highest reign that it has heard of: whoever begins anew hands it on (Config). Where the wall
// clock is behind it, the next reign would be below what backends have promised, and they would end it again and again.
func (s *Scheduler) Heard() wire.Epoch { return s.highest }

// unheardWait is how long one is believed in that is not heard, after so many.
func unheardWait(before int) mono.Dur { return min(unheardMin<<min(before, 8), unheardMax) }

// fall makes a candidate or a leader a spare. heard: of one that leads in its stead.
func (s *Scheduler) fall(now mono.Time, heard bool, why string, out *Effects) {
	was := s.role
	if now.Sub(s.claimed) > steadyReign {
		s.unheard = 0
	}
	s.role, s.vacant, s.first, s.yieldTo = Spare, now, mono.Never, 0
	if !heard {
		s.patience = unheardWait(s.unheard)
		s.unheard++
	}
	for i := range s.backends {
		s.backends[i].asked, s.backends[i].promised = false, false
	}
	if was == Leader {
		out.add(Effect{Kind: Yield, Reign: s.reign})
	}
	out.note(fmt.Sprintf("is a spare, no %s of reign %d any more: %s", was, s.reign, why))
	s.beats(now, out)
}

// BackendUp says that a backend is linked: admitted by this scheduler. Any earlier link of its
// process is over.
func (s *Scheduler) BackendUp(now mono.Time, link Link, life uint64, out *Effects) {
	s.enter(now)
	if i := slices.IndexFunc(s.backends, func(b backend) bool { return b.life == life }); i >= 0 {
		if s.backends[i].link >= link {
			s.leave(now, out)
			return
		}
		s.backends = slices.Delete(s.backends, i, i+1)
	}
	s.backends = append(s.backends, backend{link: link, life: life})
	s.leave(now, out)
}

// BackendDown says that a link has ended.
func (s *Scheduler) BackendDown(now mono.Time, link Link, out *Effects) {
	s.enter(now)
	s.backends = slices.DeleteFunc(s.backends, func(b backend) bool { return b.link == link })
	s.leave(now, out)
}

// Promised takes what a backend says of whom it obeys.
func (s *Scheduler) Promised(now mono.Time, link Link, m wire.Promised, out *Effects) {
	s.enter(now)
	if i := slices.IndexFunc(s.backends, func(b backend) bool { return b.link == link }); i >= 0 {
		b := &s.backends[i]
		s.hear(m.Highest)
		b.told, b.obeys, b.lost = true, m.Highest, m.Lost
		s.answered(now, b, m, out)
	}
	s.leave(now, out)
}

// answered acts on it. Only an answer that names the reign which is claimed now is one to it.
func (s *Scheduler) answered(now mono.Time, b *backend, m wire.Promised, out *Effects) {
	yes := m.Epoch == s.reign && m.Highest == s.reign && s.reign != 0
	switch {
	case s.role == Spare && yes && s.highest == s.reign: // late, and nobody came since
		b.asked, b.promised = true, true
		s.lead(now, out)
	case s.role == Spare:
	case yes && !b.promised:
		b.promised = true
		switch {
		case s.role == Leader:
			out.add(Effect{Kind: Use, Link: b.link, Reign: s.reign})
		case s.first == mono.Never:
			s.first = now
		}
	case yes:
	case m.Highest > s.reign:
		s.fall(now, false, fmt.Sprintf("a backend has promised reign %d", m.Highest), out)
	case b.asked: // news of before it got our question
	case s.idleClaim() && m.Highest != 0 && !m.Lost && !s.mine(m.Highest) && !s.allHeard(now):
		s.fall(now, false, fmt.Sprintf("a backend obeys reign %d, and this one has nothing", m.Highest), out)
	default:
		s.ask(b, out)
	}
}

// idleClaim reports whether a reign is one in name only: no backend has promised it or been asked.
func (s *Scheduler) idleClaim() bool {
	return !slices.ContainsFunc(s.backends, func(b backend) bool { return b.asked })
}

// strength is how many backends have promised the reign.
func (s *Scheduler) strength() (n int) {
	for i := range s.backends {
		if s.backends[i].promised {
			n++
		}
	}
	return n
}
