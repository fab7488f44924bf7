package scenario

import (
	"math"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Least is a search for the least number of GPUs on which the scenario's rate, or its trace, keeps
// these bounds. Outcome.Least says what was found.
type Least struct {
	BadRate    float64  `json:"bad_rate"`                 // of each group of like models, at most
	QueueP99   mono.Dur `json:"queue_p99_ns,omitempty"`   // of all requests that ran; 0: no bound
	LatencyP99 mono.Dur `json:"latency_p99_ns,omitempty"` // the same

	GPUs   int   `json:"gpus"`   // the least that passed; 0: none did
	Fails  int   `json:"fails"`  // the most that failed; 0: one GPU passed
	Runs   int   `json:"runs"`   // simulations
	Judged int64 `json:"judged"` // the fewest requests that a bad rate was told by, see Search
}

// leastMost ends the search upwards, in times the GPUs of the fluid bound: with so many most are
// idle, and more change nothing.
const leastMost = 8

// boundMost is the longest bound on a time. Times are counted up to unitsMax, and what is longer
// counts as that, which a longer bound would take for short enough.
const boundMost = (unitsMax - 2) * sim.QueueUnit

// Check says what is wrong with the bounds.
func (l *Least) Check() error {
	if !(l.BadRate >= 0.0001 && l.BadRate <= 0.5) {
		return refuse("bad-rate", "%g, must be a share from 0.0001 to 0.5", l.BadRate)
	}
	if err := checkBound("queue-p99", l.QueueP99); err != nil {
		return err
	}
	return checkBound("latency-p99", l.LatencyP99)
}

// checkBound refuses what the counted times cannot tell; 0 is no bound.
func checkBound(flag string, bound mono.Dur) error {
	switch {
	case bound < 0 || bound > 0 && bound < sim.QueueUnit:
		return refuse(flag, "%v, must be at least %v", bound, sim.QueueUnit)
	case bound > boundMost:
		return refuse(flag, "%v, must be at most %v, for longer times are not told apart; leave it out for no bound", bound, boundMost)
	}
	return nil
}

// FindLeast searches. Scenario.GPUs is not used. The outcome is that of the run with the least
// number that passed; where none did, of the run with the most GPUs. tried, if not nil, is called
// before each simulation.
func (p *Plan) FindLeast(l Least, tried func(), stop func() bool) (*Outcome, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	var kept *Outcome
	try := func(gpus int) (bool, error) {
		if stop != nil && stop() {
			return false, sim.ErrStopped
		}
		if tried != nil {
			tried()
		}
		q := *p
		q.Scenario.GPUs = gpus
		o, err := q.Simulate(sim.Observer{}, stop)
		if err != nil {
			return false, err
		}
		l.Runs++
		pass := q.keeps(&l, o)
		if pass || kept == nil || l.GPUs == 0 && gpus > kept.Scenario.GPUs {
			kept = o
		}
		if pass {
			l.GPUs = gpus
		} else {
			l.Fails = max(l.Fails, gpus)
		}
		return pass, nil
	}
	bound := p.LeastFluid()
	if err := l.search(bound, min(gpusMax, leastMost*bound), try); err != nil {
		return nil, err
	}
	l.Judged = p.judged(kept)
	kept.Least = &l
	return kept, nil
}

// search begins at the fluid bound, widens the bracket and halves it. It goes downwards too: for
// bursts, and a bad rate of many per cent, the bound is none.
func (l *Least) search(start, most int, try func(gpus int) (bool, error)) error {
	next, step := min(start, most), 1.05
	for l.GPUs == 0 || l.GPUs-l.Fails > 1 {
		pass, err := try(next)
		if err != nil {
			return err
		}
		switch {
		case l.GPUs > 0 && l.Fails > 0:
			next = (l.GPUs + l.Fails) / 2
		case pass && next == 1:
			return nil // Fails stays 0
		case pass: // a step may be longer than what is left, and one GPU is to be tried, too
			next = max(1, min(next-1, int(float64(next)/step)))
		case next == most:
			return nil // not even with so many
		default:
			next = min(most, max(next+1, int(math.Ceil(float64(next)*step))))
		}
		step *= step
	}
	return nil
}

// keeps tells whether a run is within the bounds.
func (p *Plan) keeps(l *Least, o *Outcome) bool {
	within := func(ms float64, bound mono.Dur) bool { return bound == 0 || ms <= bound.Millis() }
	return p.worst(o) <= l.BadRate && within(o.All.QueueP99, l.QueueP99) && within(o.All.LatencyP99, l.LatencyP99)
}

// worst is the bad rate of the group of like models that fared worst.
func (p *Plan) worst(o *Outcome) float64 {
	arrived, bad := make([]int64, len(p.groups)), make([]int64, len(p.groups))
	for i, g := range p.groups {
		arrived[g] += o.Models[i].Arrived
		for _, n := range o.Models[i].Bad {
			bad[g] += n
		}
	}
	worst := 0.0
	for g := range arrived {
		if arrived[g] > 0 {
			worst = max(worst, float64(bad[g])/float64(arrived[g]))
		}
	}
	return worst
}

// LeastFluid is the least number of GPUs whose fluid bound is the offered rate.
func (p *Plan) LeastFluid() int {
	rate := p.Scenario.Rate
	if p.trace != nil && rate == 0 {
		rate = p.trace.rate * p.trace.Speed
	}
	loads, low, high := p.loads(), 0, 1
	for high < gpusMax && report.Fluid(loads, high) < rate {
		low, high = high, min(gpusMax, 2*high)
	}
	for high-low > 1 {
		if mid := (low + high) / 2; report.Fluid(loads, mid) < rate {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
