package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/backend/snapshot"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

type profileCmd struct {
	cli.Flags  `embed:""`
	Model      string `arg:"" help:"The model's name in the repository."`
	Repository string `help:"Folder of models (backend.repository)." placeholder:"DIR"`
	// Not Version: --version is of the program, everywhere, and would win.
	Version    string `name:"model-version" help:"The model's version; the highest that is there if empty."`
	Kind       string `help:"What to measure on: cpu, cuda." enum:"cpu,cuda" default:"cpu"`
	DeviceType string `help:"Device type to measure for; cpu, or the GPU's name, if empty."`
	Threads    int    `help:"Threads of one execution on a CPU." default:"1"`
	GPU        string `help:"With --kind cuda: the GPU, by index or UUID; the first one if empty." placeholder:"ID"`
	Precision  string `help:"With --kind cuda: fp32, tf32 or fp16, if the model does not say; fp32 if empty."`
	Provider   string `help:"With --kind cuda: cuda or tensorrt, if the model does not say; cuda if empty."`
	Rounds     int    `help:"Counted runs per batch size." default:"50"`
	Seconds    int    `help:"Most seconds for the whole measurement." default:"30"`
	DryRun     bool   `help:"Print only, write nothing."`
}

// Run measures, prints a table and the fit, and writes the profile.
func (c profileCmd) Run() error {
	for _, f := range []struct {
		name string
		v    int
	}{{"threads", c.Threads}, {"rounds", c.Rounds}, {"seconds", c.Seconds}} {
		if f.v < 1 {
			return fmt.Errorf("--%s: %d, must be at least 1", f.name, f.v)
		}
	}
	cfg, err := c.Load(config.Set{Key: "backend.repository", Value: c.Repository})
	if err != nil {
		return err
	}
	log := cli.Logger(cfg.Log)
	ctx, cancel := cli.UntilSignal(log)
	defer cancel()
	m, err := c.find(cfg.Backend.Repository)
	if err != nil {
		return err
	}
	var copies snapshot.Store // the files may change while they run
	defer func() { _ = copies.Close() }()
	own, _, err := copies.Take(ctx, m)
	if err != nil {
		return err
	}
	m = &own
	measure := c.onCPU
	if c.Kind == backend.KindCUDA {
		measure = c.onGPU
	}
	r, key, err := measure(ctx, cfg.Backend, log, m, profiler.Options{Rounds: c.Rounds, Budget: mono.Dur(c.Seconds) * mono.Second,
		Progress: func(i, of int, p profiler.Point) {
			fmt.Fprintf(os.Stderr, "\rbatch size %d (%d of %d) ", p.Batch, i, of)
		}})
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return m.Explain(err)
	}
	printProfile(m.Spec.Key(), r)
	if c.DryRun {
		return nil
	}
	path, err := profiler.Write(key, r)
	if err == nil {
		fmt.Printf("written to %s, for %s\n", path, key.Where())
	}
	return err
}

func (c profileCmd) onCPU(ctx context.Context, b config.Backend, _ zerolog.Logger, m *repository.Model, o profiler.Options) (*profiler.Result, profiler.Key, error) {
	if err := onnx.Load(parts.ONNXLibrary(b.ONNXRuntime)); err != nil {
		return nil, profiler.Key{}, err
	}
	s, err := onnx.Open(m.Path, &m.Spec, c.Threads)
	if err != nil {
		return nil, profiler.Key{}, err
	}
	defer s.Close()
	d, err := onnx.NewBeside(ctx, s, c.Threads, true)
	if err != nil {
		return nil, profiler.Key{}, err
	}
	defer d.Close()
	o.Inputs = m.Warmup
	r, err := profiler.Measure(ctx, d, 0, &m.Spec, o)
	return r, backend.ProfileKey(m, backend.PoolConfig{DeviceType: cmp.Or(c.DeviceType, "cpu"), Threads: c.Threads}, ""), err
}

// onGPU measures with the device's own events: what a batch takes there, without copies.
func (c profileCmd) onGPU(ctx context.Context, b config.Backend, log zerolog.Logger, m *repository.Model, o profiler.Options) (*profiler.Result, profiler.Key, error) {
	pool := config.Pool{Kind: backend.KindCUDA, DeviceType: c.DeviceType, Precision: c.Precision, Provider: c.Provider}
	if c.GPU != "" {
		pool.GPUs = []string{c.GPU}
	}
	if err := pool.Check(); err != nil {
		return nil, profiler.Key{}, err
	}
	r, err := backend.ProfileGPU(ctx, backend.Config{GPUs: parts.HostGPUs(b, log), Logger: log}, parts.Pools([]config.Pool{pool})[0], m, o)
	if err != nil {
		return nil, profiler.Key{}, err
	}
	return r.Result, r.Key, nil
}

func (c profileCmd) find(dir string) (*repository.Model, error) {
	if dir == "" {
		return nil, fmt.Errorf("which repository? give --repository DIR, or --config with backend.repository")
	}
	models, failed, err := repository.Load(dir)
	if err != nil {
		return nil, err
	}
	var found *repository.Model
	var names []string
	for i := range models {
		names = append(names, models[i].Spec.Key())
		if models[i].Spec.Name == c.Model && (c.Version == "" || models[i].Spec.Version == c.Version) {
			if found == nil || catalog.CompareVersions(found.Spec.Version, models[i].Spec.Version) < 0 {
				found = &models[i]
			}
		}
	}
	for _, f := range failed {
		fmt.Fprintln(os.Stderr, "warning:", f)
	}
	if found == nil {
		return nil, fmt.Errorf("no model %q in %s; there are %v", c.Model, dir, names)
	}
	if found.Path == "" {
		return nil, fmt.Errorf("model %s is emulated: its profile stands in its config.yaml", found.Spec.Key())
	}
	return found, nil
}

func printProfile(model string, r *profiler.Result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "batch\tmedian ms\tp95 ms\tfit ms\titems/s\truns\t\n")
	for _, p := range r.Points {
		fit := r.Line.Alpha*mono.Dur(p.Batch) + r.Line.Beta
		fmt.Fprintf(w, "%d\t%.3f\t%.3f\t%.3f\t%.0f\t%d\t\n", p.Batch, p.Median.Millis(), p.High.Millis(), fit.Millis(),
			float64(p.Batch)/p.Median.Seconds(), p.Runs)
	}
	w.Flush()
	l := r.Line
	ratio := "infinite"
	if l.Alpha > 0 {
		ratio = fmt.Sprintf("%.1f", float64(l.Beta)/float64(l.Alpha))
	}
	fmt.Printf("%s: l(b) = %.4f ms * b + %.4f ms; beta/alpha = %s; off by at most %.3f ms (%.0f %%), R2 = %.4f\n",
		model, l.Alpha.Millis(), l.Beta.Millis(), ratio, l.MaxError.Millis(), 100*l.RelError, l.R2)
	if !r.IsLine() {
		fmt.Printf("That is no line: R2 is below %.2f, or a batch is off by more than %.0f %%. Plans use the table above, by its p95, as they do of lines.\n",
			profiler.LineR2, 100*profiler.LineRelError)
	}
	if r.Ladder {
		fmt.Println("Between these sizes a batch runs as the next larger one, and takes as long.")
	}
}
