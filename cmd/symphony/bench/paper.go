package bench

import (
	"os"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type paperCmd struct {
	Figures  []string `arg:"" optional:"" help:"fig1, fig2, ..., table2; all of the paper's by default. By name only: peaks, peaks7, surges, pauses, in which Symphony stands beside its whole deferral, and acting, in which the autoscaler acts."`
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

// options reads the flags.
func (c paperCmd) options() (o paper.Options, err error) {
	o = paper.Options{Out: folderOf(c.Out, "paper", c.Quick), Quick: c.Quick, Fresh: c.Fresh, Command: asGiven("paper", c.Quick)}
	o.Parallel, err = atATime(c.Parallel)
	return o, err
}
