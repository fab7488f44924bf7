package tuner

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The mirror is one more shadow. Its setting is always the one in force, so it has the
// past of the real scheduler, which a shadow of one setting has not.
//
// That matters: with some loads the whole deferral has two states. Eight models like
// DenseNet121 on 16 GPUs, at 97 % of the peak, lose 0.3 % with batches of 8.5. After a
// moment of other settings, or of overload, all open early because all open early:
// batches of 6.5, 6 % lost, for ever. A shadow that never left the good state does not
// tell how to get back to it. But another setting may: under the paper's window (Frontrun)
// the good state is back within a second.
//
// So a setting in force is held to what its mirror loses. Where that is far more than
// its shadow does with the same arrivals (drift), it costs that much more, and another
// setting is chosen. Who came off so badly keeps the difference as a debt for a while,
// lest it be chosen again for what it would be if only it were in its other state.
//
// Rejected: shadows that begin anew from the scheduler's state, whose learning cannot be
// copied at a price that one can pay each second; what the scheduler really lost in place
// of the mirror, for late batches are no setting's fault, and pauses the shadows have, too.

const (
	// settle is what the mirror does not count after a change, in its own time: the
	// backlog of the setting before.
	settle = mono.Second
	// latelyMost is how many requests count as lately; then they count half.
	latelyMost = 50_000
	// driftSigmas and driftPart: by how much more the mirror must lose, in standard
	// deviations of what its shadow loses and as a part of it.
	driftSigmas, driftPart = 4, 0.25
	// driftWeight: those that are lost count in the bad rate of all, and in that of the
	// worst model.
	driftWeight = 2
	// debtHalf is about how long a debt takes to lose half of itself.
	debtHalf = 60 * mono.Second
)

// tried are the shadows of one setting each.
func (t *Tuner) tried() []*shadow { return t.shadows[:len(t.shadows)-1] }

// follow changes the mirror's setting.
func (s *shadow) follow(set batching.Setting) {
	s.setting = set
	s.sched.SetSetting(s.now, set, &s.out)
	s.apply()
}

// relook begins anew with what was lost lately.
func (t *Tuner) relook() {
	for _, s := range t.shadows {
		s.tally.fresh, s.lately = modelTally{}, modelTally{}
	}
}

// drift is what the setting in force costs more than its shadow, the twin, says.
func (t *Tuner) drift(now mono.Time, twin *shadow) float64 {
	decay := 1 - min(1, float64(now.Sub(t.looked))/float64(2*debtHalf))
	t.looked = now
	settled := t.mirror.now.Sub(t.since) > settle
	for _, s := range t.shadows {
		s.debt *= decay
		s.sees(decay)
		if settled {
			s.lately.served += s.tally.fresh.served
			s.lately.bad += s.tally.fresh.bad
		}
		s.tally.fresh = modelTally{}
	}
	m, w := t.mirror.lately, twin.lately
	if twin.rest.twin != nil && twin.setting.Cheap {
		w = twin.rest.twin.lately // windows that were learnt in the crowd take many seconds to open later
	}
	all := m.served + m.bad
	if all > latelyMost {
		for _, s := range t.shadows {
			s.lately.served, s.lately.bad = s.lately.served/2, s.lately.bad/2
		}
	}
	if more := m.bad - w.bad; more > driftPart*w.bad && more > driftSigmas*math.Sqrt(w.bad+driftSigmas) {
		return driftWeight * more / all
	}
	return 0
}
