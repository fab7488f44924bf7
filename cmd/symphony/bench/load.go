package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
)

type loadCmd struct {
	Scheduler   []string       `help:"Send through the Go client: the scheduler's address; of several all, with commas; of a group, of which one leads, with + between." placeholder:"tcp:HOST:PORT" sep:","`
	URL         string         `help:"Send over HTTP: the ingress's address." placeholder:"http://HOST:PORT"`
	Metrics     string         `help:"Where to read GPU busy shares: the scheduler's or the serving process's /metrics. With --url it is found by itself." placeholder:"http://HOST:PORT"`
	Models      []string       `help:"Models to ask, by name; a name ending in * is a prefix." default:"*" sep:","`
	Rate        float64        `help:"Requests/s over all models." default:"100"`
	Duration    time.Duration  `help:"Counted span." default:"10s"`
	Warmup      time.Duration  `help:"Span before it that is not counted." default:"2s"`
	Arrivals    string         `help:"poisson, gamma:SHAPE (bursts below 1), uniform or constant." default:"poisson"`
	Popularity  string         `help:"equal or zipf:S." default:"equal"`
	Seed        uint64         `help:"Seed of the arrivals." default:"1"`
	Replay      string         `help:"Play a recording (frontend.record) instead, all of it: its requests at their times, each with the time that its client gave it. --models says of which models." placeholder:"FILE"`
	Speed       float64        `help:"With --replay, how many times as fast." default:"1"`
	SLO         time.Duration  `help:"Deadline of every request; each model's own SLO if 0, which a server over HTTP tells as slo_ms in the model's configuration."`
	Input       []string       `help:"With --url, what every model is sent, in place of the inputs of its metadata: NAME:TYPE:SHAPE with the batch dimension, as in x:FP32:1x784. Repeatable." placeholder:"INPUT" sep:"none"`
	Margin      *time.Duration `help:"Taken off each budget for the way between client and server; by default 0 with --scheduler, 500us with --url."`
	Outstanding int            `help:"Most open requests." default:"20000"`
	Senders     int            `help:"HTTP connections." default:"512"`
	Token       string         `help:"The cluster's token." env:"SYMPHONY_TOKEN"`
	JSON        string         `help:"Write the report as JSON to this file; - is standard output, in the tables' place." placeholder:"FILE"`
	Quiet       bool           `help:"No progress line."`
}

// Run offers the load and prints the report; of what was counted, where it is
// interrupted.
func (c loadCmd) Run() error {
	err := c.check()
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(2, cli.Processors()))
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "warn"}))
	defer cancel()
	var play *recording
	if c.Replay != "" {
		if play, err = c.measure(); err != nil {
			return err
		}
		c = play.command
	}
	target, asked, closeTarget, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer closeTarget()
	rep, err := c.offer(ctx, target, asked, play)
	if web, ok := target.(*load.HTTPTarget); ok {
		defer printComplaints(os.Stderr, web.Complaints())
	}
	if err != nil {
		return err
	}
	failed := ""
	if !rep.Valid {
		failed = rep.Verdict
	}
	return showReport(os.Stdout, c.JSON, rep, rep.Print, failed)
}

// margin is what the flag says, and else what the way over HTTP on one machine takes.
func (c loadCmd) margin() time.Duration {
	switch {
	case c.Margin != nil:
		return *c.Margin
	case c.URL != "":
		return 500 * time.Microsecond
	}
	return 0
}

// target connects and finds the models.
func (c loadCmd) target(ctx context.Context) (load.Target, []askedModel, func(), error) {
	if c.URL != "" {
		return c.httpTarget()
	}
	dial, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := frontend.Dial(dial, frontend.Options{Schedulers: c.Scheduler, Name: "bench-load", Token: c.Token, MaxInFlight: c.Outstanding})
	if err != nil {
		return nil, nil, nil, err
	}
	var asked []askedModel
	var inputs []load.ModelInput
	for _, e := range client.Models().Entries {
		if e.Ready && wanted(e.Spec.Name, c.Models) {
			inputs = append(inputs, load.MakeInput(&e.Spec, uint64(len(asked))))
			asked = append(asked, askedModel{e.Spec.Name, cmp.Or(mono.Dur(c.SLO), e.Spec.SLO)})
		}
	}
	if len(asked) == 0 {
		client.Close()
		return nil, nil, nil, fmt.Errorf("no ready model matches %v", c.Models)
	}
	return &load.ClientTarget{Client: client, Models: inputs}, asked, func() { client.Close() }, nil
}

