package autoscale

import "math"

// Config of a Scaler. The zero Config has the defaults.
type Config struct {
	BadRate float64 // bound on the share of bad requests; 0 means 1 %
	Hold    int     // epochs in a row that must have GPUs to spare; 0 means 5
	Min     int     // GPUs; 0 means 1
	Max     int     // GPUs; 0 means no limit
	// Stays: GPUs whose release is advised stay for a while. A release that is advised again while there
	// are as many is the same one.
	Stays bool
}

// Epoch is what happened in one.
type Epoch struct {
	GPUs     int   // that served; those on order are not there yet
	Answered int64 // requests: served, dropped and late ones
	Bad      int64 // dropped and late ones
	// Need is the GPUs that deferral alone would have kept busy (rank.Rank.Need), at the
	// instant of the epoch at which they were most. Requests without any need: it is not known.
	Need float64
}

// Advice is how many GPUs to add to, or remove from, Epoch.GPUs.
type Advice struct {
	Add, Remove int
	Why         Why
}

// Why is the reason of an Advice.
type Why uint8

const (
	// Steady: neither too few GPUs nor any to spare.
	Steady Why = iota
	// Need: the need leaves less than a quarter of its reserve.
	Need
	// BadRate: too many requests were bad, although the need says that there are enough GPUs.
	BadRate
	// Spare: GPUs were to spare for Hold epochs.
	Spare
	// Holding: GPUs were to spare, but not for long enough.
	Holding
	// Futile: too many are bad, and the GPUs added last did not help.
	Futile
	// AtMax: GPUs are missing, and Max is reached.
	AtMax
	// Limits: the cluster was outside Min and Max.
	Limits
)

func (w Why) String() string {
	switch w {
	case Steady:
		return "steady"
	case Need:
		return "need"
	case BadRate:
		return "bad_rate"
	case Spare:
		return "spare"
	case Holding:
		return "holding"
	case Futile:
		return "futile"
	case AtMax:
		return "at_max"
	case Limits:
		return "limits"
	}
	return "unknown"
}

const (
	// futileFall: a cure lowers the bad rate to less than this part of it.
	futileFall = 0.9
	// holdMax bounds the wait before a release, in times Config.Hold.
	holdMax = 16
	// gpusMax bounds what is reckoned in whole GPUs.
	gpusMax = math.MaxInt32
)

// Scaler remembers the need of the last epochs and what came of its advice.
type Scaler struct {
	cfg      Config
	needs    []float64 // of the last Hold epochs in GPUs, a ring
	epochs   int       // seen
	quiet    int       // epochs since the last that called for GPUs
	hold     int       // quiet epochs before a release
	released bool      // the last change was a release
	from     int       // GPUs at it
	tried    trial
}

// trial is the epoch on whose bad rate GPUs were added. gpus 0: none is open.
type trial struct {
	gpus      int
	bad, need float64 // bad rate; GPUs
}

// New fills in the defaults.
func New(cfg Config) *Scaler {
	if cfg.BadRate <= 0 {
		cfg.BadRate = 0.01
	}
	if cfg.Hold <= 0 {
		cfg.Hold = 5
	}
	if cfg.Max <= 0 {
		cfg.Max = gpusMax
	}
	cfg.Min = max(1, cfg.Min)
	cfg.Max = max(cfg.Min, cfg.Max)
	return &Scaler{cfg: cfg, hold: cfg.Hold, needs: make([]float64, cfg.Hold)}
}

// Close takes in an epoch that has ended and says what to do about it. Call it
// once an epoch; the advice counts from Epoch.GPUs, so GPUs that an earlier
// advice ordered and that have not come are part of this one's.
func (s *Scaler) Close(e Epoch) Advice {
	short, over := e.short(), s.tooMany(e)
	s.remember(e, short > 0, over)
	if e.GPUs < s.cfg.Min {
		return Advice{Add: s.cfg.Min - e.GPUs, Why: Limits}
	}
	if e.GPUs > s.cfg.Max {
		return Advice{Remove: e.GPUs - s.cfg.Max, Why: Limits}
	}
	if !over {
		s.tried = trial{}
	}
	switch {
	case short == 0 && !over:
		return s.release(e)
	case e.GPUs == s.cfg.Max:
		return Advice{Why: AtMax}
	case short > 0:
		return Advice{Add: min(short, s.cfg.Max-e.GPUs), Why: Need}
	}
	return s.cure(e)
}

