package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
)

// measure7 describes the measurement of one configuration: all systems with
// the same seeds and settings, in one job, for each search begins where the
// last one ended.
type measure7 struct {
	Point     point7
	Seconds   float64
	Warmup    float64
	Tolerance float64
	Seeds     []uint64
	Timeouts  []string // only those better than the best baseline so far are searched
	Versions  []string // of Symphony

	tape *workload.Tape // while it runs: all systems have the same arrivals
}

// result7 is what was found, in requests/s, means over the seeds.
type result7 struct {
	Symphony, Eager, EagerTarget float64
	Timeout                      float64 // the best one, if it was searched; see timeout
	TimeoutBy                    string  // its system
	// Algorithm 1 with both drop policies, 0 where measure7 has no Versions. They
	// are versions of Symphony, and no baselines.
	Algorithm, AlgorithmTarget float64
}

// timeouts7 are the timeouts, likely winners first: that spares the others
// their searches.
func timeouts7() []string {
	var out []string
	for _, k := range []float64{30, 20, 40, 10, 50} {
		out = append(out, TimeoutTargetOf(k), TimeoutOf(k))
	}
	return out
}

func versions7() []string { return []string{Algorithm1, AlgorithmTarget} }

// best is the goodput of the best baseline.
func (r *result7) best() float64 { return max(r.Eager, r.EagerTarget, r.Timeout) }

// timeout is the best timeout where it is above the better eager scheduler.
func (r *result7) timeout() (rate float64, by string) {
	if r.Timeout <= max(r.Eager, r.EagerTarget) {
		return 0, ""
	}
	return r.Timeout, r.TimeoutBy
}

// ratioMax stands for infinity where a baseline has no goodput at all.
const ratioMax = 10

func ratio(ours, theirs float64) float64 {
	if ours == theirs {
		return 1
	}
	return min(ratioMax, ours/theirs)
}

// againstBest is Symphony's goodput over the best baseline's.
func (r *result7) againstBest() float64 { return ratio(r.Symphony, r.best()) }

// againstSame is Symphony's goodput over eager scheduling's with the same drop
// policy: what deferring alone gives.
func (r *result7) againstSame() float64 { return ratio(r.Symphony, r.EagerTarget) }

// againstAlgorithm and againstAlgorithmTarget are Symphony's goodput over that
// of the paper's window.
func (r *result7) againstAlgorithm() float64       { return ratio(r.Symphony, r.Algorithm) }
func (r *result7) againstAlgorithmTarget() float64 { return ratio(r.Symphony, r.AlgorithmTarget) }

// settings7 is how long a measurement is.
type settings7 struct {
	requests  float64 // about so many are counted in a simulation near the bound
	least     float64 // seconds at least
	mixed     float64 // times longer for the mix: each of its models is judged alone
	tolerance float64
}

// plan makes the measurement of p. longer multiplies the time.
func (k settings7) plan(p point7, versions []string, seeds []uint64, longer float64) (measure7, error) {
	w, err := p.workload()
	if err != nil {
		return measure7{}, err
	}
	fluid, err := w.Fluid()
	if err != nil {
		return measure7{}, err
	}
	slo := slices.MaxFunc(w.Models, func(a, b Model) int { return cmp.Compare(a.SLO, b.SLO) }).SLO
	seconds := max(k.least, k.requests/fluid)
	if p.Setup == mixed7 {
		seconds *= k.mixed
	}
	// Ten SLOs, for the scheduler to learn its arrivals and for queues to fill.
	return measure7{Point: p, Seconds: math.Ceil(10*seconds*longer) / 10, Warmup: max(0.5, slo/100), Tolerance: k.tolerance, Seeds: seeds, Timeouts: timeouts7(), Versions: versions}, nil
}

// job measures a configuration.
func (m measure7) job() Job[result7] {
	w, err := m.Point.workload()
	weight := 0.0
	if fluid, bad := w.Fluid(); bad == nil {
		weight = fluid * (m.Seconds + m.Warmup) * float64(len(m.Seeds))
	}
	return Job[result7]{Kind: "fig7", About: m, Weight: weight, Run: func(stop func() bool) (result7, error) {
		if err != nil {
			return result7{}, err
		}
		return m.run(w, stop)
	}}
}