// askedModel is a model that gets load.
type askedModel struct {
	name string
	slo  mono.Dur
}

func wanted(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, ok := strings.CutSuffix(p, "*")
		return p == name || ok && strings.HasPrefix(name, prefix)
	})
}

// source is where the arrivals come from; play is nil where nothing is replayed. ended tells, after
// them, what was wrong.
func (c loadCmd) source(asked []askedModel, play *recording) (from load.Arrivals, ended func() error, err error) {
	if play != nil {
		return play.open(c, asked)
	}
	process, shape, err := c.arrivals()
	if err != nil {
		return nil, nil, err
	}
	from, err = workload.New(workload.Config{Process: process, Shape: shape, Rate: c.Rate, Models: len(asked), Popularity: c.Popularity, Seed: c.Seed})
	return from, func() error { return nil }, err
}

// offer runs the load and makes the report.
func (c loadCmd) offer(ctx context.Context, target load.Target, asked []askedModel, play *recording) (*report.Report, error) {
	gen, ended, err := c.source(asked, play)
	if err != nil {
		return nil, err
	}
	cfg := load.Config{Warmup: mono.Dur(c.Warmup), Duration: mono.Dur(c.Duration), OutstandingMax: c.Outstanding, Margin: mono.Dur(c.margin()), Drain: 5 * mono.Second}
	var names []string
	for _, m := range asked {
		names = append(names, m.name)
		cfg.SLO = append(cfg.SLO, m.slo)
	}
	rec := observer{report.NewRecorder(names)}
	counts := &load.Counts{}
	stop := c.progress(counts)
	busy := c.gpuBusy()
	counted := c.countedUntil(ctx)
	load.Run(ctx, cfg, target, gen, rec, counts)
	span := counted()
	stop()
	if err := ended(); err != nil {
		return nil, err
	}
	if span <= 0 {
		return nil, errors.New("interrupted in the warm-up: nothing was counted")
	}
	rep := &report.Report{Config: c.describe(names), Seconds: span.Seconds(), Interrupted: span < c.Duration, Offered: c.Rate, Sent: counts.Sent.Load(), Lost: counts.Lost(),
		Duplicates: counts.Duplicates.Load(), LagMean: counts.LagMean().Millis(), LagMax: mono.Dur(counts.LagMax.Load()).Millis(), GPUBusy: busy()}
	rep.All, rep.Models, rep.Batches, rep.BatchMean = rec.Summarise(rep.Seconds)
	rep.Judge()
	return rep, nil
}

// countedUntil starts a clock; the func returned says how much of the counted span
// had passed when the run was interrupted: all of it, if it was not or only later.
func (c loadCmd) countedUntil(ctx context.Context) func() time.Duration {
	start, interrupted := time.Now(), make(chan time.Duration, 1)
	unhook := context.AfterFunc(ctx, func() { interrupted <- time.Since(start) })
	return func() time.Duration {
		if unhook() {
			return c.Duration
		}
		return min(c.Duration, <-interrupted-c.Warmup)
	}
}

func (c loadCmd) describe(models []string) map[string]any {
	return map[string]any{"rate": c.Rate, "duration": c.Duration.String(), "warmup": c.Warmup.String(), "arrivals": c.Arrivals, "popularity": c.Popularity,
		"seed": c.Seed, "slo": c.SLO.String(), "models": models, "scheduler": strings.Join(c.Scheduler, ","), "url": c.URL, "replay": c.Replay, "speed": c.Speed, "version": version.Number}
}

// observer drops what belongs to the warm-up.
type observer struct{ *report.Recorder }

// Observe implements load.Observer.
func (o observer) Observe(b load.Observation) {
	if !b.Warmup {
		o.Add(report.Observation{Model: b.Model, Latency: b.Latency, Reason: b.Answer.Reason, BatchSize: b.Answer.BatchSize})
	}
}

// progress prints a line a second until the returned func is called.
func (c loadCmd) progress(n *load.Counts) (stop func()) {
	if c.Quiet || !cli.IsTerminal(os.Stderr) {
		return func() {}
	}
	var ended atomic.Bool
	start, total := time.Now(), c.Warmup+c.Duration
	go func() {
		for last := int64(0); !ended.Load(); time.Sleep(time.Second) {
			sent := n.Sent.Load()
			fmt.Fprintf(os.Stderr, "\r%3.0f s of %.0f s: %d r/s, %d open, %d sent   ", time.Since(start).Seconds(), total.Seconds(), sent-last, n.Lost(), sent)
			last = sent
		}
	}()
	return func() { ended.Store(true); fmt.Fprintln(os.Stderr) }
}
