package sim

import "slices"

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
	d, err := newRun(cfg)
	if err != nil {
		return nil, false, err
	}
	if cfg.Source == nil {
		d.hopes = newHopes(cfg, groups)
	}
	if err := d.run(stop); err != nil {
		return nil, false, err
	}
	return d.result, !d.failed && WorstBadRate(d.result, groups) <= BadRateMax, nil
}

// hopes counts the bad requests of each group as they become known.
type hopes struct {
	groups []int
	bad    []int64
	most   []float64 // arrivals of the group: expected ones, or counted
	sure   bool      // counted
}

func newHopes(cfg *Config, groups []int) *hopes {
	if groups == nil {
		groups = make([]int, len(cfg.Models))
		for i := range groups {
			groups[i] = i
		}
	}
	h := &hopes{groups: groups, bad: make([]int64, slices.Max(groups)+1)}
	h.most = make([]float64, len(h.bad))
	for i := range cfg.Models {
		h.most[groups[i]] += float64(cfg.Models[i].Stream.Rate * cfg.Duration.Seconds())
	}
	return h
}

// hopeless notes a bad request. It tells whether its group has failed.
func (h *hopes) hopeless(d *driver, model int) bool {
	g := h.groups[model]
	h.bad[g]++
	if float64(h.bad[g]) <= BadRateMax*h.most[g] {
		return false
	}
	if !h.sure {
		h.sure = true
		h.count(d)
	}
	return float64(h.bad[g])/h.most[g] > BadRateMax
}

// count draws all arrivals.
func (h *hopes) count(d *driver) {
	clear(h.most)
	mix, err := d.cfg.arrivals()
	if err != nil {
		panic("sim: the arrivals were drawn before: " + err.Error())
	}
	for {
		at, model, ok := mix.Next()
		if !ok || at >= d.to {
			return
		}
		if d.counted(at) {
			h.most[h.groups[model]]++
		}
	}
}