// run measures one system after the other. A rate for each seed goes along: what
// a search found with a seed is where the next system's begins with it.
func (m *measure7) run(w Workload, stop func() bool) (result7, error) {
	var r result7
	m.tape = &workload.Tape{}
	defer func() { m.tape = nil }()
	fluid, err := w.Fluid()
	if err != nil {
		return r, err
	}
	ours, err := m.search(w, Symphony, slices.Repeat([]float64{0.8 * fluid}, len(m.Seeds)), 0, stop)
	if err != nil {
		return r, err
	}
	eager, err := m.search(w, Eager, ours, step7, stop)
	if err != nil {
		return r, err
	}
	target, err := m.search(w, EagerTarget, ours, step7, stop)
	if err != nil {
		return r, err
	}
	r.Eager, r.EagerTarget = mean(eager), mean(target)
	best := eager
	if r.EagerTarget > r.Eager {
		best = target
	}
	if best, err = m.timeouts(w, &r, best, stop); err != nil {
		return r, err
	}
	if mean(best) > mean(ours) {
		again, err := m.search(w, Symphony, best, step7, stop)
		if err != nil {
			return r, err
		}
		for i := range ours {
			ours[i] = max(ours[i], again[i])
		}
	}
	r.Symphony = mean(ours)
	return r, m.versions(w, &r, ours, stop)
}

// timeouts finds the best one, if it is better than the best rates so far. It
// returns the best then.
func (m *measure7) timeouts(w Workload, r *result7, best []float64, stop func() bool) ([]float64, error) {
	for _, system := range m.Timeouts {
		above, err := m.above(w, system, best, stop)
		if err != nil {
			return nil, err
		}
		if !above {
			continue
		}
		rates, err := m.search(w, system, best, step7, stop)
		if err != nil {
			return nil, err
		}
		if mean(rates) > mean(best) {
			best, r.Timeout, r.TimeoutBy = rates, mean(rates), system
		}
	}
	return best, nil
}

// versions measures those of Symphony.
func (m *measure7) versions(w Workload, r *result7, ours []float64, stop func() bool) error {
	for _, system := range m.Versions {
		rates, err := m.search(w, system, ours, step7, stop)
		if err != nil {
			return err
		}
		if system == Algorithm1 {
			r.Algorithm = mean(rates)
		} else {
			r.AlgorithmTarget = mean(rates)
		}
	}
	return nil
}

// step7: most systems are within some percent of the first one's goodput.
const step7 = 0.04

// search is a system's goodput by seed, each search from a guess of its own.
func (m *measure7) search(w Workload, system string, guess []float64, step float64, stop func() bool) ([]float64, error) {
	rates := make([]float64, len(m.Seeds))
	for i, seed := range m.Seeds {
		k := search{GoodputJob{System: system, Workload: w, Seconds: m.Seconds, Warmup: m.Warmup, Tolerance: m.Tolerance, Grouped: true, Guess: max(1, guess[i]), Step: step}, seed, m.tape}
		f, err := k.run(stop)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Point, err)
		}
		rates[i] = f.Rate
	}
	return rates, nil
}

func mean(values []float64) float64 {
	m, _ := scenario.Mean(values)
	return m
}

// above is whether a system might have a goodput above the rates: for some seed
// it serves a little more than that. One simulation tells of most timeouts that
// they are not worth a search.
func (m *measure7) above(w Workload, system string, rates []float64, stop func() bool) (bool, error) {
	sys, err := SystemOf(system)
	if err != nil {
		return false, err
	}
	groups, err := w.groups()
	if err != nil {
		return false, err
	}
	for i, seed := range m.Seeds {
		c, err := w.config(sys, max(1, rates[i])*(1+m.Tolerance), seed, m.Seconds, m.Warmup)
		if err != nil {
			return false, err
		}
		c.Tape = m.tape
		_, pass, err := sim.Within(c, groups, stop)
		if err != nil {
			return false, fmt.Errorf("%s: %s: %w", m.Point, system, err)
		}
		if pass {
			return true, nil
		}
	}
	return false, nil
}
