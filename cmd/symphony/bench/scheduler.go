package bench

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/symphony-serving/symphony/bench/schedbench"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

type schedulerCmd struct {
	Loops    *int           `help:"Model loops, 1 to 64 [1]." placeholder:"N"`
	GPUs     *int           `name:"gpus" help:"Emulated GPUs, 8 to 4096 [64]." placeholder:"N"`
	Models   *int           `help:"Models, equally popular, 1 to 1000 [20]." placeholder:"N"`
	Arrivals string         `help:"Arrivals of each model: poisson, or gamma, which come in bursts." default:"poisson" enum:"poisson,gamma"`
	Shape    *float64       `help:"Shape of gamma; below 1 bursts (default 0.3)." placeholder:"SHAPE"`
	Rate     *float64       `help:"Offer so many requests/s. Without it, the highest rate with a bad rate below 1 % is sought." placeholder:"R"`
	Duration *time.Duration `help:"Span of each run that counts; a warm-up comes before it [5s; in the suite 2s]." placeholder:"SPAN"`
	SLO      *time.Duration `name:"slo" help:"Latency SLO [100ms]." placeholder:"SPAN"`
	Profile  string         `help:"A model's profile and SLO for all models, from the A100 zoo by name or as name:alpha:beta:slo in ms. Without it the profile is made for the rate, so that any number of GPUs is about 75 % busy in batches of about 17." placeholder:"MODEL"`
	Quantum  time.Duration  `help:"How long the generator sleeps between two looks." default:"200us"`
	Pin      []int          `help:"Processors of the model loops' threads and then of the rank loop's; others float." placeholder:"CPU"`
	Wait     string         `help:"Loops without work: park (sleep), poll (look a while, then sleep), spin (for ever); auto: by the processors." default:"auto" enum:"auto,park,poll,spin"`
	Rank     string         `name:"rank-thread" help:"The rank loop's thread: own, shared (with the first model loop); auto: by the processors." default:"auto" enum:"auto,own,shared"`
	Spin     time.Duration  `help:"How long before an instant a parked loop wakes up to spin." default:"0"`
	Doze     time.Duration  `help:"How long requests that come in a dense row may wait for a model loop." default:"0"`
	Tuner    float64        `help:"Share of a processor for choosing how much of the deferral is spent, 0 to 0.5; 0: nothing is chosen, the whole deferral is spent." default:"0.02" placeholder:"SHARE"`
	Seed     uint64         `help:"Seed of the arrivals." default:"1"`

	Cores   bool     `help:"Only drive the bare cores on one thread under a virtual clock, stage by stage."`
	Scaling bool     `help:"Only measure one and two model loops, and reckon what 16 and 32 cores would do."`
	Disturb *float64 `help:"Only measure grants' delay beside a process that keeps the second core busy this share of the time, 0.01 to 1, and without it." placeholder:"SHARE"`
	Heap    string   `help:"Only measure grants' delay beside so large a live heap of pointers and some garbage, and without it: 512MiB, 2GiB." placeholder:"SIZE"`
	Garbage string   `help:"With --heap: garbage made per second [1GiB]." placeholder:"SIZE"`
	Replay  bool     `help:"Only record a run at --rate (100000 if not given) and replay it through the bare cores: every grant must be equal."`

	CompareTuner bool `help:"Only measure with the tuner and without, by turns, at --rate or at 1000, 20000 and 500000 requests/s: what it takes of a processor, and how late orders are."`

	JSON  string `name:"json" help:"Write the results as JSON to this file; - is standard output, in the tables' place." type:"path" placeholder:"FILE"`
	Out   string `help:"Start of the picture's names: FILE.svg and FILE.png. Drawn of --scaling, and of the suite that runs without flags." type:"path" placeholder:"FILE"`
	Quiet bool   `help:"No progress."`

	DisturbChild float64 `hidden:"" name:"disturb-child"` // be the process of --disturb
}

// suiteSpan is how long each of the suite's runs counts: some fifty, in about three
// minutes.
const suiteSpan = 2 * mono.Second

// shapeBursts is the gamma distribution's where none is given.
const shapeBursts = 0.3

// Help is shown by --help.
func (schedulerCmd) Help() string {
	return "The scheduler alone, as in the paper's section 5.5: requests and GPUs are objects of this process. Without a flag that says what to measure, a suite of about three minutes; with --loops, --gpus or --models the highest rate they carry; with --rate one run at that rate. Ctrl-C ends the run and prints what was counted by then. Exit status 1 if interrupted."
}

