// Package simcmd is `symphony sim`: flags to a scenario, seeds side by side, tables and
// records. The simulator is bench/sim, what a scenario may say bench/sim/scenario.
//
// A flag is a field of Command. What it adds to the simulation goes into scenario(),
// what it may not be combined with into check(), another way to run into run().
package simcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Command is `symphony sim`.
type Command struct {
	Models     []string `help:"The mix: NAME:ALPHA:BETA:SLO in ms, zoo:a100, zoo:1080ti, zoo:a100/NAME or FILE.csv, separated by commas; 8x before any of them for 8 copies." default:"zoo:a100" sep:","`
	GPUs       *int     `name:"gpus" help:"GPUs at the begin; 8 if not given." placeholder:"N"`
	Policy     string   `help:"symphony (the rule that serves), symphony/headroom:H (H of the need, or all), symphony/defer (the whole deferral), symphony/setting:S (one setting, as 0.5+frontrun or 0+cap92), symphony/head, symphony/paper, symphony/paper/target, symphony/code, eager, eager/target, timeout:K (K of the SLO), timeout/target:K, clockwork, clockwork/every, clockwork/pow2, shepherd, shepherd/calm, cork, cork/one, nexus or nexus/8fe." default:"symphony"`
	Rate       float64  `help:"Requests/s over all models. With --goodput where the search begins, 0: it finds a begin. With --trace what the trace is brought to, 0: as it is."`
	Arrivals   string   `help:"poisson, gamma:SHAPE, uniform or constant; poisson if not given." placeholder:"PROCESS"`
	Popularity string   `help:"equal or zipf:S; equal if not given." placeholder:"SHARES"`
	Profile    string   `name:"rate-profile" help:"How the rate changes, as in step:10s=2 or burst:period=60s,length=5s,height=4." placeholder:"PROFILE"`

	Trace       string   `help:"Arrivals from a file: lines of timestamp[,model], or counts for each minute (Azure Functions)." placeholder:"FILE"`
	TraceModels string   `help:"drawn (each arrival's model, by --popularity) or column (the file's second); drawn if not given." placeholder:"HOW"`
	TraceSpeed  *float64 `help:"Replay that many times as fast." placeholder:"FACTOR"`
	TraceLoop   bool     `help:"Begin again after the trace's end."`

	Network   string        `help:"Delays: none, constant:CTRL:DATA, rdma or tcp." default:"none"`
	Bound     string        `name:"network-bound" help:"What the scheduler plans with; the network's 99.99th percentile if not given." placeholder:"CTRL:DATA"`
	Jitter    float64       `help:"Batches take up to this share longer than profiled."`
	Pauses    []string      `help:"scheduler:LENGTH/EVERY or backend:LENGTH/EVERY: it stands still for LENGTH every EVERY, each GPU at instants of its own; /random behind it: EVERY is the mean. Repeatable." placeholder:"PAUSE" sep:","`
	Margin    string        `help:"measured (how late batches ended comes off deadlines, and how late orders left opens windows earlier, as in the live engine) or none; measured if not given with --pauses, else none." placeholder:"HOW"`
	Events    []string      `name:"gpu-event" help:"join:GPU@TIME, leave:GPU@TIME or fail:GPU@TIME; what runs on a GPU that leaves is cut. Repeatable." placeholder:"EVENT" sep:","`
	Detection time.Duration `help:"From a GPU's failure until the scheduler knows, if the GPU does not join again before."`
	Warmup    time.Duration `help:"Simulated span that is not counted." default:"2s"`
	Duration  time.Duration `help:"Simulated span that is counted." default:"10s"`
	Frontends *int          `help:"Requests come from so many frontends by turns; 1 if not given." placeholder:"N"`
	Seed      uint64        `help:"Seed of arrivals, network, jitter and pauses; the first one of --seeds." default:"1"`

	Goodput    bool           `help:"Search the highest rate at which every model's p99 is within its SLO."`
	Tolerance  *float64       `help:"Of --goodput: the last pass and the last failure differ by this share at most; 0.005 if not given." placeholder:"SHARE"`
	LeastGPUs  bool           `name:"least-gpus" help:"Search the least number of GPUs that this rate or trace needs; with --policy symphony for each headroom, the share of the need that may be used beyond it (0: full deferral, all: what there is)."`
	BadRate    *float64       `help:"Of --least-gpus: share of bad requests that no model may exceed; 0.01 if not given." placeholder:"SHARE"`
	QueueP99   *time.Duration `name:"queue-p99" help:"Of --least-gpus: 99 % of the requests wait no longer; no bound if not given." placeholder:"SPAN"`
	LatencyP99 *time.Duration `name:"latency-p99" help:"Of --least-gpus: 99 % of the requests are answered by then; no bound if not given." placeholder:"SPAN"`

	Seeds    int    `help:"Simulate with so many seeds, and give the mean and its 95 % confidence interval." default:"1"`
	Parallel int    `help:"Seeds simulated at a time; 0: one for each processor." default:"0"`
	Resume   string `help:"Keep each seed's result in this file (JSON lines), and simulate only what is not in it." placeholder:"FILE"`

	JSON  string `help:"Write the records as JSON to this file; - is standard output." placeholder:"FILE"`
	CSV   string `help:"Write the records as CSV to this file; - is standard output." placeholder:"FILE"`
	Quiet bool   `help:"No progress lines."`

	Timeline string         `help:"Draw who ran when to this file; both forms are written." placeholder:"FILE.svg|png"`
	From     *time.Duration `name:"timeline-from" help:"Simulated instant at which the drawing begins; the end of the warm-up if not given." placeholder:"TIME"`
	Span     *time.Duration `name:"timeline-span" help:"Simulated span that is drawn; 100ms if not given." placeholder:"SPAN"`

	EventsFile string `name:"events" help:"Write what the scheduler decided to this file, for symphony ui and symphony explain --file: the last minute of the run." placeholder:"FILE"`
}

