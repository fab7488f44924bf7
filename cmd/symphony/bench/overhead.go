package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/overhead"
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
)

type overheadCmd struct {
	Links    string        `help:"tcp, inproc, or both, one after the other." default:"both" enum:"tcp,inproc,both"`
	Duration time.Duration `help:"Span of each load that is measured; the search of the highest rate takes some ten times a quarter of it." default:"5s"`
	Rate     float64       `help:"Requests/s that the loads are shares of; 0 searches the highest with a bad rate below 1 %. A given rate is what two programs are compared at." placeholder:"R"`
	Loads    []int         `help:"Loads, in percent." default:"10,50,90"`
	Models   int           `help:"Models; each request is of one by chance." default:"4"`
	GPUs     int           `name:"gpus" help:"Emulated GPUs." default:"64"`
	Batch    int           `help:"Largest batch." default:"16"`
	Bytes    int           `help:"Bytes of an input and of an output." default:"64"`
	SLO      time.Duration `name:"slo" help:"Of all models." default:"25ms"`
	Seed     uint64        `help:"Of the arrivals." default:"1"`
	Out      string        `help:"Folder, made if there is none, for NAME.txt, NAME.json and the plot NAME.svg/.png." type:"path" placeholder:"FOLDER"`
	Name     string        `help:"Start of the files' names." default:"overhead"`
	Quiet    bool          `help:"No progress."`
}

// Help is shown by --help.
func (overheadCmd) Help() string {
	return "The whole system in one process, with emulated GPUs, once with in-process links and once over TCP loopback: the highest rate with a bad rate below 1 %, and at shares of it (--loads) the time that a request spends anywhere but in waiting by design (deferral, a busy GPU) and in execution, by stage. Ctrl-C ends the run and prints what was measured by then. Exit status 1 if interrupted, or if no rate was carried."
}

// Run measures.
func (c overheadCmd) Run() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Out != "" {
		if err := tryFolder(c.Out); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	cfg := overhead.Config{Duration: mono.Dur(c.Duration), Payload: c.Bytes, Batch: c.Batch, Seed: c.Seed, Rate: c.Rate, Loads: c.Loads, Ways: c.ways()}
	ended := func() {}
	if !c.Quiet {
		cfg.Progress, ended = overheadProgress(os.Stderr, cli.IsTerminal(os.Stderr))
	}
	r, err := overhead.Measure(ctx, cfg)
	ended()
	if err != nil {
		return err
	}
	rep := &overheadReport{provenance: newProvenance(), Result: r}
	out := &cli.Checked{To: os.Stdout}
	rep.print(out)
	if c.Out != "" {
		if err := rep.write(c.Out, c.Name); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if r.Interrupted && out.Err == nil {
		return cli.Told(os.Stdout, "interrupted: the report has what was measured by then")
	}
	for i := range r.Ways {
		w := &r.Ways[i]
		switch {
		case len(w.Loads) > 0 || out.Err != nil:
		case w.Given:
			return cli.Told(os.Stdout, "nothing was measured over "+w.Name+": give a higher --rate or a longer --duration")
		default:
			return cli.Told(os.Stdout, "no rate was carried over "+w.Name+": give a larger --slo, more --gpus, or an idler machine")
		}
	}
	return out.Err
}

func (c overheadCmd) check() error {
	if err := checkInts(intFlag{"models", c.Models, 1, 1024}, intFlag{"gpus", c.GPUs, 1, 4096}, intFlag{"batch", c.Batch, 1, 1024}, intFlag{"bytes", c.Bytes, 4, 1 << 20}); err != nil {
		return err
	}
	if err := checkBounds(bounded[time.Duration]{"duration", c.Duration, 100 * time.Millisecond, time.Hour}); err != nil {
		return err
	}
	for _, p := range c.Loads {
		if p < 1 || p > 100 {
			return fmt.Errorf("--loads: %d, must be between 1 and 100", p)
		}
	}
	switch {
	case len(c.Loads) == 0:
		return errors.New("--loads: must name at least one, in percent")
	case c.Rate != 0 && !(c.Rate >= 1 && c.Rate <= 1e8): // NaN, too
		return fmt.Errorf("--rate: %v, must be 0 or between 1 and 1e8", c.Rate)
	case c.Bytes%4 != 0:
		return fmt.Errorf("--bytes: %d, must be a multiple of 4: tensors are of FP32", c.Bytes)
	case c.SLO < 10*time.Millisecond || c.SLO > time.Minute:
		return fmt.Errorf("--slo: %v, must be between 10ms and 1m", c.SLO)
	case c.Name == "":
		return errors.New("--name: must not be empty")
	}
	return checkFileName(c.Name)
}

// The emulated models: a batch takes overheadAlpha*b + overheadBeta ms.
const (
	overheadAlpha = 0.005
	overheadBeta  = 1
)

func (c overheadCmd) ways() []overhead.Way {
	var ways []overhead.Way
	for _, links := range []string{"inproc", "tcp"} {
		if c.Links == links || c.Links == "both" {
			w := wholeSystem{Links: links, Models: c.Models, GPUs: c.GPUs, MaxBatch: c.Batch, Floats: c.Bytes / 4,
				Alpha: overheadAlpha, Beta: overheadBeta, SLO: mono.Dur(c.SLO)}
			ways = append(ways, overhead.Way{Name: links, Start: w.measured})
		}
	}
	return ways
}

// measured starts the system with the recorder told of everything.
func (w wholeSystem) measured(ctx context.Context, rec *overhead.Recorder) (*overhead.System, func() error, error) {
	dir, err := os.MkdirTemp("", "symphony-overhead-")
	if err != nil {
		return nil, nil, err
	}
	watch := server.Watch{Submitted: rec.Submitted, Done: rec.Reported, Dispatched: func(d *shard.Dispatch) {
		rec.Dispatched(d.Batch, d.GPU, d.Due)
		for i := range d.Requests {
			rec.Member(d.Batch, d.Requests[i].ID)
		}
	}}
	s, end, err := w.start(ctx, dir, watch)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	m := &overhead.System{Client: s.Client}
	for _, e := range s.Client.Models().Entries {
		in := load.MakeInput(&e.Spec, 1)
		m.Requests = append(m.Requests, frontend.Request{Model: in.Name, Inputs: in.Inputs, Timeout: e.Spec.SLO.Std()})
	}
	return m, func() error { return errors.Join(end(), os.RemoveAll(dir)) }, nil
}

// overheadProgress rewrites one line on a terminal and writes lines elsewhere.
func overheadProgress(to io.Writer, terminal bool) (tell func(string), ended func()) {
	if !terminal {
		return func(text string) { fmt.Fprintln(to, text) }, func() {}
	}
	return func(text string) { fmt.Fprintf(to, "\r\033[K%s", text) }, func() { fmt.Fprint(to, "\r\033[K") }
}

// overheadReport is a Result and all that must stand beside it.
type overheadReport struct {
	provenance
	*overhead.Result
}

func (r *overheadReport) print(to io.Writer) {
	r.provenance.print(to, "all parts in one process")
	r.Print(to)
}

// write makes the files.
func (r *overheadReport) write(folder, name string) error {
	base := filepath.Join(folder, name)
	if err := writeReport(base, r.print, r); err != nil {
		return err
	}
	if r.Floor.Hops.P50 == 0 {
		return nil // interrupted before there was anything to show
	}
	return plot.Write(base, plot.Size{W: 7, H: 4.2}, r.Picture())
}
