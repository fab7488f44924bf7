package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type paperCmd struct {
	Figures  []string `arg:"" optional:"" help:"fig1, fig2, ..., table2; all of the paper's by default. By name only: peaks, peaks7, surges, pauses, in which Symphony stands beside its whole deferral."`
	Quick    bool     `help:"Shorter simulations and thinner sweeps: a smoke test of a quarter of an hour."`
	Out      string   `help:"Folder for REPORT.md, data, plots and the results that need not be simulated again; bench/paper if not given, with --quick build/paper." type:"path" placeholder:"FOLDER"`
	Parallel int      `help:"Simulations at a time; 0: one for each processor." default:"0"`
	Fresh    bool     `help:"Simulate again what has a result. The results of other figures stay."`
}

// Help is shown by --help.
func (paperCmd) Help() string {
	return "Ctrl-C keeps what is done; the same command goes on from there. Exit status 1 if interrupted."
}

// Run makes figures of the paper. Ctrl-C keeps what is done.
func (c paperCmd) Run() error {
	figures, err := paper.Choose(c.Figures)
	if err != nil {
		return err
	}
	opts, err := c.options()
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	opts.Progress, opts.Terminal = os.Stderr, cli.IsTerminal(os.Stderr)
	return paper.Run(ctx, figures, opts)
}

// options reads the flags. A smoke test has a folder of its own: it must not
// write over the full report.
func (c paperCmd) options() (paper.Options, error) {
	o := paper.Options{Out: c.Out, Quick: c.Quick, Fresh: c.Fresh, Parallel: c.Parallel, Command: "symphony bench paper"}
	if c.Parallel < 0 {
		return o, fmt.Errorf("--parallel: %d, must be 1 or more, or 0 for one for each processor", c.Parallel)
	}
	if c.Parallel == 0 {
		o.Parallel = cli.Processors()
	}
	if c.Quick {
		o.Command += " --quick"
	}
	switch {
	case c.Out != "":
	case c.Quick:
		o.Out = filepath.Join("build", "paper")
	default:
		o.Out = filepath.Join("bench", "paper")
	}
	return o, nil
}
