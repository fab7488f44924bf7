package bench

import (
	"context"
	"os"

	"github.com/symphony-serving/symphony/bench/fleet"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
)

type fleetCmd struct {
	Quick    bool   `help:"A cluster of 256 GPUs instead of 4,096: less than a minute."`
	Out      string `help:"Folder for REPORT.md, data and plots; bench/fleet if not given, with --quick build/fleet." type:"path" placeholder:"FOLDER"`
	Seed     uint64 `help:"Of the catalogue, the day's events, and the arrivals." default:"1"`
	Parallel int    `help:"Windows simulated at a time; 0: one for each processor." default:"0"`
}

// Help is shown by --help.
func (fleetCmd) Help() string {
	return "A day of 4,096 GPUs, 10,000 models and 64 sub-clusters, all synthetic: the control plane's steps, with loading times, failures and GPUs that die, are simulated one by one, and stretches of the day request by request. Takes some minutes. Ctrl-C ends it, and nothing is written. Exit status 1 if interrupted."
}

// Run simulates, and writes the report.
func (c fleetCmd) Run() error {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Progress = os.Stderr
	r := fleet.Result{Command: asGiven("fleet", c.Quick), Version: version.Number, Core: sim.CoreVersion}
	return reported(o.Out, func(ctx context.Context) error { return fleet.Run(ctx, r, o) })
}

// options reads the flags.
func (c fleetCmd) options() (o fleet.Options, err error) {
	o = fleet.Options{Out: folderOf(c.Out, "fleet", c.Quick), Quick: c.Quick, Seed: c.Seed}
	o.Parallel, err = atATime(c.Parallel)
	return o, err
}
