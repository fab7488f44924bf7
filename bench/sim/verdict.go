package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Within tells whether every group of models (Search.Groups; nil: every model)
// keeps its p99 within its SLO, which is when WorstBadRate is at most
// BadRateMax. A run that cannot pass any more is given up: its result counts
// what there was by then.
//
// The verdict is that of the whole run, always. A bad request stays bad, so a
// group has failed once it has more of them than its arrivals allow. How many
// arrive is known in advance: the stream is drawn twice. That costs the arrivals'
// share of a run (docs/simulator.md), so it is done only when the mean
// rate says that a group has failed. (Rejected: to go by the mean rate alone.
// Bursts make it wrong.) A Config.Source can be drawn once only, and such a run
// is never given up.
func Within(cfg *Config, groups []int, stop func() bool) (*Result, bool, error) {
	r, failed, err := within(cfg, newHopes([]*Config{cfg}, groups), stop)
	return r, err == nil && !failed && WorstBadRate(r, groups) <= BadRateMax, err
}

// Together is Within of several runs of the same models, with other arrivals,
// say: a group's requests of all of them are judged as if they were one run's.
// Once a group has failed what remains is not simulated. Models and All of the
// result count what was; the rest of it is that of no run, and zero.
func Together(cfgs []*Config, groups []int, stop func() bool) (*Result, bool, error) {
	sum, failed := &Result{}, false
	if len(cfgs) == 0 || slices.ContainsFunc(cfgs, func(c *Config) bool { return len(c.Models) != len(cfgs[0].Models) }) {
		return sum, false, fmt.Errorf("%w: runs that are judged together must be there, and of the same models", ErrInvalid)
	}
	hopes := newHopes(cfgs, groups)
	for i := 0; i < len(cfgs) && !failed; i++ {
		var r *Result
		var err error
		if r, failed, err = within(cfgs[i], hopes, stop); err != nil {
			return sum, false, err
		}
		sum.add(r)
	}
	return sum, !failed && WorstBadRate(sum, groups) <= BadRateMax, nil
}

// add adds the counts of another run of the same models.
func (r *Result) add(o *Result) {
	if r.Models == nil {
		r.Models = make([]Counts, len(o.Models))
	}
	for i := range o.Models {
		r.Models[i].add(&o.Models[i])
	}
	r.All.add(&o.All)
}

// within runs while there are hopes; nil ones never end.
func within(cfg *Config, h *hopes, stop func() bool) (r *Result, failed bool, err error) {
	d, err := newRun(cfg)
	if err != nil {
		return nil, false, err
	}
	d.hopes = h
	if err := d.run(stop); err != nil {
		return nil, false, err
	}
	return d.result, d.failed, nil
}

// hopes counts the bad requests of each group as they become known.
type hopes struct {
	runs   []*Config // that are judged together
	groups []int
	bad    []int64
	most   []float64 // arrivals of the group: expected ones, or counted
	sure   bool      // counted
}

// newHopes is nil where arrivals cannot be drawn twice, or a run is wrong, which
// newRun tells.
func newHopes(runs []*Config, groups []int) *hopes {
	if slices.ContainsFunc(runs, func(c *Config) bool { return c.Source != nil || len(c.Models) == 0 }) {
		return nil
	}
	if groups == nil {
		groups = make([]int, len(runs[0].Models))
		for i := range groups {
			groups[i] = i
		}
	}
	h := &hopes{runs: runs, groups: groups, bad: make([]int64, slices.Max(groups)+1)}
	h.most = make([]float64, len(h.bad))
	for _, cfg := range runs {
		for i := range cfg.Models {
			h.most[groups[i]] += float64(cfg.Models[i].Stream.Rate * cfg.Duration.Seconds())
		}
	}
	return h
}

// hopeless notes a bad request. It tells whether its group has failed.
func (h *hopes) hopeless(model int) bool {
	g := h.groups[model]
	h.bad[g]++
	if float64(h.bad[g]) <= BadRateMax*h.most[g] {
		return false
	}
	if !h.sure {
		h.sure = true
		clear(h.most)
		for _, cfg := range h.runs {
			h.count(cfg)
		}
	}
	return float64(h.bad[g])/h.most[g] > BadRateMax
}

// count draws all arrivals of a run. Where that fails nothing is given up, and
// newRun will say why when it comes to that run.
func (h *hopes) count(cfg *Config) {
	mix, err := cfg.arrivals()
	if err != nil {
		for i := range h.most {
			h.most[i] = math.Inf(1)
		}
		return
	}
	from, to := mono.Time(cfg.Warmup), mono.Time(cfg.Warmup+cfg.Duration)
	for {
		at, model, ok := mix.Next()
		if !ok || at >= to {
			return
		}
		if at >= from {
			h.most[h.groups[model]]++
		}
	}
}
