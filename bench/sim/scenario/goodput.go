package scenario

import (
	"errors"
	"math"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/sim"
)

// FindGoodput searches the highest rate at which every model's p99 is within
// its SLO. tried, if not nil, is called before each simulation.
func (p *Plan) FindGoodput(seed uint64, tolerance float64, tried func(), stop func() bool) (*Outcome, error) {
	if err := CheckTolerance(tolerance); err != nil {
		return nil, err
	}
	var r run
	var last, passed *tally // of the last run, and of the last that passed
	search := sim.Search{Groups: p.groups, Guess: p.Guess(), Tolerance: tolerance, Stop: stop, Passed: func() { passed = last }, At: func(rate float64) (*sim.Config, error) {
		if err := r.close(); err != nil {
			return nil, err
		}
		if tried != nil {
			tried()
		}
		last = newTally(p)
		var err error
		r, err = p.prepare(rate, seed, last.watching(sim.Observer{}))
		return r.cfg, err
	}}
	g, err := search.Run()
	if err := errors.Join(err, r.close()); err != nil {
		return nil, err
	}
	o := p.blank(seed)
	if g.Result != nil {
		o = p.outcome(seed, g.Result, passed)
	}
	o.Search = &Search{Tolerance: tolerance, Rate: g.Rate, TooHigh: g.TooHigh, Runs: g.Runs, Requests: g.Simmed, Judged: p.judged(o)}
	return o, nil
}

// judged is the fewest requests of a group of like models.
func (p *Plan) judged(o *Outcome) int64 {
	if len(o.Models) == 0 {
		return 0 // no run passed
	}
	arrived := make([]int64, len(p.groups))
	for i, g := range p.groups {
		arrived[g] += o.Models[i].Arrived
	}
	least := int64(math.MaxInt64)
	for _, g := range p.groups {
		least = min(least, arrived[g])
	}
	return least
}

// CheckTolerance says what is wrong with the tolerance of a search.
func CheckTolerance(tolerance float64) error {
	if !(tolerance >= 1e-4 && tolerance <= 0.5) {
		return refuse("tolerance", "%g, must be a share from 0.0001 to 0.5", tolerance)
	}
	return nil
}

// Guess is where the search of the goodput begins: Scenario.Rate or, if that
// is 0, a little below what the GPUs could carry at most.
func (p *Plan) Guess() float64 {
	if p.Scenario.Rate > 0 {
		return p.Scenario.Rate
	}
	return max(1, math.Round(0.85*p.Fluid()))
}

// Fluid is the fluid bound, in requests/s; of one GPU where there are none at the
// begin.
func (p *Plan) Fluid() float64 { return report.Fluid(p.loads(), max(1, p.Scenario.GPUs)) }

// RunsExpected is about how many simulations a search of that tolerance takes:
// three to bracket the goodput within a quarter, and the halvings of that.
func RunsExpected(tolerance float64) int {
	return 3 + int(math.Ceil(math.Log2(math.Log(1.25)/math.Log1p(tolerance))))
}
