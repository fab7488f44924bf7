package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/soak"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/transport/mono"
)

type soakCmd struct {
	Duration time.Duration `help:"Span of load with faults, after the warm-up." default:"30m"`
	Warmup   time.Duration `help:"Span of load before it, without faults; not counted." default:"10s"`
	Seed     uint64        `help:"Seed of the plan of faults, and of the arrivals." default:"1"`
	Load     float64       `help:"Share of the emulated GPUs' capacity that is offered." default:"0.7"`
	Every    time.Duration `help:"Mean span from fault to fault." default:"15s"`
	Faults   []string      `help:"Kinds of faults; all if not given: symphony bench soak --plan shows some." sep:","`
	Slack    float64       `help:"Multiply every SLO, and with them the batches' times: for machines busy with other things." default:"1"`
	JSON     string        `help:"Write the result as JSON to this file; - is standard output." placeholder:"FILE"`
	Plan     bool          `help:"Print the plan of faults and end."`
	Quiet    bool          `help:"No progress."`
}

// Help is shown by --help.
func (soakCmd) Help() string {
	return "Starts a scheduler, backends with emulated GPUs and frontends as processes on loopback ports, loads them through the Go client and over HTTP, and does to them what the plan of the seed says: kills, stops, slow and cut links, garbage. Demands one answer to each request, its own; no leaks; each model's SLO between the faults. It takes the warm-up, the duration, and up to a minute to start and to end. Ctrl-C ends it with a report of what was counted. Exit status 1 unless it passed."
}

// Run soaks.
func (c soakCmd) Run() error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if c.Plan {
		return c.printPlan(cfg)
	}
	if err := cli.CheckWritable("json", c.JSON); err != nil {
		return err
	}
	if cfg.Binary, err = os.Executable(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(2, cli.Processors()))
	debug.SetGCPercent(config.Default().GCPercent)
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	res, err := soak.Run(ctx, cfg, ownGroup(), soakRegistry())
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted before the load began: nothing was counted")
		}
		return err
	}
	out := &cli.Checked{To: os.Stdout}
	if c.JSON != "-" {
		res.Print(out)
	}
	if c.JSON != "" {
		if err := c.write(res, out); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if !res.Passed {
		if c.JSON == "-" {
			return errors.New(res.Verdict)
		}
		return cli.Told(os.Stdout, res.Verdict)
	}
	return out.Err
}

func (c soakCmd) config() (soak.Config, error) {
	cfg := soak.Default()
	cfg.Duration, cfg.Warmup, cfg.Every, cfg.Seed, cfg.Load = mono.Dur(c.Duration), mono.Dur(c.Warmup), mono.Dur(c.Every), c.Seed, c.Load
	if !(c.Slack >= 1 && c.Slack <= 100) { // NaN, too
		return cfg, fmt.Errorf("--slack: %v, must be between 1 and 100", c.Slack)
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		m.Alpha, m.Beta, m.SLO = times(m.Alpha, c.Slack), times(m.Beta, c.Slack), times(m.SLO, c.Slack)
	}
	if len(c.Faults) > 0 {
		cfg.Kinds = nil
		for _, name := range c.Faults {
			if !strings.Contains(" "+soakKinds()+",", " "+name+",") {
				return cfg, fmt.Errorf("--faults: %q is none of %s", name, soakKinds())
			}
			cfg.Kinds = append(cfg.Kinds, soak.Kind(name))
		}
	}
	if !c.Quiet {
		cfg.Progress = func(p soak.Progress) { soakProgress(os.Stderr, p) }
	}
	return cfg, cfg.Check()
}

func times(d mono.Dur, by float64) mono.Dur { return mono.Dur(float64(d) * by) }

func soakKinds() string {
	var names []string
	for _, k := range soak.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// ownGroup: the parts end with the soak however that ends, but not with its Ctrl-C,
// which a terminal sends to a whole group.
func ownGroup() *syscall.SysProcAttr {
	attr := endWithParent()
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setpgid = true
	return attr
}

// soakRegistry is what parts register of themselves, too (newParts).
func soakRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func soakProgress(to io.Writer, p soak.Progress) {
	state := "calm"
	if p.Now != "" {
		state = p.Now
	}
	fmt.Fprintf(to, "%5.0f s: %d asked, %d open, %d outputs; twice %d, foreign %d, overdue %d; bad between faults %.3f %%; fault %d: %s; violations %d\n",
		p.Elapsed.Seconds(), p.Counts.Asked, p.Counts.Open, p.Counts.Outputs, p.Counts.Twice, p.Counts.Foreign, p.Counts.Overdue, 100*p.BadRate, p.Faults, state, p.Failed)
}

// printPlan shows what a seed will do.
func (c soakCmd) printPlan(cfg soak.Config) error {
	if c.JSON != "" {
		return errors.New("--json: the plan is only printed; without --plan it is in the result")
	}
	out := &cli.Checked{To: os.Stdout}
	plan := soak.PlanOf(cfg)
	t := report.Table(out)
	fmt.Fprintln(t, "at s\tfault\tof\tfor\tdelay\t")
	span := func(d mono.Dur, to time.Duration) string {
		if d == 0 {
			return "-"
		}
		return d.Std().Round(to).String()
	}
	for _, f := range plan {
		fmt.Fprintf(t, "%.1f\t%s\t%s\t%s\t%s\t\n", f.At.Seconds(), f.Kind, cfg.Target(f), span(f.Hold, time.Millisecond), span(f.Delay, time.Microsecond))
	}
	t.Flush()
	fmt.Fprintf(out, "%d faults in %v of load.\n", len(plan), c.Duration)
	return out.Err
}

func (c soakCmd) write(res *soak.Result, out io.Writer) error {
	text, err := json.MarshalIndent(struct {
		Command string `json:"command"`
		Version string `json:"version"`
		*soak.Result
	}{strings.Join(append([]string{"symphony"}, os.Args[1:]...), " "), version.Number, res}, "", " ")
	if err != nil {
		return err
	}
	if c.JSON == "-" {
		_, err = out.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(c.JSON, append(text, '\n'), 0o644)
}
