package tuner

import "github.com/symphony-serving/symphony/transport/mono"

// rest is for shadows that would do what another one does, or nothing better; for each shadow that replays takes arrivals
// from all others. That other one, the twin, has the same setting but for one thing:
//
//   - Room for tight models (batching.Setting.Room) is of use while the twin's rank says that models are tight (rank.Tight).
//   - Cheap requests first (Cheap) are in an overload (cheap.go).
//
// Meanwhile the shadow rests: it replays nothing, and has what its twin has. When it wakes it replays, but goes on having that
// until its cores have learnt the load.
//
// Rejected: to try it now and then, since the twin's rank knows without. And to rest only where no GPU would be left: on the
// 64 GPUs of the A100 zoo four would be, but one becomes free every 0.4 ms, and the tightest model may wait for 10.
type rest struct {
	twin   *shadow   // nil: it never rests
	now    bool      // it replays nothing
	learnt bool      // it has replayed for long enough since it rested
	owes   bool      // of cheap requests first: all have to forget yet (cheap.go)
	woken  mono.Time // when it began to replay again
	need   mono.Time // when it was of use last
}

// restAfter is how long a shadow goes on that is of no use any more: a load at the edge of it must not wake
// it again and again. In shadow time.
const restAfter = 10 * mono.Second

// pair finds the twins. Who has one rests at first.
func (t *Tuner) pair() {
	for _, s := range t.tried() {
		bare := s.setting
		if bare.Room, bare.Cheap = false, false; bare == s.setting {
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
	return s.rest.twin != nil && (s.rest.now || !s.rest.learnt)
}

// wake looks, between two passes, who replays the next one. The setting in force always does.
func (t *Tuner) wake() {
	for _, s := range t.tried() {
		r := &s.rest
		force := s.setting == t.choice.Setting
		switch {
		case r.twin == nil:
			continue
		case t.useful(s, force):
			if r.need = s.now; r.now {
				r.now, r.learnt, r.woken = false, false, s.now
			}
		case !force && s.now.Sub(r.need) > restAfter:
			r.now = true
		}
		learnt := !r.now && s.now.Sub(r.woken) >= t.learnTime(s)
		if s.setting.Cheap {
			t.wakeCheap(s, force, learnt && !r.learnt)
		}
		r.learnt = learnt
	}
}

// useful tells whether a shadow may do better than its twin; force: its setting is in force.
func (t *Tuner) useful(s *shadow, force bool) bool {
	twin := s.rest.twin
	if s.setting.Cheap {
		return t.crowds(s, force)
	}
	return force || twin.sched.Tight(twin.now) || !s.rest.now && s.sched.Tight(s.now)
}

// learnTime is how long a shadow replays before it counts, in shadow time.
func (t *Tuner) learnTime(s *shadow) mono.Dur {
	if s.setting.Cheap {
		return min(settle, learnBudgets*t.longest) // queues are as long then as they can become
	}
	return settle
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
