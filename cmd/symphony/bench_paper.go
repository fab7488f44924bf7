package main

import (
	"os"
	"runtime"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type paperCmd struct {
	Figures  []string `arg:"" optional:"" help:"fig1, fig2, ..., table2; all by default."`
	Quick    bool     `help:"Shorter simulations and thinner sweeps: a smoke test of a quarter of an hour."`
	Out      string   `help:"Folder for REPORT.md, data, plots and the results that need not be simulated again." default:"bench/paper" type:"path"`
	Parallel int      `name:"workers" help:"Simulations at a time; 0: one for each processor." default:"0"`
	Fresh    bool     `help:"Simulate again what has a result."`
}

// Run makes figures of the paper. Ctrl-C keeps what is done.
func (c paperCmd) Run() error {
	figures, err := paper.Choose(c.Figures)
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal(newLogger(config.Log{Level: "error"}))
	defer cancel()
	if c.Parallel <= 0 {
		c.Parallel = runtime.NumCPU()
	}
	command := "symphony bench paper"
	if c.Quick {
		command += " --quick"
	}
	return paper.Run(ctx, figures, paper.Options{Out: c.Out, Quick: c.Quick, Fresh: c.Fresh, Parallel: c.Parallel,
		Progress: os.Stderr, Terminal: isTerminal(os.Stderr), Command: command})
}
