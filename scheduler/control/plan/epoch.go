package plan

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Why a plan is made.
type Why uint8

const (
	// No: none is to be made now.
	No Why = iota
	// First: there is none.
	First
	// Catalogue: models have come, gone or changed.
	Catalogue
	// GPUs: some have come or gone.
	GPUs
	// Short: a sub-cluster needs more GPUs than it has.
	Short
	// Drift: needs are far from those of the last plan.
	Drift
	// Regular: a while has passed.
	Regular
)

func (w Why) String() string {
	names := [...]string{"no", "first", "catalogue", "gpus", "short", "drift", "regular"}
	if int(w) < len(names) {
		return names[w]
	}
	return "unknown"
}

// EpochConfig says when plans are made. The zero EpochConfig has the defaults.
type EpochConfig struct {
	Every mono.Dur // between plans if nothing else calls for one; 0 means 5 min
	Rest  mono.Dur // between any two plans, at least; 0 means 30 s
	Quiet mono.Dur // the catalogue and the GPUs must not have changed for so long; 0 means 2 s
	Wait  mono.Dur // but no longer than this; 0 means 20 s
	Hold  mono.Dur // needs must have moved for so long; 0 means 20 s
	Drift float64  // share of its GPUs by which a sub-cluster's need must have moved; 0 means 0.25
	Gain  float64  // share of the GPUs in use that a plan must save to be rolled out only for that; 0 means 0.01
}

func (c *EpochConfig) fill() {
	for _, d := range []struct {
		v   *mono.Dur
		def mono.Dur
	}{{&c.Every, 300 * mono.Second}, {&c.Rest, 30 * mono.Second}, {&c.Quiet, 2 * mono.Second}, {&c.Wait, 20 * mono.Second}, {&c.Hold, 20 * mono.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.Drift <= 0 {
		c.Drift = 0.25
	}
	if c.Gain <= 0 {
		c.Gain = 0.01
	}
}

// Signals are what the decision goes by.
type Signals struct {
	Catalogue uint64 // a number that rises with each change of the models' desired state
	GPUs      uint64 // likewise with each GPU that comes, goes, or changes its service
	Needs     []NeedOf
}

// NeedOf is a sub-cluster's need now, beside that of the plan.
type NeedOf struct {
	SubCluster    string
	GPUs          int     // that serve
	Need, Planned float64 // GPUs, bursts included: now; when the plan was made
}

// Epochs decides when to make a plan, and whether one is worth rolling out.
type Epochs struct {
	cfg     EpochConfig
	planned bool
	last    mono.Time // plan
	seen    Signals   // by the last plan
	now     Signals   // last handed in
	changed mono.Time // when the catalogue or the GPUs last changed
	since   mono.Time // when they first changed after the last plan; Never
	short   mono.Time // since when a sub-cluster is short; Never
	drifted mono.Time // since when needs have drifted; Never
}

// NewEpochs fills in the defaults. No plan has been made.
func NewEpochs(cfg EpochConfig) *Epochs {
	cfg.fill()
	return &Epochs{cfg: cfg, changed: mono.Past, since: mono.Never, short: mono.Never, drifted: mono.Never}
}

// Decide tells whether a plan is to be made now. Call it every second or so.
func (e *Epochs) Decide(now mono.Time, s Signals) Why {
	if s.Catalogue != e.now.Catalogue || s.GPUs != e.now.GPUs {
		e.changed = now
	}
	e.now = s
	switch changed := s.Catalogue != e.seen.Catalogue || s.GPUs != e.seen.GPUs; {
	case !changed:
		e.since = mono.Never
	case e.since == mono.Never:
		e.since = now
	}
	short, drift := e.moved(s.Needs)
	since(&e.short, now, short)
	since(&e.drifted, now, drift)
	settled := now.Sub(e.changed) >= e.cfg.Quiet || e.since != mono.Never && now.Sub(e.since) >= e.cfg.Wait
	switch {
	case !e.planned:
		if settled {
			return First
		}
	case s.Catalogue != e.seen.Catalogue: // a user waits: it does not rest
		if settled {
			return Catalogue
		}
	case now.Sub(e.last) < e.cfg.Rest:
	case s.GPUs != e.seen.GPUs:
		if settled {
			return GPUs
		}
	case held(e.short, now, e.cfg.Hold):
		return Short
	case held(e.drifted, now, e.cfg.Hold):
		return Drift
	case now.Sub(e.last) >= e.cfg.Every:
		return Regular
	}
	return No
}

// moved tells whether a sub-cluster lacks GPUs, and whether one's need is no more what it was
// when its GPUs were dealt: by the share Drift of them, and by one whole GPU at least.
func (e *Epochs) moved(needs []NeedOf) (short, drift bool) {
	for i := range needs {
		n := &needs[i]
		short = short || n.Need > float64(n.GPUs)
		drift = drift || math.Abs(n.Need-n.Planned) > max(1, float64(e.cfg.Drift*float64(n.GPUs)))
	}
	return short, drift
}

// since keeps when something began to be so.
func since(at *mono.Time, now mono.Time, so bool) {
	if !so {
		*at = mono.Never
	} else if *at == mono.Never {
		*at = now
	}
}

func held(at, now mono.Time, d mono.Dur) bool { return at != mono.Never && now.Sub(at) >= d }

// Planned notes that a plan was made of the signals last handed in.
func (e *Epochs) Planned(now mono.Time) {
	e.planned, e.last, e.seen = true, now, e.now
	e.since, e.short, e.drifted = mono.Never, mono.Never, mono.Never
}

// Worth tells whether a plan is to be rolled out in place of the one in force. One that is
// called for by the catalogue, by GPUs or by a shortage always is. Another must save GPUs, so
// that needs which go up and down a little do not move models: gpusNow and gpusThen are what
// the two need in all, moves the models that would change their sub-cluster.
func (e *Epochs) Worth(why Why, gpusNow, gpusThen float64, moves int) bool {
	switch why {
	case First, Catalogue, GPUs, Short:
		return true
	}
	return moves == 0 || gpusNow-gpusThen >= max(1, float64(e.cfg.Gain*gpusNow))
}
