package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/bench/frontier"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
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
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	opts.Progress = os.Stderr
	r := frontier.Result{Command: "symphony bench frontier", Version: version.Number, Core: sim.CoreVersion}
	if c.Quick {
		r.Command += " --quick"
	}
	if err := frontier.Run(ctx, r, frontier.Workloads(c.Quick), opts); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the report is in %s\n", filepath.Join(opts.Out, "REPORT.md"))
	return nil
}

// options reads the flags. A short run has a folder of its own: it must not write over the
// full report.
func (c frontierCmd) options() (frontier.Options, error) {
	o := frontier.Options{Out: c.Out, Quick: c.Quick, Parallel: c.Parallel}
	if c.Parallel < 0 {
		return o, fmt.Errorf("--parallel: %d, must be 1 or more, or 0 for one for each processor", c.Parallel)
	}
	if c.Parallel == 0 {
		o.Parallel = cli.Processors()
	}
	switch {
	case c.Out != "":
	case c.Quick:
		o.Out = filepath.Join("build", "frontier")
	default:
		o.Out = filepath.Join("bench", "frontier")
	}
	return o, nil
}
