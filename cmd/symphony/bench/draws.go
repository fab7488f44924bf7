package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/draws"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

type drawsCmd struct {
	Seed     uint64   `help:"Of the mixes. Seeds below 100 are for development." default:"1"`
	Mixes    int      `help:"How many." default:"200"`
	Only     []int    `help:"These alone, by their indices." placeholder:"INDEX"`
	Policies []string `help:"What is measured: names as of symphony sim --policy; all by default. Others count where they are kept." placeholder:"NAME"`
	Ours     string   `help:"The policy that is compared with the best of all others." default:"symphony" placeholder:"NAME"`
	Seconds  float64  `help:"Counted, of most simulations; a third as long before is not." default:"60"`
	Requests float64  `help:"Counted, of all models of a mix; where more would come, simulations are shorter." default:"300000"`
	Again    bool     `help:"Measure what came out below 0.99 again, longer and with three other seeds of arrivals judged together, and a part of the rest."`
	List     bool     `help:"Print the mixes and measure nothing."`
	JSON     bool     `name:"json" help:"With --list: as JSON."`
	Out      string   `help:"Folder for the report, data, plot, and the results that need not be simulated again (default build/draws)." type:"path" default:"build/draws" placeholder:"FOLDER"`
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
	o := draws.Options{Settings: draws.Defaults(), Seed: c.Seed, Mixes: c.Only, Policies: c.Policies, Ours: c.Ours, Out: c.Out, Fresh: c.Fresh, Again: c.Again, Progress: os.Stdout}
	o.Command = strings.Join(append([]string{"symphony"}, os.Args[1:]...), " ")
	o.Seconds, o.Requests = c.Seconds, c.Requests
	if err := c.checkMixes(); err != nil {
		return o, err
	}
	if !(c.Seconds >= 1 && c.Seconds <= 3600) {
		return o, fmt.Errorf("--seconds: %g, must be 1 to 3600", c.Seconds)
	}
	if !(c.Requests >= 1000) {
		return o, fmt.Errorf("--requests: %g, must be 1000 or more", c.Requests)
	}
	var err error
	if o.Parallel, err = atATime(c.Parallel); err != nil {
		return o, err
	}
	for i := range c.Mixes {
		if len(c.Only) == 0 {
			o.Mixes = append(o.Mixes, i)
		}
	}
	return o, nil
}

// mixesMost is a bound on the indices: a seed's mixes have room for more, but nobody time.
const mixesMost = 1_000_000

// checkMixes refuses mixes that there are not, and one that would be measured twice: two
// measurements of one mix at a time would both count, and both be kept.
func (c drawsCmd) checkMixes() error {
	if err := checkInts(intFlag{"mixes", c.Mixes, 1, mixesMost}); err != nil {
		return err
	}
	for i, index := range c.Only {
		if err := checkInts(intFlag{"only", index, 0, mixesMost - 1}); err != nil {
			return err
		}
		if slices.Contains(c.Only[:i], index) {
			return fmt.Errorf("--only: %d is there twice: name each mix once", index)
		}
	}
	if c.JSON && !c.List {
		return errors.New("--json is how --list prints: give --list, too; a report's data are in --out")
	}
	return nil
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
