package bench

import (
	"context"
	"os"

	"github.com/symphony-serving/symphony/bench/frontier"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
)

type frontierCmd struct {
	Quick    bool   `help:"Shorter simulations and fewer loads: a minute."`
	Out      string `help:"Folder for REPORT.md, data and plots; bench/frontier if not given, with --quick build/frontier." type:"path" placeholder:"FOLDER"`
	Parallel int    `help:"Simulations at a time; 0: one for each processor." default:"0"`
}

// Help is shown by --help.
func (frontierCmd) Help() string {
	return "What latency costs in GPUs: zoos, one model, small mixes and bursts are simulated at 5 % to 100 % of their goodput, dispatched eagerly, by a timeout, with full deferral, and with Symphony's headrooms. Takes some minutes. Ctrl-C ends it, and nothing is written. Exit status 1 if interrupted."
}

// Run simulates, and writes the report.
func (c frontierCmd) Run() error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	opts.Progress = os.Stderr
	r := frontier.Result{Command: asGiven("frontier", c.Quick), Version: version.Number, Core: sim.CoreVersion}
	return reported(opts.Out, func(ctx context.Context) error { return frontier.Run(ctx, r, frontier.Workloads(c.Quick), opts) })
}

// options reads the flags.
func (c frontierCmd) options() (o frontier.Options, err error) {
	o = frontier.Options{Out: folderOf(c.Out, "frontier", c.Quick), Quick: c.Quick}
	o.Parallel, err = atATime(c.Parallel)
	return o, err
}