// badRate is r, from 0 to 1.
func (e Epoch) badRate() float64 {
	if e.Answered <= 0 {
		return 0
	}
	return float64(min(max(e.Bad, 0), e.Answered)) / float64(e.Answered)
}

// known is whether the need is.
func (e Epoch) known() bool {
	return e.Need > 0 && e.Need <= gpusMax || e.Need == 0 && e.Answered <= 0
}

// short is what the GPUs lack to the need and its whole reserve, once less than a
// quarter of the reserve is left.
func (e Epoch) short() int {
	reserve := math.Sqrt(e.Need)
	if !e.known() || e.Need+float64(reserve/4) <= float64(e.GPUs) {
		return 0
	}
	return int(min(gpusMax, math.Ceil(e.Need+reserve))) - e.GPUs
}

// tooMany is whether more requests were bad than a bad rate at its bound would
// make by chance.
func (s *Scaler) tooMany(e Epoch) bool {
	expected := float64(s.cfg.BadRate * float64(e.Answered))
	return float64(e.Bad) > expected+float64(2*math.Sqrt(expected))+1
}

// remember notes the epoch's need, and when it called for GPUs. Only where the need
// does not say why does it tell that the release before it was wrong.
func (s *Scaler) remember(e Epoch, short, over bool) {
	need := e.Need
	if !e.known() {
		need = float64(e.GPUs) // none is to spare
	}
	s.needs[s.epochs%s.cfg.Hold] = need
	s.epochs++
	s.quiet++
	if !short && !over {
		return
	}
	if s.quiet = 0; s.released && !short {
		s.hold = min(2*s.hold, holdMax*s.cfg.Hold)
	}
	s.released = false
}

// missing is N*r/(1-r), rounded up; when all are bad, N. Counts instead of the
// rate: a float's rounding would add a GPU where the quotient is whole.
func (e Epoch) missing() int {
	good := float64(e.Answered - e.Bad)
	if good <= 0 {
		return max(1, e.GPUs)
	}
	return int(min(gpusMax, math.Ceil(float64(e.GPUs)*float64(e.Bad)/good)))
}

// cure adds what the bad rate says, unless more GPUs have been tried in vain.
func (s *Scaler) cure(e Epoch) Advice {
	now := trial{e.GPUs, e.badRate(), e.Need}
	if s.tried.failed(now) {
		return Advice{Why: Futile}
	}
	s.tried = now
	return Advice{Add: min(e.missing(), s.cfg.Max-e.GPUs), Why: BadRate}
}

// failed is whether the GPUs that came since the trial, half of them at least, are
// not there for a need that grew, and the bad rate has not fallen.
func (t trial) failed(now trial) bool {
	came := float64(now.gpus - t.gpus)
	return t.gpus > 0 && came > 0 && now.need-t.need <= came/2 && now.bad > futileFall*t.bad
}

// release is what was to spare above the reserve in each of the last epochs.
func (s *Scaler) release(e Epoch) Advice {
	spare := max(0, e.GPUs-max(s.cfg.Min, s.kept()))
	switch {
	case spare == 0:
		return Advice{Why: Steady}
	case s.quiet < s.hold:
		return Advice{Why: Holding}
	}
	if s.released && !(s.cfg.Stays && e.GPUs >= s.from) {
		s.hold = max(s.cfg.Hold, s.hold/2)
	}
	s.released, s.from = true, e.GPUs
	return Advice{Remove: spare, Why: Spare}
}

// kept is the need with its reserve (doc.go), in whole GPUs.
func (s *Scaler) kept() int {
	peak, least := s.needs[0], s.needs[0]
	for _, d := range s.needs[:min(s.epochs, s.cfg.Hold)] {
		peak, least = max(peak, d), min(least, d)
	}
	return int(min(gpusMax, math.Ceil(peak+math.Sqrt(peak)+float64(1.5*(peak-least)))))
}