// Run simulates, prints a table and writes the records.
func (c Command) Run() error {
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	stop := func() bool { return ctx.Err() != nil }
	form := progressPlain
	switch {
	case c.Quiet:
		form = progressNone
	case cli.IsTerminal(os.Stderr):
		form = progressTerminal
	}
	out := &cli.Checked{To: os.Stdout}
	if err := c.run(out, os.Stderr, form, stop); err != nil {
		return err
	}
	return out.Err
}

// run is Run with its surroundings handed in.
func (c Command) run(out, notes io.Writer, form progressForm, stop func() bool) (err error) {
	s, err := c.scenario() // its models first: a name that is wrong is more to the point than a rate that lacks
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	plan, err := s.Plan()
	if err != nil {
		return err
	}
	if most := guessMost * plan.Fluid(); c.Goodput && c.Rate > most && len(c.Events) == 0 {
		return fmt.Errorf("--rate: the search would begin at %g requests/s, more than %d times the most that the GPUs could carry (%.0f); leave it out", c.Rate, guessMost, most/guessMost)
	}
	if c.LeastGPUs {
		return c.runLeast(s, out, notes, form, stop)
	}
	files, err := openOutputs(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	batch := batch{cmd: c, plan: plan, notes: notes, stop: stop}
	if c.Timeline != "" {
		batch.timeline = newTimeline(c, plan)
	}
	if c.EventsFile != "" {
		batch.events = newEvents(plan)
	}
	outcomes, err := batch.run(form)
	if len(outcomes) > 0 {
		err = errors.Join(err, c.write(out, files, outcomes, func() { printOutcomes(out, outcomes) }))
	}
	if err == nil && batch.timeline != nil {
		err = batch.timeline.write(c.Timeline, notes)
	}
	if err == nil && batch.events != nil {
		err = files.write("events", batch.events.document())
	}
	return err
}

// check refuses flags that have no effect together.
func (c Command) check() error {
	switch {
	case c.JSON == "-" && c.CSV == "-":
		return errors.New("--json - and --csv -: only one of them can have standard output")
	case c.Seeds < 1 || c.Seeds > seedsMax:
		return fmt.Errorf("--seeds: %d, must be 1 to %d", c.Seeds, seedsMax)
	case c.Parallel < 0:
		return fmt.Errorf("--parallel: %d, must be 1 or more, or 0 for one for each processor", c.Parallel)
	case c.Frontends != nil && *c.Frontends < 1:
		return fmt.Errorf("--frontends: %d, must be 1 or more", *c.Frontends)
	case c.Trace == "" && (c.TraceModels != "" || c.TraceSpeed != nil || c.TraceLoop):
		return errors.New("--trace-models, --trace-speed and --trace-loop are about a trace: give --trace FILE")
	case c.Trace == "" && c.Rate == 0 && !c.Goodput:
		return errors.New("--rate: 0 requests/s; give a rate to simulate, or --goodput to search the highest that the GPUs carry")
	case c.TraceSpeed != nil && *c.TraceSpeed == 0:
		return errors.New("--trace-speed: 0, must be above 0; 1 is as it was recorded")
	case !c.Goodput && c.Tolerance != nil:
		return errors.New("--tolerance is about the search of a goodput: give --goodput")
	case c.EventsFile != "" && (c.Goodput || c.Seeds > 1 || c.Resume != ""):
		return errors.New("--events tells of one run: leave out --goodput, --seeds and --resume")
	case c.Timeline == "" && (c.From != nil || c.Span != nil):
		return errors.New("--timeline-from and --timeline-span are about a drawing: give --timeline FILE")
	case c.Timeline != "" && (c.Goodput || c.Seeds > 1):
		return errors.New("--timeline draws one run: leave out --goodput and --seeds")
	case c.Timeline != "" && c.Resume != "":
		return errors.New("--timeline needs the run itself: leave out --resume")
	}
	if err := c.checkLeast(); err != nil {
		return err
	}
	if c.Goodput {
		return scenario.CheckTolerance(c.tolerance())
	}
	return checkTimeline(c)
}

const (
	seedsMax = 1000
	// guessMost bounds where a search begins, in times the fluid bound: each step
	// down would simulate all that comes at such a rate. With GPUs that join the
	// bound is not known.
	guessMost = 10
)

// tolerance is --tolerance or its default.
func (c Command) tolerance() float64 {
	if c.Tolerance != nil {
		return *c.Tolerance
	}
	return 0.005
}

// scenario reads the flags.
func (c Command) scenario() (scenario.Scenario, error) {
	models, err := scenario.ParseModels(c.Models)
	if err != nil {
		return scenario.Scenario{}, err
	}
	s := scenario.Scenario{Models: models, GPUs: c.gpus(), Policy: c.Policy, Rate: c.Rate, Arrivals: c.Arrivals, Popularity: c.Popularity, RateProfile: c.Profile,
		Network: c.Network, Bound: c.Bound, Jitter: c.Jitter, Pauses: c.Pauses, Margin: c.Margin, Events: c.Events, Detection: mono.Dur(c.Detection),
		Warmup: mono.Dur(c.Warmup), Duration: mono.Dur(c.Duration), Seed: c.Seed}
	if c.Frontends != nil {
		s.Frontends = *c.Frontends
	}
	if c.Trace != "" {
		s.Trace = &scenario.Trace{File: c.Trace, Models: c.TraceModels, Loop: c.TraceLoop}
		if c.TraceSpeed != nil {
			s.Trace.Speed = *c.TraceSpeed
		}
	}
	return s, nil
}

// gpus is --gpus or its default; a search for their number begins elsewhere.
func (c Command) gpus() int {
	switch {
	case c.GPUs != nil:
		return *c.GPUs
	case c.LeastGPUs:
		return 1
	}
	return 8
}

// parallel is how many seeds are simulated at a time.
func (c Command) parallel() int {
	if c.Parallel > 0 {
		return c.Parallel
	}
	return cli.Processors()
}

// write writes the records, and prints the table unless they took its place.
func (c Command) write(out io.Writer, files *outputs, outcomes []*scenario.Outcome, table func()) error {
	var errs []error
	put := func(flag, path string, text []byte, err error) {
		if err == nil && path == "-" {
			_, err = out.Write(text)
		} else if err == nil {
			err = files.write(flag, text)
		}
		errs = append(errs, err)
	}
	if c.JSON != "" {
		text, err := asJSON(outcomes)
		put("json", c.JSON, text, err)
	}
	if c.CSV != "" {
		text, err := asCSV(outcomes)
		put("csv", c.CSV, text, err)
	}
	if c.JSON != "-" && c.CSV != "-" {
		table()
	}
	return errors.Join(errs...)
}
