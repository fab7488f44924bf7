package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/symphony-serving/symphony/bench/cold"
	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

type coldCmd struct {
	Models  int           `help:"Emulated: ResNet50, all alike; the first is asked 200 times a second [3601]. With --real: copies [12]." default:"0"`
	Seconds float64       `help:"The counted span. Emulated: from the second model to the last [360]. With --real: with loads, and so long again without [60]." default:"0"`
	SLO     time.Duration `name:"slo" help:"Of all models [100ms; with --real 1s]." default:"0s"`
	GPUs    int           `name:"gpus" help:"Emulated V100s." default:"1"`
	Pages   int           `help:"Of each GPU, 16 MiB each; a model takes 7." default:"1376"`
	Share   float64       `help:"Ask the others only as often as fits into this share of the GPUs' and the links' time, as 0.6, and hold that all requests are in time. 0: 1,000 times a second together, as in Clockwork's Figure 6, most of which no system could serve." default:"0"`
	Links   string        `help:"Between the parts: tcp or inproc." default:"tcp" enum:"tcp,inproc"`
	Spans   int           `help:"Parts of the run that are told one by one." default:"12"`
	Seed    uint64        `help:"Of the arrivals." default:"1"`
	JSON    string        `help:"Write the report as JSON to this file; - is standard output, in the tables' place." placeholder:"FILE"`
	Quiet   bool          `help:"No progress line."`

	Real       bool   `help:"Real sessions of ONNX Runtime on this host's processors in the GPUs' place: copies of a model, of which some fit, with loads and without by turns."`
	Room       int    `help:"With --real: copies that fit into the memory for sessions." default:"4"`
	Rounds     int    `help:"With --real: turns, with loads and without." default:"4"`
	Model      string `help:"With --real: the model of which there are copies." default:"digits-wide"`
	Repository string `help:"With --real: the folder that has it." default:"examples/digits/models" type:"path"`
	ONNX       string `name:"onnxruntime" help:"With --real: libonnxruntime.so, if not as for symphony serve." type:"path" placeholder:"FILE"`
}

// Help is shown by --help.
func (coldCmd) Help() string {
	return "More models than fit into the GPUs' memory, live: the whole system in one process with emulated GPUs that have pages, Clockwork's Figure 6 (one model asked steadily, the others sharing a rate, with one more of them each tenth of a second), and the simulator on the same arrivals beside it. It tells what share of the requests was served in time, refused or late, of what the GPUs and their links could bear at best, loads, evictions, hits, and by how much the times of batches and loads were off. In time are held to be the requests that were not refused, or with --share all. " +
		"With --real the models are sessions of ONNX Runtime on the CPU, made and ended as requests need them, and it is told what that costs those that are there: their latency and their batches' length, and the process's memory, beside the same requests on the copies that fit, by turns. " +
		"Ctrl-C ends the run and prints what was measured by then, without a simulation. Exit status 1 if interrupted, or if a claim does not hold."
}

// Run measures.
func (c coldCmd) Run() error {
	c = c.filled()
	if err := c.check(); err != nil {
		return err
	}
	if c.Real {
		return c.runReal()
	}
	cfg := c.measured()
	w, err := cfg.NewWatcher()
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(max(2, cli.Processors()))
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	s, end, err := c.start(ctx, w)
	if err != nil {
		return err
	}
	tell, ended := c.progress()
	r, err := cold.Run(ctx, cfg, s, w, tell)
	ended()
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	rep := &coldReport{provenance: newProvenance(), Result: r}
	return showReport(os.Stdout, c.JSON, rep, rep.print, r.Failed())
}

// filled has what depends on --real and was not given.
func (c coldCmd) filled() coldCmd {
	models, seconds, slo := 3601, 360.0, 100*time.Millisecond
	if c.Real {
		models, seconds, slo = 12, 60, time.Second
	}
	c.Models, c.Seconds, c.SLO = cmp.Or(c.Models, models), cmp.Or(c.Seconds, seconds), cmp.Or(c.SLO, slo)
	return c
}

// measured is the configuration of the run.
func (c coldCmd) measured() cold.Config {
	return cold.Config{Models: c.Models, Growth: mono.FromSeconds(c.Seconds), SLO: mono.Dur(c.SLO), GPUs: c.GPUs, Pages: c.Pages, Seed: c.Seed, Share: c.Share,
		Spans: c.Spans, Sending: c.sending()}
}

// sending waits for the last answers for longer than any may take.
func (c coldCmd) sending() cold.Sending {
	return cold.Sending{OutstandingMax: 20000, Drain: mono.Dur(c.SLO) + 5*mono.Second}
}

