package frontier

import (
	"slices"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// Point is one rule at one load.
type Point struct {
	Workload   string  `json:"workload"`
	Rule       string  `json:"rule"`
	Load       float64 `json:"load"`        // share of the goodput of the best rule
	Rate       float64 `json:"rate_rps"`    // asked for
	Fixed      bool    `json:"fixed"`       // a rate of Workload.Rates, not a share
	Offered    float64 `json:"offered_rps"` // that came
	QueueP50   float64 `json:"queue_p50_ms"`
	QueueP99   float64 `json:"queue_p99_ms"`
	LatencyP50 float64 `json:"latency_p50_ms"`
	LatencyP99 float64 `json:"latency_p99_ms"`
	Running    float64 `json:"gpus_running"` // mean number that run at a time
	GPUs       int     `json:"gpus_99"`      // that carry 99 % of the GPU time, from id 0 on
	Any        int     `json:"gpus_any"`     // that ran anything
	Busy       float64 `json:"busy"`         // share of all GPUs' time
	Need       float64 `json:"need"`         // GPUs that deferral alone would keep busy
	BadRate    float64 `json:"bad_rate"`
	Batch      float64 `json:"batch_mean"`
}

// Peak is what the search found for one rule.
type Peak struct {
	Workload string  `json:"workload"`
	Rule     string  `json:"rule"`
	Goodput  float64 `json:"goodput_rps"`
}

// task is a rule that is yet to be simulated at a rate.
type task struct {
	w     *Workload
	rule  Rule
	load  float64
	rate  float64
	fixed bool
}

// tasks of a workload whose best goodput is known, by load and then by rule.
func (w *Workload) tasks(best float64, quick bool) (out []task) {
	add := func(rate, load float64, fixed bool) {
		for _, r := range Rules() {
			out = append(out, task{w, r, load, rate, fixed})
		}
	}
	for _, load := range loads(quick) {
		add(load*best, load, false)
	}
	for _, rate := range w.Rates {
		add(rate, rate/best, true)
	}
	slices.SortStableFunc(out, func(a, b task) int {
		switch {
		case a.load < b.load:
			return -1
		case a.load > b.load:
			return 1
		}
		return 0
	})
	return out
}

func (t *task) run(stop func() bool) (Point, error) {
	plan, err := t.w.plan(t.rule, t.rate)
	if err != nil {
		return Point{}, err
	}
	o, err := plan.Simulate(sim.Observer{}, stop)
	if err != nil {
		return Point{}, err
	}
	return t.point(o), nil
}

func (t *task) point(o *scenario.Outcome) Point {
	a := &o.All
	return Point{Workload: t.w.Name, Rule: t.rule.Name, Load: t.load, Rate: t.rate, Fixed: t.fixed, Offered: a.Offered,
		QueueP50: a.QueueP50, QueueP99: a.QueueP99, LatencyP50: a.LatencyP50, LatencyP99: a.LatencyP99,
		Running: o.GPUBusy * float64(len(o.GPUs)), GPUs: o.GPUsMost, Any: o.GPUsUsed, Busy: o.GPUBusy, Need: o.Need, BadRate: a.BadRate, Batch: a.Batch}
}

// search finds a rule's goodput.
func (w *Workload) search(r Rule, stop func() bool) (Peak, error) {
	plan, err := w.plan(r, 0)
	if err != nil {
		return Peak{}, err
	}
	o, err := plan.FindGoodput(seed, tolerance, nil, stop)
	if err != nil {
		return Peak{}, err
	}
	return Peak{w.Name, r.Name, o.Search.Rate}, nil
}

const tolerance = 0.01
