package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/bench/subclusters"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type subclustersCmd struct {
	Fit      bool    `help:"Fit what sub-clusters take beyond their needs (partition.GPUsFor) instead."`
	Samples  int     `help:"Of --fit: sub-clusters that are drawn." default:"600"`
	Seed     uint64  `help:"The first seed. 1 to 5 were developed on, the results in the documents are of 11 to 13." default:"11"`
	Seeds    int     `help:"Draws of each workload." default:"3"`
	Requests float64 `help:"Requests that are counted of each sub-cluster in each simulation." default:"60000"`
	Parallel int     `help:"Draws at a time; 0: one for each processor." default:"0"`
}

// Help is shown by --help.
func (subclustersCmd) Help() string {
	return "GPUs needed for 99 % in time, by simulation, where models are divided by the paper's objective (balance of rate and memory) and by ours (the fewest GPUs). A minute or two. Exit status 1 if interrupted."
}

// Run simulates, and prints a table.
func (c subclustersCmd) Run() error {
	switch {
	case c.Samples < 3 || c.Seeds < 1:
		return fmt.Errorf("--samples %d, --seeds %d: at least 3 samples and 1 seed", c.Samples, c.Seeds)
	case !(c.Requests >= 1000 && c.Requests <= 1e8):
		return fmt.Errorf("--requests: %g, must be 1000 to 1e8", c.Requests)
	case c.Parallel < 0:
		return fmt.Errorf("--parallel: %d, must be 1 or more, or 0 for one for each processor", c.Parallel)
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	out := &cli.Checked{To: os.Stdout}
	run := c.compare
	if c.Fit {
		run = c.fit
	}
	if err := run(ctx, out); err != nil {
		return err
	}
	return out.Err
}

// each calls do for 0 to n-1, some at a time, and returns the first error.
func (c subclustersCmd) each(ctx context.Context, n int, do func(i int, stop func() bool) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parallel := c.Parallel
	if parallel == 0 {
		parallel = cli.Processors()
	}
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(parallel, n) {
		all.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				if err := do(i, func() bool { return ctx.Err() != nil }); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("nothing is printed: %w", context.Cause(ctx))
	}
	return nil
}

func (c subclustersCmd) fit(ctx context.Context, out io.Writer) error {
	samples := make([]subclusters.Sample, c.Samples)
	err := c.each(ctx, c.Samples, func(i int, stop func() bool) (err error) {
		samples[i], err = subclusters.Simulate(c.Seed+uint64(i), c.Requests, stop)
		return err
	})
	if err != nil {
		return err
	}
	f := subclusters.FitTo(samples)
	fmt.Fprintf(out, "%d sub-clusters from seed %d on: GPUs = need + %.3f * hold/need * haste/rate + %.3f * loose/need + %.3f, rounded up\n", f.Samples, c.Seed, f.Hold, f.Loose, f.Base)
	fmt.Fprintf(out, "left over: %.3f GPUs (root of the mean square; %.3f of it is the rounding); by the formula in use: %.3f\n", f.Residual, math.Sqrt(1.0/12), f.Formula)
	return nil
}

func (c subclustersCmd) compare(ctx context.Context, out io.Writer) error {
	workloads := subclusters.Workloads()
	outcomes := make([]subclusters.Outcome, len(workloads)*c.Seeds)
	err := c.each(ctx, len(outcomes), func(i int, stop func() bool) (err error) {
		outcomes[i], err = subclusters.Compare(workloads[i/c.Seeds], c.Seed+uint64(i%c.Seeds), c.Requests, stop)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "GPUs needed for 99 % of the requests in time. paper: balance of rate and memory, on one sub-cluster for 40 models;")
	fmt.Fprintln(out, "equal: all of them as many as the neediest; by need: each what it needs. same: balance on as few sub-clusters as ours.")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tseed\tneed\tpaper's sub-clusters\tequal\tby need\tours' sub-clusters\tsame\tours\tours/equal\tours/by need\tours/same\t")
	row := func(name, seed string, need float64, l, equal, dealt, few, same, ours float64) {
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.3g\t%.4g\t%.4g\t%.3g\t%.4g\t%.4g\t%.3f\t%.3f\t%.3f\t\n", name, seed, need, l, equal, dealt, few, same, ours, ours/equal, ours/dealt, ours/same)
	}
	for w := range workloads {
		var s [7]float64
		for k := range c.Seeds {
			o := &outcomes[w*c.Seeds+k]
			v := [7]float64{o.Need, float64(o.Paper), float64(o.Equal), float64(o.Dealt), float64(o.SubClusters), float64(o.Same), float64(o.Ours)}
			row(o.Workload, fmt.Sprint(o.Seed), v[0], v[1], v[2], v[3], v[4], v[5], v[6])
			for i := range s {
				s[i] += v[i] / float64(c.Seeds)
			}
		}
		row(workloads[w].Name, "mean", s[0], s[1], s[2], s[3], s[4], s[5], s[6])
	}
	return t.Flush()
}
