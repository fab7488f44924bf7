package frontier

import (
	"context"
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/results"
)

// Options of a run.
type Options struct {
	Out      string // folder for REPORT.md, data and plots
	Quick    bool
	Parallel int       // simulations at a time; 0 means 1
	Progress io.Writer // nil: none
}

// Result is what was measured.
type Result struct {
	Command string  `json:"command"`
	Version string  `json:"version"`
	Core    int     `json:"sim_core"`
	Peaks   []Peak  `json:"peaks"`
	Points  []Point `json:"points"`
}

// Run searches the goodputs, simulates every rule at every load, and writes report, data and plots.
// What is not finished when ctx ends is lost: a run takes minutes.
func Run(ctx context.Context, r Result, workloads []Workload, opts Options) error {
	if err := report.Folder(opts.Out).Make(); err != nil {
		return err
	}
	if err := r.measure(ctx, workloads, opts); err != nil {
		return err
	}
	return r.write(workloads, opts)
}

// measure searches, and then simulates.
func (r *Result) measure(ctx context.Context, workloads []Workload, opts Options) (err error) {
	type sought struct {
		w    *Workload
		rule Rule
	}
	var searches []sought
	for i := range workloads {
		for _, rule := range searched() {
			searches = append(searches, sought{&workloads[i], rule})
		}
	}
	r.Peaks, err = results.Each(ctx, opts.jobs("goodputs"), searches, func(s sought, stop func() bool) (Peak, error) { return s.w.search(s.rule, stop) })
	if err != nil {
		return err
	}
	var tasks []task
	for i := range workloads {
		best := r.best(workloads[i].Name).Goodput
		if best == 0 {
			return fmt.Errorf("%s: no rule has a goodput", workloads[i].Name)
		}
		tasks = append(tasks, workloads[i].tasks(best, opts.Quick)...)
	}
	r.Points, err = results.Each(ctx, opts.jobs("points"), tasks, func(t task, stop func() bool) (Point, error) { return t.run(stop) })
	return err
}

// best is the rule with the highest goodput.
func (r *Result) best(workload string) (best Peak) {
	for _, p := range r.Peaks {
		if p.Workload == workload && p.Goodput > best.Goodput {
			best = p
		}
	}
	return best
}

// jobs says how simulations are done.
func (o Options) jobs(what string) results.Jobs {
	return results.Jobs{What: what, Parallel: o.Parallel, Progress: o.Progress}
}