func (c coldCmd) check() error {
	if c.Real {
		return c.checkReal()
	}
	if c.Room != 4 || c.Rounds != 4 || c.ONNX != "" || c.Model != "digits-wide" {
		return errors.New("--room, --rounds, --model and --onnxruntime are of --real: give that, too")
	}
	if err := checkInts(intFlag{"models", c.Models, 2, 4096}, intFlag{"gpus", c.GPUs, 1, 64}, intFlag{"pages", c.Pages, 14, 1 << 20}, intFlag{"spans", c.Spans, 1, 1000}); err != nil {
		return err
	}
	if err := checkBounds(bounded[float64]{"seconds", c.Seconds, 1, 86400}, bounded[float64]{"share", c.Share, 0, 1}); err != nil {
		return err
	}
	return checkBounds(bounded[time.Duration]{"slo", c.SLO, 25 * time.Millisecond, 10 * time.Second})
}

func (c coldCmd) checkReal() error {
	if c.GPUs != 1 || c.Pages != 1376 || c.Share != 0 || c.Spans != 12 {
		return errors.New("--gpus, --pages, --share and --spans are of emulated GPUs: with --real there are --room and --rounds")
	}
	if err := checkInts(intFlag{"models", c.Models, 3, 1000}, intFlag{"room", c.Room, 2, c.Models - 1}, intFlag{"rounds", c.Rounds, 1, 1000}); err != nil {
		return err
	}
	if err := checkBounds(bounded[float64]{"seconds", c.Seconds, float64(c.Rounds), 86400}); err != nil {
		return err
	}
	return checkBounds(bounded[time.Duration]{"slo", c.SLO, 25 * time.Millisecond, time.Minute})
}

// coldModel is the row of the table that all models are.
const coldModel = "resnet50_v1"

func (c coldCmd) names() []string {
	var names []string
	for i := range c.Models {
		names = append(names, fmt.Sprintf("%s-%d", coldModel, i))
	}
	return names
}

// config is of a whole system whose devices have pages; table is the zoo's.
func (c coldCmd) config(table string) config.Config {
	cfg := quietSystem(c.Links)
	cfg.Backend.Pools = []config.Pool{{DeviceType: "v100", Kind: "emulated", Devices: c.GPUs, Paged: &config.Paged{Page: zoo.PageSize, Pages: c.Pages},
		Zoo: []config.Zoo{{CSV: table, Models: []string{coldModel}, Copies: c.Models, SLO: mono.Dur(c.SLO)}}}}
	return cfg
}

// start serves until end is called; every model is known then, and none is on a device.
func (c coldCmd) start(ctx context.Context, w *cold.Watcher) (_ *cold.System, end func() error, err error) {
	dir, err := os.MkdirTemp("", "symphony-cold-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir) // it is read at the start
	table := filepath.Join(dir, "v100.csv")
	if err := os.WriteFile(table, []byte(zoo.V100Table()), 0o644); err != nil {
		return nil, nil, err
	}
	p, err := parts.New(c.config(table))
	if err != nil {
		return nil, nil, err
	}
	p.Watch = watchCold(w)
	s, err := p.ServeLibrary(ctx)
	if err != nil {
		return nil, nil, err
	}
	names := c.names()
	if err := s.Client.WaitReady(ctx, names...); err != nil {
		return nil, nil, errors.Join(err, s.Drain())
	}
	return &cold.System{Client: s.Client, Models: names}, s.Drain, nil
}

// watchCold tells the watcher of the scheduler's orders.
func watchCold(w *cold.Watcher) server.Watch {
	return server.Watch{
		Dispatched: func(d *shard.Dispatch) { w.Dispatched(d.Batch, len(d.Requests), d.Until) },
		Done:       w.Done,
		Ordered:    func(o *engine.LoadOrder) { w.Ordered(wire.LoadID(o.ID), o.Start, o.Until) },
		Loaded:     w.Loaded,
	}
}

// progress tells what was sent, where somebody looks.
func (c coldCmd) progress() (tell func(*load.Counts), ended func()) {
	if c.Quiet || !cli.IsTerminal(os.Stderr) {
		return nil, func() {}
	}
	start := time.Now()
	line, ended := overheadProgress(os.Stderr, true)
	return func(n *load.Counts) {
		line(fmt.Sprintf("%3.0f s of %.0f s: %d sent, %d open", time.Since(start).Seconds(), c.Seconds, n.Sent.Load(), n.Lost()))
	}, ended
}

// coldReport is a Result and all that must stand beside it.
type coldReport struct {
	provenance
	*cold.Result
}

func (r *coldReport) print(to io.Writer) {
	r.provenance.print(to, "all parts in one process")
	r.Print(to)
}
