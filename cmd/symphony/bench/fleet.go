package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/bench/fleet"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
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
	o := fleet.Options{Out: c.Out, Quick: c.Quick, Seed: c.Seed, Parallel: c.Parallel, Progress: os.Stderr}
	if c.Parallel < 0 {
		return fmt.Errorf("--parallel: %d, must be 1 or more, or 0 for one for each processor", c.Parallel)
	}
	if c.Parallel == 0 {
		o.Parallel = cli.Processors()
	}
	r := fleet.Result{Command: "symphony bench fleet", Version: version.Number, Core: sim.CoreVersion}
	switch {
	case c.Out != "":
	case c.Quick: // a short run must not write over the full report
		o.Out = filepath.Join("build", "fleet")
	default:
		o.Out = filepath.Join("bench", "fleet")
	}
	if c.Quick {
		r.Command += " --quick"
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	if err := fleet.Run(ctx, r, o); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the report is in %s\n", filepath.Join(o.Out, "REPORT.md"))
	return nil
}
