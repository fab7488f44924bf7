package bench

import (
	"fmt"
	"os"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/bench/paper/clockwork"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type paperCmd struct {
	Figures  []string `arg:"" optional:"" help:"fig1, fig2, ..., table2; all of the paper's by default. Of clockwork: fig5, fig6, fig7left, fig7right, fig8, table65, compare. By name only: peaks, peaks7, surges, pauses, in which Symphony stands beside its whole deferral, and acting, in which the autoscaler acts."`
	Quick    bool     `help:"Shorter simulations and thinner sweeps: a smoke test of a quarter of an hour."`
	Of       string   `help:"The paper: symphony or clockwork." enum:"symphony,clockwork" default:"symphony"`
	Out      string   `help:"Folder for REPORT.md, data, plots and the results that need not be simulated again; bench/paper if not given, of clockwork bench/paper/clockwork, with --quick build/paper." type:"path" placeholder:"FOLDER"`
	Parallel int      `help:"Simulations at a time; 0: one for each processor." default:"0"`
	GPUs     int      `help:"Of clockwork, figure 8: GPUs; 0: 12 and 6." name:"gpus" default:"0" placeholder:"N"`
	Mapping  string   `help:"Of clockwork, figure 8: striped or sorted, how functions lie on models; both if not given." enum:",striped,sorted" default:""`
	Seconds  float64  `help:"Of clockwork, figure 8 and table65: seconds that are counted; 0: the paper's 8 h and 1 h." default:"0"`
	Fresh    bool     `help:"Simulate again what has a result. The results of other figures stay."`
}

// Help is shown by --help.
func (paperCmd) Help() string {
	return "Ctrl-C keeps what is done; the same command goes on from there. Exit status 1 if interrupted."
}

// Run makes figures of the paper. Ctrl-C keeps what is done.
func (c paperCmd) Run() error {
	figures, err := c.figures()
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

// figures are those that are asked for.
func (c paperCmd) figures() ([]paper.Figure, error) {
	if c.Of == ofClockwork {
		return c.clockwork().Choose(c.Figures)
	}
	return paper.Choose(c.Figures)
}

const ofClockwork = "clockwork"

// clockwork is the book with the options of its figures.
func (c paperCmd) clockwork() paper.Book {
	return clockwork.Book(clockwork.Options{GPUs: c.GPUs, Mapping: workload.Mapping(c.Mapping), Seconds: c.Seconds})
}

// options reads the flags.
func (c paperCmd) options() (o paper.Options, err error) {
	if c.GPUs < 0 || c.Seconds != 0 && !(c.Seconds >= 60) {
		return o, fmt.Errorf("--gpus %d, --seconds %g: GPUs must not be negative, and seconds be 0 or at least 60", c.GPUs, c.Seconds)
	}
	name, command := "paper", "paper"
	if c.Of == ofClockwork {
		name, command = "paper/clockwork", "paper --of clockwork"
		o.Book, o.Lines = c.clockwork(), os.Stdout
	}
	command = asGiven(command, c.Quick)
	if c.GPUs > 0 {
		command += fmt.Sprintf(" --gpus %d", c.GPUs)
	}
	if c.Mapping != "" {
		command += " --mapping " + c.Mapping
	}
	if c.Seconds > 0 {
		command += fmt.Sprintf(" --seconds %g", c.Seconds)
	}
	o.Out, o.Quick, o.Fresh, o.Command = folderOf(c.Out, name, c.Quick), c.Quick, c.Fresh, command
	o.Parallel, err = atATime(c.Parallel)
	return o, err
}
