package tuner

// The shadow of cheap requests first (batching.Setting.Cheap) is of use in an overload: while GPUs are crowded, and more is lost than SLOs
// allow, both by its twin, the whole deferral, and by the setting in force.
//
// What it had from its twin would hide for long what it does itself. So when it has learnt the load all forget most of what they saw; where so much
// is lost little is needed. But not in what may be a burst: then when that is over. (Also where
// there is no overload any more by then. To leave that out is as good, by 158 mixes at their goodput and 98 at 1.5 times of it.)
//
// While it is in force nobody knows by its own losses when the overload is over, since the models that it loses are few requests
// of all. By the deferral's shadow that shows: it has no crowded GPUs any more. Then all forget what the overload has cost them.

const (
	// crowdedBad is the share of all requests that must be lost: three times what SLOs allow.
	crowdedBad = 0.03
	// crowdedSeen is the part of what is remembered lately that it takes to tell.
	crowdedSeen = 1.0 / 16
)

// crowds tells whether there is an overload, for the shadow of cheap requests.
func (t *Tuner) crowds(s *shadow, force bool) bool {
	twin := s.rest.twin
	if force {
		return twin.sched.Crowded(twin.now)
	}
	return t.crowded(twin) && t.crowded(t.mirror)
}

// crowded tells whether a shadow loses more than SLOs allow, has seen enough to tell, and has crowded GPUs just now.
func (t *Tuner) crowded(s *shadow) bool {
	bad, _ := s.tally.badRates()
	return bad > crowdedBad && s.tally.requests() > crowdedSeen*t.memory() && s.sched.Crowded(s.now)
}

// wakeCheap has all forget when the shadow of cheap requests begins to have what it does itself, and when the overload is over.
func (t *Tuner) wakeCheap(s *shadow, force, begins bool) {
	r := &s.rest
	if begins {
		s.debt = 0 // its twin's, for what that one would be if only it were in its other state
		r.owes = true
	}
	if r.owes && t.load.left == 0 && !t.burst.aside {
		r.owes = false
		t.recall(fadeOther)
	}
	if force && s.now.Sub(r.need) > settle {
		r.need = s.now
		t.recall(t.otherPart())
	}
}
