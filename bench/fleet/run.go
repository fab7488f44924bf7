package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/results"
	"github.com/symphony-serving/symphony/bench/sim/fleet"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Options of a run.
type Options struct {
	Out      string // folder for REPORT.md, data and plots
	Quick    bool
	Seed     uint64
	Parallel int       // windows at a time; 0 means 1
	Progress io.Writer // nil: none
}

// Result is what was simulated.
type Result struct {
	Command string `json:"command"`
	Version string `json:"version"`
	Core    int    `json:"sim_core"`
	Size    Size   `json:"size"`
	Days    []Day  `json:"days"`
}

// Day is one under one planner.
type Day struct {
	Planner string        `json:"planner"`
	Totals  fleet.Totals  `json:"totals"`
	Epochs  []fleet.Epoch `json:"epochs"`
	Ticks   []fleet.Tick  `json:"ticks"`
	Windows []Stretch     `json:"windows"`
}

// Size is the cluster's.
type Size struct {
	GPUs        int     `json:"gpus"`
	Models      int     `json:"models"`
	SubClusters int     `json:"sub_clusters"`
	Hours       float64 `json:"hours"`
	Seed        uint64  `json:"seed"`
	Popularity  string  `json:"popularity"`
	Peak        float64 `json:"peak_need"`
	Stretch     float64 `json:"stretch_s"`
}

// Stretch is a window and what became of its requests.
type Stretch struct {
	From        float64            `json:"from_s"`
	Epoch       int                `json:"epoch"` // -1: none
	Still       bool               `json:"still"`
	SubClusters int                `json:"sub_clusters"`
	Result      fleet.WindowResult `json:"result"`
}

// config is the day. The catalogue, its popularity and its course are made up; the profiles are
// the paper's (Table 4).
func config(o Options) (fleet.Config, error) {
	c := fleet.Config{
		GPUs: 4096, Models: 10_000, SubClusters: 64, PerHost: 8, Memory: 80 << 30, Popularity: "zipf:0.8", Peak: 3400, Length: 24 * 3600 * mono.Second, Seed: o.Seed,
		MovesMax: 40, Reserve: 2 << 30, Limits: plan.Limits{Loads: 1024, LoadsHost: 8, Drained: 128, Warming: 128},
		Changes: 150, Failures: 144, Away: 900 * mono.Second, Restarts: 4, LoadFail: 0.0005, LoadLost: 0.0001, LoadRate: 2e9,
		Regular: 48, RollOuts: 24, Stretch: 2 * mono.Second, Warmup: mono.Second / 2,
	}
	if o.Quick {
		c.GPUs, c.Models, c.SubClusters, c.Peak, c.MovesMax, c.Memory = 256, 640, 8, 200, 8, 40<<30
		c.Changes, c.Failures, c.Regular, c.RollOuts = 60, 40, 24, 12
	}
	for _, m := range zoo.A100() {
		p, err := profile.Linear(m.Alpha, m.Beta, 256)
		if err != nil {
			return c, fmt.Errorf("model %s: %w", m.Name, err)
		}
		c.Base = append(c.Base, fleet.Base{Name: m.Name, Profile: p, SLO: m.SLO})
	}
	return c, nil
}

// Run goes through the day, simulates its windows, and writes report, data and plot. What is not
// finished when ctx ends is lost: a run takes minutes.
func Run(ctx context.Context, r Result, o Options) error {
	c, err := config(o)
	if err != nil {
		return err
	}
	return r.run(ctx, c, o)
}

func (r *Result) run(ctx context.Context, c fleet.Config, o Options) error {
	if err := report.Folder(o.Out).Make(); err != nil {
		return err
	}
	r.Size = Size{c.GPUs, c.Models, c.SubClusters, c.Length.Seconds() / 3600, c.Seed, c.Popularity, c.Peak, c.Stretch.Seconds()}
	for _, p := range planners() {
		c.Partition = p.by
		day, err := simulate(ctx, c, o, p.name)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.Days = append(r.Days, day)
	}
	return r.write(o)
}

// simulate the day, and then its windows.
func simulate(ctx context.Context, c fleet.Config, o Options, name string) (out Day, err error) {
	say := func(format string, args ...any) {
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, name+": "+format+"\n", args...)
		}
	}
	begin := time.Now()
	day, err := fleet.NewDay(c)
	if err != nil {
		return out, err
	}
	if err := day.Run(func() bool { return ctx.Err() != nil }); errors.Is(err, fleet.ErrStopped) {
		return out, results.ErrInterrupted
	} else if err != nil {
		return out, err
	}
	say("the control plane's day: %d steps, %d plans; %v", day.Totals.Steps, day.Totals.Plans, time.Since(begin).Round(time.Second))
	out = Day{Planner: name, Totals: day.Totals, Epochs: day.Epochs, Ticks: day.Ticks}
	windows := day.Windows()
	counted, err := results.Each(ctx, results.Jobs{What: name + ": windows", Parallel: o.Parallel, Progress: o.Progress}, windows,
		func(w fleet.Window, _ func() bool) (fleet.WindowResult, error) { return day.Simulate(w) })
	if err != nil {
		return out, err
	}
	for i, w := range windows {
		out.Windows = append(out.Windows, Stretch{mono.Dur(w.From).Seconds(), w.Epoch, w.Still, len(w.Subs), counted[i]})
	}
	say("%d windows request by request; %v in all", len(counted), time.Since(begin).Round(time.Second))
	return out, nil
}
