package tuner

import "github.com/symphony-serving/symphony/transport/mono"

// rest is for shadows that would do what another one does. A setting with room for tight models (batching.Setting.Room)
// is the same setting without where there are none, and no use where GPUs become free often enough; but each
// shadow that replays takes arrivals from all others. So while the rank of that other shadow, the twin, does not say
// that models are tight (rank.Tight), the one with room rests: it replays nothing, and has what its twin has. When it
// wakes it replays, but goes on having that until its cores have learnt the load.
//
// Rejected: to try it now and then, since the twin's rank knows without. And to rest only where no GPU would be left: on the
// 64 GPUs of the A100 zoo four would be, but one becomes free every 0.4 ms, and the tightest model may wait for 10.
type rest struct {
	twin  *shadow   // the same setting without room; nil: it never rests
	now   bool      // it replays nothing
	woken mono.Time // when it began to replay again
	need  mono.Time // when room would have been left last
}

// restAfter is how long a shadow goes on that is not needed any more: a load at the edge of it must not wake
// it again and again. In shadow time.
const restAfter = 10 * mono.Second

// pair finds the twins. They rest until room would be left.
func (t *Tuner) pair() {
	for _, s := range t.tried() {
		bare := s.setting
		if bare.Room = false; bare == s.setting {
			continue
		}
		for _, other := range t.tried() {
			if other.setting == bare {
				s.rest.twin, s.rest.now = other, true
			}
		}
	}
}

// learning tells whether the shadow has what its twin has, and is not chosen.
func (s *shadow) learning() bool {
	return s.rest.twin != nil && (s.rest.now || s.now.Sub(s.rest.woken) < settle)
}

// wake looks, between two passes, who replays the next one. The setting in force always does.
func (t *Tuner) wake() {
	for _, s := range t.tried() {
		r := &s.rest
		switch {
		case r.twin == nil:
		case s.setting == t.choice.Setting || r.twin.sched.Tight(r.twin.now) || !r.now && s.sched.Tight(s.now):
			if r.need = s.now; r.now {
				r.now, r.woken = false, s.now
			}
		case s.now.Sub(r.need) > restAfter:
			r.now = true
		}
	}
}

// awake is how many shadows replay.
func (t *Tuner) awake() (n int) {
	for _, s := range t.shadows {
		if !s.rest.now {
			n++
		}
	}
	return n
}

// match gives those who learn, at the end of a pass, what their twins have.
func (t *Tuner) match() {
	for _, s := range t.tried() {
		if !s.learning() {
			continue
		}
		twin := s.rest.twin
		s.advance(twin.now) // what waited when it went to rest
		s.now, s.stands = max(s.now, twin.now), twin.stands
		s.tally.copy(&twin.tally)
		s.lately, s.peak, s.debt, s.used = twin.lately, twin.peak, twin.debt, twin.used
		s.since, s.busy = s.now, 0
	}
}
