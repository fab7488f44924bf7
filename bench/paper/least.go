package paper

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/bench/sim"
)

// LeastJob is a search for the least number of GPUs on which each model's p99
// is within its SLO at a given rate, done once for each seed.
type LeastJob struct {
	System   string
	Workload Workload // GPUs is not used
	Rate     float64
	Seeds    []uint64
	Seconds  float64
	Warmup   float64 // 0 means 2
}

// LeastResult is what the searches found.
type LeastResult struct {
	GPUs  int   // on which every seed passed; 0: not even on gpusMost
	Each  []int // by seed
	Bound int   // GPUs below which no schedule carries the rate (fluid bound; Poisson arrivals)
}

// leastSearch is the description of one seed's search.
type leastSearch struct {
	LeastJob
	Seed uint64
}

// gpusMost ends a search upwards, in times the fluid bound.
const gpusMost = 8

// Leasts searches: one job for each seed.
func (s *Session) Leasts(jobs []LeastJob) ([]LeastResult, error) {
	var list []Job[int]
	for _, j := range jobs {
		if j.Warmup == 0 {
			j.Warmup = warmupDefault
		}
		s.Setting("least GPUs: %g r/s, %g s simulated after %g s that do not count, %s, each model judged alone", j.Rate, j.Seconds, j.Warmup, seedsText(j.Seeds))
		for _, seed := range j.Seeds {
			k := leastSearch{j, seed}
			k.Seeds = nil
			list = append(list, Job[int]{Kind: "least", About: k, Weight: j.Rate * (j.Seconds + j.Warmup), Run: k.run})
		}
	}
	all, err := Each(s, list)
	if err != nil {
		return nil, err
	}
	out := make([]LeastResult, len(jobs))
	for i, j := range jobs {
		out[i].Each, all = all[:len(j.Seeds)], all[len(j.Seeds):]
		if out[i].Bound, err = j.Workload.least(j.Rate); err != nil {
			return nil, err
		}
		for _, n := range out[i].Each {
			if n == 0 {
				out[i].GPUs = 0
				break
			}
			out[i].GPUs = max(out[i].GPUs, n)
		}
	}
	return out, nil
}

// least is the least number of GPUs whose fluid bound is the rate.
func (w Workload) least(rate float64) (int, error) {
	for w.GPUs = 1; ; w.GPUs++ {
		bound, err := w.Fluid()
		if err != nil || bound >= rate {
			return w.GPUs, err
		}
	}
}

// run begins at the fluid bound, widens from there by a tenth and halves. It
// goes downwards too: for bursty arrivals the bound is none (report.Fluid), and
// a run of few seconds passes now and then where a long one would not.
func (k leastSearch) run(stop func() bool) (int, error) {
	bound, err := k.Workload.least(k.Rate)
	if err != nil {
		return 0, err
	}
	fails, passes, err := bracket(bound, gpusMost*bound, func(gpus int) (bool, error) { return k.passes(gpus, stop) })
	for err == nil && passes-fails > 1 {
		mid := (passes + fails) / 2
		var ok bool
		if ok, err = k.passes(mid, stop); ok {
			passes = mid
		} else {
			fails = mid
		}
	}
	return passes, err
}

// bracket finds a number that fails and a greater one that passes, from start
// on; fails is 0 when one GPU passes, passes is 0 when not even most does.
func bracket(start, most int, try func(gpus int) (bool, error)) (fails, passes int, err error) {
	next := start
	for next > 0 && next <= most && (fails == 0 || passes == 0) {
		ok, err := try(next)
		if err != nil {
			return 0, 0, err
		}
		if ok {
			passes, next = next, int(0.9*float64(next))
		} else {
			fails, next = next, int(math.Ceil(1.1*float64(next)))
		}
	}
	if passes == 0 {
		return 0, 0, nil
	}
	return fails, passes, nil
}

func (k leastSearch) passes(gpus int, stop func() bool) (bool, error) {
	sys, err := SystemOf(k.System)
	if err != nil {
		return false, err
	}
	k.Workload.GPUs = gpus
	c, err := k.Workload.config(sys, k.Rate, k.Seed, k.Seconds, k.Warmup)
	if err != nil {
		return false, err
	}
	_, pass, err := sim.Within(c, nil, stop)
	if err != nil {
		return false, fmt.Errorf("%s on %d GPUs: %w", k.System, gpus, err)
	}
	return pass, nil
}
