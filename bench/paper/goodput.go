package paper

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
)

// GoodputJob is a search for the highest rate at which each model's p99 is
// within its SLO, done once for each seed.
type GoodputJob struct {
	System    string
	Workload  Workload
	Seeds     []uint64
	Seconds   float64 // counted, of each simulation
	Warmup    float64 // seconds before them; 0 means 2
	Tolerance float64 // of the rate
	Grouped   bool    // models that are alike are judged together
	Guess     float64 // requests/s where the search begins; 0: 0.85 of the fluid bound
	Step      float64 `json:",omitempty"` // sim.Search.Step
}

// GoodputResult is what the searches found.
type GoodputResult struct {
	Rate     float64   // requests/s, the mean over the seeds
	Rates    []float64 // by seed
	Measures Measures  // of the first seed, at its goodput
	Runs     int       // simulations

	Tolerance float64 // of each search
}

// found is the result of one seed's search.
type found struct {
	Rate     float64
	Measures Measures
	Runs     int
}

// search is the description of one seed's search.
type search struct {
	GoodputJob
	Seed uint64
	tape *workload.Tape // nil: for this search alone
}

// Goodputs searches: one job for each seed.
func (s *Session) Goodputs(jobs []GoodputJob) ([]GoodputResult, error) {
	var list []Job[found]
	for _, j := range jobs {
		if j.Warmup == 0 {
			j.Warmup = warmupDefault
		}
		if j.Guess == 0 {
			bound, err := j.Workload.Fluid()
			if err != nil {
				return nil, err
			}
			j.Guess = max(1, 0.85*bound)
		}
		how := "each model judged alone"
		if j.Grouped {
			how = "models that are alike judged together"
		}
		s.Setting("goodput: %g s simulated after %g s that do not count, tolerance %.2g %%, %s, %s", j.Seconds, j.Warmup, 100*j.Tolerance, seedsText(j.Seeds), how)
		for _, seed := range j.Seeds {
			k := search{GoodputJob: j, Seed: seed}
			k.Seeds = nil // each seed's search is kept for itself
			list = append(list, Job[found]{Kind: "goodput", About: k, Weight: j.Guess * (j.Seconds + j.Warmup), Run: k.run})
		}
	}
	all, err := Each(s, list)
	if err != nil {
		return nil, err
	}
	out := make([]GoodputResult, len(jobs))
	for i, j := range jobs {
		out[i].Tolerance = j.Tolerance
		for k := range j.Seeds {
			f := all[k]
			out[i].Rate += f.Rate / float64(len(j.Seeds))
			out[i].Rates = append(out[i].Rates, f.Rate)
			out[i].Runs += f.Runs
		}
		if len(j.Seeds) > 0 {
			out[i].Measures = all[0].Measures
		}
		all = all[len(j.Seeds):]
	}
	return out, nil
}

// run searches with one seed. A workload that no rate can serve has goodput 0.
func (k search) run(stop func() bool) (found, error) {
	sys, err := SystemOf(k.System)
	if err != nil || k.Workload.hopeless() {
		return found{}, err
	}
	if k.tape == nil {
		k.tape = &workload.Tape{}
	}
	find := sim.Search{Guess: k.Guess, Step: k.Step, Tolerance: k.Tolerance, Stop: stop,
		At: func(rate float64) (*sim.Config, error) {
			c, err := k.Workload.config(sys, rate, k.Seed, k.Seconds, k.Warmup)
			if err == nil {
				c.Tape = k.tape
			}
			return c, err
		}}
	if k.Grouped {
		if find.Groups, err = k.Workload.groups(); err != nil {
			return found{}, err
		}
	}
	g, err := find.Run()
	if err != nil {
		return found{}, fmt.Errorf("goodput of %s: %w", k.System, err)
	}
	f := found{Rate: g.Rate, Runs: g.Runs}
	if g.Result != nil {
		f.Measures = measure(g.Result, k.Workload.GPUs, false)
	}
	return f, nil
}

func seedsText(seeds []uint64) string {
	if len(seeds) == 1 {
		return fmt.Sprintf("seed %d", seeds[0])
	}
	return "seeds " + strings.Trim(fmt.Sprint(seeds), "[]")
}

// seedFirst is the first seed of every figure. The constants of Symphony's rule were
// chosen on seeds 1 and 2 (docs/decisions/0007-constants-by-simulation.md), so these
// are others.
const seedFirst = 11

// seeds are n of them; a quick session takes one.
func (s *Session) seeds(n int) []uint64 { return seedsFrom(seedFirst, Pick(s, 1, n)) }

func seedsFrom(first uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// Search is the usual search of a session for a system's goodput.
func (s *Session) Search(system string, w Workload) GoodputJob {
	return GoodputJob{System: system, Workload: w, Seeds: s.seeds(3),
		Seconds: Pick(s, 10.0, 40.0), Tolerance: Pick(s, 0.01, 0.005)}
}

// Measure is the usual run of a session at one rate.
func (s *Session) Measure(system string, w Workload, rate float64) RunJob {
	return RunJob{System: system, Workload: w, Rate: rate, Seed: seedFirst, Seconds: Pick(s, 10.0, 40.0)}
}

// SearchEach is the goodput of each system under each workload, as
// [workload][system].
func (s *Session) SearchEach(systems []string, workloads []Workload, grouped bool) ([][]GoodputResult, error) {
	var jobs []GoodputJob
	for _, w := range workloads {
		for _, name := range systems {
			j := s.Search(name, w)
			j.Grouped = grouped
			jobs = append(jobs, j)
		}
	}
	all, err := s.Goodputs(jobs)
	if err != nil {
		return nil, err
	}
	var out [][]GoodputResult
	for range workloads {
		out = append(out, all[:len(systems)])
		all = all[len(systems):]
	}
	return out, nil
}

// BoundHeader and BoundCells are the columns of the bounds that stand beside
// goodputs in tables; "-" where a bound is none.
func BoundHeader() []string { return []string{"staggered r/s", "fluid r/s"} }

// BoundCells are the bounds of a workload.
func BoundCells(w *Workload) ([]string, error) {
	batch, staggered, err := w.Staggered()
	if err != nil {
		return nil, err
	}
	fluid, err := w.Fluid()
	if err != nil {
		return nil, err
	}
	cells := []string{"-", Number(fluid, 0)}
	if batch > 0 {
		cells[0] = Number(staggered, 0)
	}
	return cells, nil
}
