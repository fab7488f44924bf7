package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/partition/highs"
	"github.com/symphony-serving/symphony/transport/mono"
)

type partitionCmd struct {
	Models     string        `help:"Models: a file .csv, .json or .yaml (see below), or zoo:N or zoo:N:SEED, N variants of the A100 zoo with exponential rates as the paper's appendix A draws them." required:"" placeholder:"FILE"`
	Clusters   string        `help:"Number of sub-clusters, or auto: as few as the caps allow." default:"auto" placeholder:"N|auto"`
	Memory     string        `help:"Memory of one GPU, as 80GiB; no cap if not given." placeholder:"SIZE"`
	RateMax    float64       `help:"Most requests/s of a sub-cluster: what one rank loop carries; 0: no cap." default:"1e6"`
	ModelsMax  int           `help:"Most models of a sub-cluster." default:"4096"`
	Objective  string        `help:"balance: requests/s and memory as equal as can be, as in the paper; gpus: the fewest GPUs." enum:"balance,gpus" default:"balance"`
	Weight     float64       `help:"What a byte of imbalance counts in requests/s; 0: both imbalances weigh the same." placeholder:"REQUESTS/S"`
	From       string        `help:"What there is now: the JSON of an earlier run, or of symphony plan show --json. Sub-clusters keep their names." placeholder:"PLAN"`
	DeviceType string        `help:"Device type of the GPUs, for the plan; not given: that of --from, or none, and symphony plan apply takes it. Sub-clusters of --from of other types stay as they are." placeholder:"TYPE"`
	Scheduler  string        `help:"Scheduler whose GPUs they are, where there are several (symphony plan show names them); not given: that of --from. Sub-clusters of --from of other schedulers stay as they are." placeholder:"ADDRESS"`
	MaxCost    string        `help:"Most cost of changes: a number in the models' unit of cost, or a share of the cost of all models, as 5%. With --from only." placeholder:"COST"`
	GPUs       int           `name:"gpus" help:"GPUs to deal to the sub-clusters; 0: as many as they need." placeholder:"N"`
	Residency  string        `help:"resident: all models of a sub-cluster are on each of its GPUs. paged: weights come and go as requests need them, and only resident models stay. auto: paged where --gpus GPUs of --memory cannot hold all models." enum:"auto,resident,paged" default:"auto"`
	Time       time.Duration `help:"How long to search." default:"10s"`
	Steps      int64         `help:"Search for so many steps (about 30 million a second) instead: one seed then has one result." placeholder:"N"`
	Solver     time.Duration `help:"With balance, where the search leaves 0.01 % or more to gain: how long the MILP solver (HiGHS) may try; 0: not at all." default:"5s"`
	Seed       uint64        `help:"Of the search." default:"1"`

	JSON    string `help:"Write the plan as JSON to this file, for symphony plan apply --file and --from; - is standard output, instead of the table." placeholder:"FILE"`
	Picture string `help:"Draw the sub-clusters before and after to this file; both forms are written." placeholder:"FILE.svg|png"`
	Moved   int    `help:"Moved models that are listed." default:"20"`
}

// Help is shown by --help.
func (partitionCmd) Help() string {
	return `Offline: no server is asked. Ctrl-C ends the search with the best so far.

FILE has a model in each line, or list entry, with the fields
  name                     unique; NAME/VERSION for a plan that is to be applied
  rate                     requests/s
  static, dynamic          memory: of the weights, and of a batch that runs: 512MiB, 1GiB, or bytes
  slo                      as 25ms; with it the need of GPUs is reckoned:
  alpha, beta              of the latency l(b) = alpha*b + beta: as 0.2ms; or
  profile                  a model of the A100 zoo by name: alpha, beta, SLO and memory, where they lack
  max_batch                256 if not given
  need                     GPUs, instead of being reckoned
  resident                 true: where weights come and go (--residency) it stays on every GPU of its sub-cluster
  cost                     of loading or unloading it; the static memory in bytes if not given
A CSV file names them in its first line. name and rate must be there; the rest as the objective needs it.`
}

// Run partitions, prints a table and writes the plan.
func (c partitionCmd) Run() error {
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	out := &cli.Checked{To: os.Stdout}
	if err := c.run(ctx, out, os.Stderr); err != nil {
		return err
	}
	return out.Err
}

// run is Run with its surroundings handed in.
func (c partitionCmd) run(ctx context.Context, out, notes io.Writer) error {
	if err := errors.Join(c.check(), cli.CheckWritable("json", c.JSON), c.checkPicture()); err != nil {
		return err
	}
	p, before, err := c.problem()
	if err != nil {
		return err
	}
	began := time.Now()
	more := func(steps int64) bool {
		if c.Steps > 0 {
			return ctx.Err() == nil && steps < c.Steps
		}
		return ctx.Err() == nil && time.Since(began) < c.Time
	}
	effort := partition.Effort{Seed: c.Seed, More: more}
	if c.Solver > 0 {
		effort.Solver, effort.SolverLimit = highs.New(ctx), mono.Dur(c.Solver)
	}
	r, failed, err := partition.Solve(p, effort)
	if err != nil {
		return c.explained(err)
	}
	if failed != nil {
		fmt.Fprintf(notes, "note: the solver did not help: %v\n", failed)
	}
	if ctx.Err() != nil {
		fmt.Fprintf(notes, "interrupted after %.1f s: this is the best so far\n", time.Since(began).Seconds())
	}
	v := newPartitionView(p, r, before, c.GPUs)
	if err := c.write(out, v); err != nil {
		return err
	}
	if c.Picture != "" {
		return v.draw(c.Picture)
	}
	return nil
}

