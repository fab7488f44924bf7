package frontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
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
	for _, dir := range []string{"data", "plots"} {
		if err := os.MkdirAll(filepath.Join(opts.Out, dir), 0o755); err != nil {
			return fmt.Errorf("--out: %w; give a folder that can be written", err)
		}
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
	r.Peaks, err = each(ctx, opts, "goodputs", searches, func(s sought, stop func() bool) (Peak, error) { return s.w.search(s.rule, stop) })
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
	r.Points, err = each(ctx, opts, "points", tasks, func(t task, stop func() bool) (Point, error) { return t.run(stop) })
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

// each computes one result for each of the jobs, in their order, some at a time.
func each[J, T any](ctx context.Context, opts Options, what string, jobs []J, run func(J, func() bool) (T, error)) ([]T, error) {
	out, errs := make([]T, len(jobs)), make([]error, len(jobs))
	var next, done atomic.Int64
	var failed atomic.Bool
	stop := func() bool { return ctx.Err() != nil || failed.Load() }
	quiet := tell(opts.Progress, what, &done, len(jobs))
	var all sync.WaitGroup
	for range max(1, opts.Parallel) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && !stop(); i = int(next.Add(1)) - 1 {
				if out[i], errs[i] = run(jobs[i], stop); errs[i] != nil {
					failed.Store(true)
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	quiet()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted: nothing is written")
	}
	return out, errors.Join(errs...)
}

// tell writes a line now and then until the returned func is called.
func tell(to io.Writer, what string, done *atomic.Int64, all int) (quiet func()) {
	if to == nil {
		return func() {}
	}
	begin, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	line := func() {
		fmt.Fprintf(to, "%s: %d of %d after %v\n", what, done.Load(), all, time.Since(begin).Round(time.Second))
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				line()
				return
			case <-tick.C:
				line()
			}
		}
	}()
	return func() { close(quit); <-ended }
}
