package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/symphony-serving/symphony/bench/draws"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type drawsCmd struct {
	Seed     uint64   `help:"Of the mixes. Seeds below 100 are for development." default:"1"`
	Mixes    int      `help:"How many." default:"200"`
	Only     []int    `help:"These alone, by their indices." placeholder:"INDEX,..."`
	Policies []string `help:"What is measured: names as of symphony sim --policy; all by default. Others count where they are kept." placeholder:"NAME,..."`
	Seconds  float64  `help:"Counted, of most simulations; a third as long before is not." default:"60"`
	List     bool     `help:"Print the mixes and measure nothing."`
	JSON     bool     `name:"json" help:"With --list: as JSON."`
	Out      string   `help:"Folder for the report, data, plot, and the results that need not be simulated again." type:"path" default:"build/draws" placeholder:"FOLDER"`
	Parallel int      `help:"Mixes at a time; 0: one for each processor." default:"0"`
	Fresh    bool     `help:"Measure the policies again, those that are kept too."`
}

// Help is shown by --help.
func (drawsCmd) Help() string {
	return "Ctrl-C keeps what is done; the same command goes on from there. Exit status 1 if interrupted."
}

// Run measures policies on random mixes.
func (c drawsCmd) Run() error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	if c.List {
		return c.list(opts)
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	return draws.Bench(ctx, opts, os.Stdout)
}

func (c drawsCmd) options() (draws.Options, error) {
	o := draws.Options{Settings: draws.Defaults(), Seed: c.Seed, Mixes: c.Only, Policies: c.Policies, Out: c.Out, Fresh: c.Fresh, Parallel: c.Parallel, Progress: os.Stdout}
	o.Seconds = c.Seconds
	if !(c.Seconds >= 1 && c.Seconds <= 3600) {
		return o, fmt.Errorf("--seconds: %g, must be 1 to 3600", c.Seconds)
	}
	if c.Parallel == 0 {
		o.Parallel = runtime.NumCPU()
	}
	for i := range c.Mixes {
		if len(c.Only) == 0 {
			o.Mixes = append(o.Mixes, i)
		}
	}
	return o, nil
}

// list prints the mixes.
func (c drawsCmd) list(o draws.Options) error {
	for _, i := range o.Mixes {
		m := draws.Draw(o.Seed, i)
		if !c.JSON {
			fmt.Printf("%s: %s\n", m.Name(), m)
			continue
		}
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", text)
	}
	return nil
}