// check refuses flags that mean nothing.
func (c partitionCmd) check() error {
	switch {
	case !(c.RateMax >= 0):
		return fmt.Errorf("--rate-max: %g requests/s, must be 0 (no cap) or more", c.RateMax)
	case c.ModelsMax < 0:
		return fmt.Errorf("--models-max: %d, must be 0 (no cap) or more", c.ModelsMax)
	case !(c.Weight >= 0):
		return fmt.Errorf("--weight: %g, must be 0 or more", c.Weight)
	case c.GPUs < 0:
		return fmt.Errorf("--gpus: %d, must be 0 or more", c.GPUs)
	case c.Moved < 0:
		return fmt.Errorf("--moved: %d, must be 0 or more", c.Moved)
	case c.Time < 0 || c.Solver < 0 || c.Steps < 0:
		return errors.New("--time, --steps and --solver must not be below 0")
	case strings.Contains(c.DeviceType, "/"):
		return fmt.Errorf("--device-type: %q is no device type: it must have no slash", c.DeviceType)
	case c.MaxCost != "" && c.From == "":
		return errors.New("--max-cost bounds what a change from --from costs: give --from PLAN")
	}
	return nil
}

// problem reads the models and the plan before, and chooses the number of sub-clusters.
func (c partitionCmd) problem() (*partition.Problem, planBefore, error) {
	before := planBefore{deviceType: c.DeviceType, scheduler: c.Scheduler}
	models, err := readModels(c.Models)
	if err != nil {
		return nil, before, err
	}
	p := &partition.Problem{Models: models, RateMax: c.RateMax, ModelsMax: c.ModelsMax, Weight: c.Weight, CostMax: math.Inf(1)}
	if c.Objective == "gpus" {
		p.Objective = partition.GPUs
		if err := needsKnown(models); err != nil {
			return nil, before, fmt.Errorf("--models %s: %w", c.Models, err)
		}
	}
	if c.Memory != "" {
		size, err := config.ParseSize(c.Memory)
		if err != nil || size == 0 {
			return nil, before, fmt.Errorf("--memory: %q, must be a size above 0, as 80GiB", c.Memory)
		}
		p.MemoryMax = int64(size)
	}
	if c.From != "" {
		if before, err = c.readFrom(p); err != nil {
			return nil, before, err
		}
		if p.CostMax, err = maxCost(c.MaxCost, p); err != nil {
			return nil, before, err
		}
	}
	if before.paged, err = c.page(&p); err != nil {
		return nil, before, err
	}
	if c.Clusters != "auto" {
		if p.SubClusters, err = strconv.Atoi(c.Clusters); err != nil || p.SubClusters < 1 || p.SubClusters > partition.SubClustersMost {
			return nil, before, fmt.Errorf("--clusters: %q, must be 1 to %d, or auto", c.Clusters, partition.SubClustersMost)
		}
	} else if p.SubClusters, err = partition.Fewest(p, c.Seed, fewestSteps); err != nil {
		return nil, before, c.explained(err)
	}
	if c.GPUs > 0 && p.SubClusters > c.GPUs {
		or := "--residency paged, if the devices can load on demand"
		if before.paged != "" {
			or = "mark fewer models resident, where that is why there are so many"
		}
		return nil, before, fmt.Errorf("%d sub-clusters need a GPU each, and there are %d (--gpus): give more GPUs, or more --memory, so that fewer sub-clusters hold the models; or %s", p.SubClusters, c.GPUs, or)
	}
	return p, before, p.Validate()
}

// page makes the problem one whose weights come and go, if it is to be; why says so in words.
func (c partitionCmd) page(p **partition.Problem) (why string, err error) {
	switch {
	case c.Residency == "paged":
		why = "asked for (--residency paged)"
	case c.Residency == "auto":
		n := c.GPUs
		if fixed, err := strconv.Atoi(c.Clusters); err == nil {
			n = min(n, fixed)
		}
		why = (*p).Overfull(n)
	}
	if why == "" {
		return "", nil
	}
	q, err := (*p).Paged()
	if err != nil {
		return "", c.explained(err)
	}
	*p = q
	return why, nil
}

// fewestSteps is what a number of sub-clusters is tried with: tenths of a second.
const fewestSteps = 3_000_000

// maxCost reads --max-cost.
func maxCost(text string, p *partition.Problem) (float64, error) {
	if text == "" {
		return math.Inf(1), nil
	}
	number, share := text, false
	if n := len(text) - 1; text[n] == '%' {
		number, share = text[:n], true
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) {
		return 0, fmt.Errorf("--max-cost: %q, must be a number of 0 or more, or a share as 5%%", text)
	}
	if !share {
		return v, nil
	}
	sum := 0.0
	for i := range p.Models {
		sum += p.Models[i].Cost
	}
	return v / 100 * sum, nil
}

// explained says which flags mend it.
func (c partitionCmd) explained(err error) error {
	if none := (*partition.Infeasible)(nil); errors.As(err, &none) {
		return fmt.Errorf("%w (--memory, --clusters, --rate-max, --models-max, --max-cost, --residency)", err)
	}
	return err
}

// write prints for people, and JSON.
func (c partitionCmd) write(out io.Writer, v *partitionView) error {
	if c.JSON != "-" {
		v.print(out, c.Moved)
	}
	if c.JSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(v.doc(), "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if c.JSON == "-" {
		_, err = out.Write(text)
		return err
	}
	if err := os.WriteFile(c.JSON, text, 0o644); err != nil {
		return cli.FileError("json", c.JSON, err)
	}
	return nil
}
