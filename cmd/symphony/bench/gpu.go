package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/backend/gpulibs"
	"github.com/symphony-serving/symphony/bench/gpu"
	"github.com/symphony-serving/symphony/cgo/nvml"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/transport/mono"
)

type gpuCmd struct {
	Quick  bool          `help:"A look, in some two minutes; the report goes to build/gpu/report."`
	Only   []string      `help:"These parts alone: discovery, conformance, outputs, latency, spread, overlap, loads, goodput, prediction, timeline, scaling." sep:"," placeholder:"PARTS"`
	Out    string        `help:"Folder for REPORT.md, data and plots; bench/gpu if not given." type:"path" placeholder:"FOLDER"`
	Limit  time.Duration `help:"Of everything; 9m if not given, with --quick 2m30s." placeholder:"SPAN"`
	Models []string      `help:"Repositories of the models to measure: those that make zoo and make models write." default:"build/zoo,examples/digits/models" sep:"," placeholder:"FOLDERS"`
	Suite  string        `help:"The driver's conformance suite as a binary (make gpu-suite)." default:"build/gpu/bin/cuda.test" type:"path" placeholder:"FILE"`
	ONNX   string        `name:"onnxruntime" help:"libonnxruntime.so with CUDA, or its folder; found by itself if not given (backend.onnxruntime)." type:"path" placeholder:"FILE"`
	Check  bool          `help:"Only say what is missing, a line each: exit status 1 if anything is."`
}

// Help is shown by --help.
func (gpuCmd) Help() string {
	return "Whether this machine's NVIDIA GPUs do what the system assumes, and what the system makes of them: devices and NVML, the driver's conformance suite, outputs against the CPU's, l(b), the spread of execution times, copies and loads beside execution, goodput through the real path beside its bound and eager dispatch, the plan's error, a timeline, and the scheduler on many cores. Each part may fail alone. make test-gpu builds and fetches what it needs first. Ctrl-C ends it with a report of what was done. Exit status 1 if a part failed, was interrupted, or had no time; without a GPU at once, with what is missing."
}

// Run measures, and writes the report.
func (c gpuCmd) Run() error {
	log := cli.Logger(config.Log{Level: "warn"})
	host := &gpuMachine{log: log, gpus: parts.HostGPUs(config.Backend{ONNXRuntime: c.ONNX}, log), nvml: nvml.Open, cpu: onCPU,
		repositories: c.Models, suite: c.Suite, quick: c.Quick, pool: config.Pool{Kind: "cuda", DeviceType: gpuDeviceType}}
	missing, fatal := c.missing(host)
	for _, line := range missing {
		fmt.Println(line)
	}
	switch {
	case fatal, c.Check && len(missing) > 0:
		return cli.Told(os.Stdout, "what is missing stands above")
	case c.Check:
		return nil
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(log)
	defer cancel()
	defer host.close()
	return c.measure(ctx, host, o)
}

// measure runs the parts and says how they ended.
func (c gpuCmd) measure(ctx context.Context, host *gpuMachine, o gpu.Options) error {
	r, err := gpu.Run(ctx, host.machine(), o)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the report is in %s\n", filepath.Join(o.Out, "REPORT.md"))
	if r.Passed {
		return nil
	}
	return errors.New("not all parts did what they should:\n  " + strings.Join(r.Failures(), "\n  "))
}

// missing is what is not here, a line each. fatal: nothing can be measured; else the parts
// that need it fail alone. It asks, and loads nothing.
func (c gpuCmd) missing(host *gpuMachine) (lines []string, fatal bool) {
	infos, err := host.gpus.Driver.Devices()
	switch {
	case err != nil:
		lines = append(lines, "driver: "+err.Error())
	case len(infos) == 0:
		lines = append(lines, "GPU: the driver lists none: look at CUDA_VISIBLE_DEVICES and nvidia-smi")
	}
	fatal = len(lines) > 0
	if err := gpulibs.Find(gpulibs.Options{Path: c.ONNX}).Err(); err != nil && c.runsModels() {
		lines = append(lines, "libraries: "+err.Error())
	}
	return lines, fatal
}

// runsModels: some parts run none.
func (c gpuCmd) runsModels() bool {
	without := []string{"discovery", "conformance", "scaling"}
	return len(c.Only) == 0 || slices.ContainsFunc(c.Only, func(part string) bool { return !slices.Contains(without, part) })
}

// options reads the flags. A look has a folder of its own: it must not write over a full report.
func (c gpuCmd) options() (gpu.Options, error) {
	p := newProvenance()
	o := gpu.Options{Out: c.Out, Only: c.Only, Limit: mono.Dur(c.Limit), Progress: os.Stderr, Command: p.Command, Version: p.Version, Host: p.Host, Time: p.Time}
	if c.Quick && o.Limit == 0 {
		o.Limit = gpu.LimitQuick
	}
	switch {
	case c.Out != "":
	case c.Quick:
		o.Out = filepath.Join("build", "gpu", "report")
	default:
		o.Out = filepath.Join("bench", "gpu")
	}
	return o, o.Check()
}
