package sim

import (
	"fmt"
	"math"
)

// BadRateMax is the share of bad requests up to which a model's p99 is within
// its SLO.
const BadRateMax = 0.01

// Search finds a goodput: the highest offered rate at which every model's p99,
// a dropped request counted as infinitely late, is within its SLO.
type Search struct {
	// At makes the configuration for an offered rate (requests/s, all models).
	At func(rate float64) (*Config, error)
	// Groups puts models that are alike (profile, SLO, arrivals) into one group,
	// whose requests are judged together: they are draws of one distribution, and
	// a larger sample tells its p99 better. nil: every model is judged alone.
	Groups []int
	// Guess is where the search begins.
	Guess float64
	// Step is the first step away from the guess: the rate is multiplied, or
	// divided, by 1 + Step, and from then on by 1.25 times the factor before. 0
	// means 0.25.
	Step float64
	// Tolerance ends the bisection: the rates of the last pass and the last
	// failure differ by at most this share.
	Tolerance float64
	// Coarse is the tolerance once a rate below Close has failed: how far off a
	// goodput is that nobody compares matters less. Close 0: it never is.
	Close, Coarse float64
	// Floor, if above 0, is the lowest rate that is tried. Where it fails, the
	// goodput is 0, and TooHigh says from where on nothing is known.
	Floor float64
	// Passed, if not nil, is told of each simulation that passed. The last one is
	// that of Goodput.Result.
	Passed func()
	// Stop, if not nil, is asked now and then whether to give up.
	Stop func() bool
}

// Goodput is what a search found.
type Goodput struct {
	Rate    float64 // requests/s; the highest rate that passed
	Runs    int     // simulations
	Result  *Result // of the last pass; nil when none passed
	Simmed  int64   // counted requests simulated in all
	TooHigh float64 // the lowest rate that failed
}

// rateFloor is the least Floor.
const rateFloor = 1.0

// Run searches: it widens the bracket step by step from the guess on, then
// halves it.
func (s *Search) Run() (Goodput, error) {
	g := Goodput{TooHigh: math.Inf(1)}
	rate, step, floor := s.Guess, 1+s.Step, max(rateFloor, s.Floor)
	if s.Step == 0 {
		step = 1.25
	}
	if !(rate > 0) || !(s.Tolerance > 0) || !(step > 1) {
		return g, fmt.Errorf("%w: a search needs a guess, a step and a tolerance above 0, not %g, %g and %g", ErrInvalid, s.Guess, s.Step, s.Tolerance)
	}
	for g.TooHigh > g.Rate*(1+s.tolerance(&g)) && (g.Rate > 0 || g.TooHigh > floor) {
		pass, err := s.try(rate, &g)
		if err != nil {
			return g, err
		}
		if pass {
			g.Rate = rate
		} else {
			g.TooHigh = rate
		}
		switch {
		case math.IsInf(g.TooHigh, 1):
			rate *= step
			step *= 1.25
		case g.Rate == 0:
			rate = max(rate/step, s.Floor)
			step *= 1.25
		default:
			rate = math.Sqrt(g.Rate * g.TooHigh)
		}
	}
	return g, nil
}

// tolerance that ends the search as it stands.
func (s *Search) tolerance(g *Goodput) float64 {
	if g.TooHigh < s.Close {
		return max(s.Coarse, s.Tolerance)
	}
	return s.Tolerance
}

// try simulates one rate.
func (s *Search) try(rate float64, g *Goodput) (bool, error) {
	cfg, err := s.At(rate)
	if err != nil {
		return false, err
	}
	r, pass, err := Within(cfg, s.Groups, s.Stop)
	if err != nil {
		return false, err
	}
	g.Runs++
	g.Simmed += r.All.Arrived
	if pass {
		g.Result = r
		if s.Passed != nil {
			s.Passed()
		}
	}
	return pass, nil
}

// WorstBadRate is the bad rate of the model, or the group of models, that
// fared worst.
func WorstBadRate(r *Result, groups []int) float64 {
	worst := 0.0
	if groups == nil {
		for i := range r.Models {
			worst = max(worst, r.Models[i].BadRate())
		}
		return worst
	}
	pooled := make([]Counts, len(groups))
	for i := range r.Models {
		pooled[groups[i]].add(&r.Models[i])
	}
	for i := range pooled {
		worst = max(worst, pooled[i].BadRate())
	}
	return worst
}
