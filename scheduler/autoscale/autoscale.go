package autoscale

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Scaler. The zero Config has the defaults.
type Config struct {
	BadRate float64 // bound on the share of bad requests; 0 means 1 %
	Hold    int     // epochs in a row that must have GPUs to spare; 0 means 5
	Min     int     // GPUs; 0 means 1
	Max     int     // GPUs; 0 means no limit
}

// Epoch is what happened in one.
type Epoch struct {
	GPUs     int      // that served; those on order are not there yet
	Answered int64    // requests: served, dropped and late ones
	Bad      int64    // dropped and late ones
	Span     mono.Dur // length of the epoch
	Idle     mono.Dur // time without a batch, summed over the GPUs
}

// Advice is how many GPUs to add to, or remove from, Epoch.GPUs.
type Advice struct {
	Add, Remove int
	Why         Why
}

// Why is the reason of an Advice.
type Why uint8

const (
	// Steady: neither too many bad requests nor GPUs to spare.
	Steady Why = iota
	// BadRate: too many requests were bad.
	BadRate
	// Idle: GPUs were to spare for Hold epochs.
	Idle
	// Holding: GPUs were to spare, but not for long enough.
	Holding
	// Futile: too many are bad, and the GPUs added last did not help.
	Futile
	// AtMax: too many are bad, and Max is reached.
	AtMax
	// Limits: the cluster was outside Min and Max.
	Limits
)

func (w Why) String() string {
	switch w {
	case Steady:
		return "steady"
	case BadRate:
		return "bad_rate"
	case Idle:
		return "idle"
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
)

// Scaler remembers the demand of the last epochs and what came of its advice.
type Scaler struct {
	cfg      Config
	demands  []float64 // of the last Hold epochs in GPUs, a ring
	epochs   int       // seen
	quiet    int       // epochs since the last with too many bad
	hold     int       // quiet epochs before a release
	released bool      // the last change was a release
	tried    trial
}

// trial is the epoch on whose word GPUs were added. gpus 0: none is open.
type trial struct {
	gpus      int
	bad, idle float64 // bad rate; idle GPUs
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
		cfg.Max = math.MaxInt32
	}
	cfg.Min = max(1, cfg.Min)
	cfg.Max = max(cfg.Min, cfg.Max)
	return &Scaler{cfg: cfg, hold: cfg.Hold, demands: make([]float64, cfg.Hold)}
}

// Close takes in an epoch that has ended and says what to do about it. Call it
// once an epoch; the advice counts from Epoch.GPUs, so GPUs that an earlier
// advice ordered and that have not come are part of this one's.
func (s *Scaler) Close(e Epoch) Advice {
	over := s.tooMany(e)
	s.remember(e, over)
	if e.GPUs < s.cfg.Min {
		return Advice{Add: s.cfg.Min - e.GPUs, Why: Limits}
	}
	if e.GPUs > s.cfg.Max {
		return Advice{Remove: e.GPUs - s.cfg.Max, Why: Limits}
	}
	if over {
		return s.add(e)
	}
	s.tried = trial{}
	return s.release(e)
}

// badRate is r, from 0 to 1.
func (e Epoch) badRate() float64 {
	if e.Answered <= 0 {
		return 0
	}
	return float64(min(max(e.Bad, 0), e.Answered)) / float64(e.Answered)
}

// idleGPUs is N*f. An epoch without a length shows no idle GPU.
func (e Epoch) idleGPUs() float64 {
	if e.Span <= 0 {
		return 0
	}
	return min(max(0, float64(e.Idle)/float64(e.Span)), float64(e.GPUs))
}

// tooMany is whether more requests were bad than a bad rate at its bound would
// make by chance.
func (s *Scaler) tooMany(e Epoch) bool {
	expected := float64(s.cfg.BadRate * float64(e.Answered))
	return float64(e.Bad) > expected+float64(2*math.Sqrt(expected))+1
}

// remember notes the epoch's demand, and when it was bad after a release.
func (s *Scaler) remember(e Epoch, over bool) {
	demand := float64(e.GPUs) - e.idleGPUs()
	if bad := e.badRate(); over {
		demand = float64(e.GPUs + e.missing())
	} else if bad < 1 {
		demand /= 1 - bad
	}
	s.demands[s.epochs%s.cfg.Hold] = demand
	s.epochs++
	s.quiet++
	if over {
		s.quiet = 0
		if s.released {
			s.hold = min(2*s.hold, holdMax*s.cfg.Hold)
		}
		s.released = false
	}
}

// missing is N*r/(1-r), rounded up; when all are bad, N. Counts instead of the
// rate: a float's rounding would add a GPU where the quotient is whole.
func (e Epoch) missing() int {
	good := float64(e.Answered - e.Bad)
	if good <= 0 {
		return max(1, e.GPUs)
	}
	return int(min(math.MaxInt32, math.Ceil(float64(e.GPUs)*float64(e.Bad)/good)))
}

// add is what is missing, unless more GPUs have been tried in vain.
func (s *Scaler) add(e Epoch) Advice {
	if e.GPUs == s.cfg.Max {
		return Advice{Why: AtMax}
	}
	now := trial{e.GPUs, e.badRate(), e.idleGPUs()}
	if s.tried.failed(now) {
		return Advice{Why: Futile}
	}
	s.tried = now
	return Advice{Add: min(e.missing(), s.cfg.Max-e.GPUs), Why: BadRate}
}

// failed is whether the GPUs that came since the trial are idle, half of them
// at least, and the bad rate has not fallen.
func (t trial) failed(now trial) bool {
	came := float64(now.gpus - t.gpus)
	return t.gpus > 0 && came > 0 && now.idle-t.idle >= came/2 && now.bad > futileFall*t.bad
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
	if s.released {
		s.hold = max(s.cfg.Hold, s.hold/2)
	}
	s.released = true
	return Advice{Remove: spare, Why: Idle}
}

// kept is the demand with its reserve (doc.go), in whole GPUs.
func (s *Scaler) kept() int {
	peak, least := s.demands[0], s.demands[0]
	for _, d := range s.demands[:min(s.epochs, s.cfg.Hold)] {
		peak, least = max(peak, d), min(least, d)
	}
	return int(math.Ceil(peak + math.Sqrt(peak) + (peak - least)))
}