// Run measures.
func (c schedulerCmd) Run() error {
	if c.DisturbChild > 0 {
		return disturb(c.DisturbChild)
	}
	plan, err := c.plan()
	if err != nil {
		return err
	}
	if err := c.tryFiles(); err != nil {
		return err
	}
	// Every loop that must be on time holds a P, as where it serves (ARCHITECTURE.md).
	runtime.GOMAXPROCS(cli.Processors() + max(2, orZero(c.Loops)) + 2)
	debug.SetGCPercent(config.Default().GCPercent)
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	ended := func() {}
	if !c.Quiet {
		plan.Tell, ended = schedulerProgress(os.Stderr, cli.IsTerminal(os.Stderr))
	}
	r, err := schedbench.Measure(ctx, plan)
	ended()
	if err != nil {
		return err
	}
	return c.report(r).show(os.Stdout, c.JSON, c.Out)
}

// plan checks the flags.
func (c schedulerCmd) plan() (schedbench.Plan, error) {
	p := schedbench.Plan{Config: schedbench.Config{Loops: orZero(c.Loops), GPUs: orZero(c.GPUs), Models: orZero(c.Models), Process: workload.Process(c.Arrivals),
		Rate: orZero(c.Rate), Duration: mono.Dur(cmp.Or(orZero(c.Duration), 5*time.Second)), SLO: mono.Dur(orZero(c.SLO)), Quantum: mono.Dur(c.Quantum), Seed: c.Seed, Tuner: c.Tuner,
		Placement: c.placement(max(1, orZero(c.Loops)))}, Place: c.placement}
	if p.Process == workload.Gamma {
		if p.Shape = shapeBursts; c.Shape != nil {
			p.Shape = *c.Shape
		}
	}
	if err := c.check(ring.Cores()); err != nil {
		return p, err
	}
	if err := c.planParts(&p); err != nil {
		return p, err
	}
	return p, p.Check()
}

// placement is as where it serves, but that processors can be named.
func (c schedulerCmd) placement(loops int) engine.Placement {
	p := parts.Placement(config.Scheduler{ModelLoops: loops, ModelWait: c.Wait, RankWait: c.Wait, RankThread: c.Rank,
		Spin: mono.Dur(c.Spin), Doze: mono.Dur(c.Doze)})
	if len(c.Pin) > 0 {
		p.Cores = c.Pin
	}
	return p
}

// planParts says which parts are measured.
func (c schedulerCmd) planParts(p *schedbench.Plan) error {
	if c.Profile != "" {
		m, err := zooModel(c.Profile)
		if err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
		p.Zoo = &m
	}
	p.Cores, p.Scaling, p.Replay, p.Compare = c.Cores, c.Scaling, c.Replay, c.CompareTuner
	if p.Compare && c.Duration == nil {
		p.Duration = schedbench.TunerTurnSpan
	}
	if c.Disturb != nil {
		p.Disturb, p.Disturber = *c.Disturb, startDisturber
	}
	if c.Heap != "" {
		var err error
		if p.Heap, err = sizeFlag("heap", c.Heap, 1<<20, 64<<30); err != nil {
			return err
		}
		if p.Garbage, err = sizeFlag("garbage", cmp.Or(c.Garbage, "1GiB"), 0, 4<<30); err != nil {
			return err
		}
	}
	special := p.Cores || p.Scaling || p.Replay || p.Disturb > 0 || p.Heap > 0 || p.Compare
	switch {
	case c.Rate != nil && !special:
		p.Point = true
	case !special && (c.Loops != nil || c.GPUs != nil || c.Models != nil || c.Profile != ""):
		p.Search = true
	case !special:
		p.Suite, p.Disturber = true, startDisturber
		if c.Duration == nil {
			p.Duration = suiteSpan
		}
	}
	if c.Out != "" && !p.Suite && !p.Scaling {
		return errors.New("--out: nothing is drawn of this run; give --scaling, or leave --out out")
	}
	return nil
}

func zooModel(name string) (zoo.Model, error) {
	for _, m := range zoo.A100() {
		if m.Name == name {
			return m, nil
		}
	}
	m, err := zoo.Parse(name)
	if err != nil {
		return m, fmt.Errorf("no model of the A100 zoo, and %w", err)
	}
	return m, nil
}
