package tuner

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// alarm notices that the real scheduler loses far more than its shadow did: on average, and in the pass in
// which it lost most, for what a shadow loses in a burst is no surprise in the next one. Where passes are
// fast they tell that themselves, and better. Where there is no time to replay more than a small part of
// what arrives, an overload would be seconds old before they do; meanwhile the whole
// deferral, with its drop policy, is what carries most. It does not ring while cheap requests go first: the overload is known then, and what waited of dear models when
// they began to go is lost at once.
type alarm struct {
	served, dropped float64 // decayed
	looked, last    mono.Time
	until           mono.Time // nothing else is chosen before
	hold            mono.Dur
}

const (
	// alarmSpan is how long counts matter, and how old the last pass must be.
	alarmSpan = mono.Second / 4
	// alarmLeast is how many requests tell enough.
	alarmLeast = 200
	// alarmBad more of the requests are lost than alarmTimes what was expected.
	alarmBad, alarmTimes = 0.02, 2
	// peakMost of a shadow's loss in one pass counts: an overload is always an alarm.
	peakMost = 0.15
	// The whole deferral stays for alarmHold, and twice as long each time that the alarm rings
	// again soon: shadows that see too little of the load must not turn it back and forth.
	alarmHold, alarmHoldMost = mono.Second, 16 * mono.Second
)

func (a *alarm) add(served, dropped int) {
	a.served += float64(served)
	a.dropped += float64(dropped)
}

// sees takes a pass into the shadow's peak; decay is for the time since the last one.
func (s *shadow) sees(decay float64) {
	s.peak *= decay
	if all := s.tally.fresh.served + s.tally.fresh.bad; all >= alarmLeast {
		s.peak = min(peakMost, max(s.peak, s.tally.fresh.bad/all))
	}
}

// passed: the shadows have seen the present load.
func (a *alarm) passed(now mono.Time) { a.last = now }

// rings decays the counts, too: once for each look.
func (a *alarm) rings(now mono.Time, expected float64) bool {
	all := a.served + a.dropped
	bad := all >= alarmLeast && now.Sub(a.last) >= alarmSpan && a.dropped > float64((alarmBad+float64(alarmTimes*expected))*all)
	keep := 1 - min(1, float64(now.Sub(a.looked))/float64(alarmSpan))
	a.served, a.dropped, a.looked = a.served*keep, a.dropped*keep, now
	return bad && !a.holds(now)
}

// ring begins the time in which nothing else is chosen.
func (a *alarm) ring(now mono.Time) {
	if a.hold == 0 || now.Sub(a.until) > alarmHoldMost {
		a.hold = alarmHold
	} else {
		a.hold = min(2*a.hold, alarmHoldMost)
	}
	a.until = now.Add(a.hold)
}

func (a *alarm) holds(now mono.Time) bool { return now < a.until }

// Lost tells whether a request that was dropped for a reason says something of the setting.
func Lost(r wire.Reason) bool { return r == wire.ReasonDeadline || r == wire.ReasonShed }
