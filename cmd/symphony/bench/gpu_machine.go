package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/bench/gpu"
	"github.com/symphony-serving/symphony/bench/schedbench"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/transport/mono"
)

// gpuMachine opens what bench/gpu measures; tests have other GPUs, and another CPU.
type gpuMachine struct {
	log          zerolog.Logger
	gpus         *backend.GPUs
	nvml         func() (telemetry.NVML, error)
	cpu          func(models []repository.Model) (executor.Device, error)
	repositories []string
	suite        string
	quick        bool
	pool         config.Pool // of the system

	mu    sync.Mutex // Guards what follows: the GPUs are also read while a part runs.
	api   telemetry.NVML
	blind error // why NVML cannot be asked
}

// machine is what bench/gpu is given.
func (h *gpuMachine) machine() gpu.Machine {
	m := gpu.Machine{Driver: h.gpus.Driver, Processors: cli.Processors(), Look: h.look, Open: h.open, Serve: h.serve, Scaling: scalingOf}
	if _, err := os.Stat(h.suite); err == nil {
		m.Suite = h.runSuite
	}
	return m
}

// close ends NVML.
func (h *gpuMachine) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.api != nil {
		_ = h.api.Close() // the process ends
	}
}

// look reads all GPUs by NVML. MIG instances are devices of their own.
func (h *gpuMachine) look() ([]gpu.Reading, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.api == nil && h.blind == nil {
		h.api, h.blind = h.nvml()
	}
	if h.blind != nil {
		return nil, h.blind
	}
	devices, err := h.api.Devices()
	if err != nil {
		return nil, err
	}
	v, _ := h.api.Versions() // its absence shows in the report
	var all []gpu.Reading
	for _, d := range devices {
		var s telemetry.Sample
		err := d.Err
		if err == nil {
			s, err = h.api.Sample(d.UUID)
		}
		all = append(all, readingOf(&d, &s, err, v.Driver))
	}
	return all, nil
}

// readingOf takes what the report shows out of a sample.
func readingOf(d *telemetry.Device, s *telemetry.Sample, err error, driver string) gpu.Reading {
	verdict := telemetry.Glance(s, err)
	r := gpu.Reading{Name: d.Name, UUID: d.UUID, Driver: driver, ClockMHz: float64(s.SMClock.Value), ClockMostMHz: float64(s.SMClockMax.Value),
		MemoryMHz: float64(s.MemoryClock.Value), PowerW: s.Power.Value, PowerMostW: s.PowerLimit.Value, Celsius: float64(s.Temperature.Value),
		UsedBytes: int64(s.MemoryUsed.Value), AllBytes: int64(s.MemoryTotal.Value), Health: "healthy", Healthy: verdict.State == health.Healthy}
	if !r.Healthy {
		r.Health = verdict.Cause
	}
	if why := s.Throttle.Value &^ health.Idle; why != 0 {
		r.Throttle = []string{why.String()}
	}
	return r
}

// suiteTests are those of the suite's binary that are about the driver that is here; the
// others build a driver of their own.
const suiteTests = "^(TestConformance|TestPinnedCopiesDoNotWait|TestTimeOfAKernel)$"

// runSuite runs the suite's binary.
func (h *gpuMachine) runSuite(ctx context.Context, to io.Writer) error {
	args := []string{"-test.v", "-test.count=1", "-test.run", suiteTests}
	if end, ok := ctx.Deadline(); ok {
		args = append(args, "-test.timeout", strconv.Itoa(max(5, int(time.Until(end).Seconds())))+"s")
	}
	cmd := exec.CommandContext(ctx, h.suite, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), "SYMPHONY_REQUIRE_CUDA=1"), to, to, endWithParent()
	cmd.WaitDelay = 2 * time.Second
	return cmd.Run()
}

// scalingOf searches what so many model loops carry, in a process of its own: it sets what
// the Go runtime may use.
func scalingOf(ctx context.Context, loops int, span mono.Dur) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	each := max(200*mono.Millisecond, min(mono.Second, span/24)) // a search takes up to 16 runs, with a warm-up each
	within, cancel := context.WithTimeout(ctx, span.Std())
	defer cancel()
	cmd := exec.CommandContext(within, self, "bench", "scheduler", "--loops", strconv.Itoa(loops), "--gpus", "64", "--duration", each.Std().String(), "--quiet", "--json", "-")
	cmd.SysProcAttr, cmd.Stderr = endWithParent(), os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it prints what it found by then
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	return rateOf(out, err)
}

// rateOf reads the search's JSON, which is there also after an interruption.
func rateOf(out []byte, failed error) (float64, error) {
	var r schedbench.Result
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, errors.Join(failed, fmt.Errorf("no result: %w", err))
	}
	for _, f := range r.Searches {
		if f.Best != nil {
			return f.Best.OfferedRate, nil
		}
	}
	return 0, errors.Join(failed, errors.New("no rate was carried in its time"))
}

// gpuDeviceType is that of the models in the folder that gather makes.
const gpuDeviceType = "gpu"

// half is how the zoo names models whose weights were converted.
const half = "-fp16"

// gather puts the models of all repositories into one folder, whose config.yaml say what a
// GPU needs, and whose profiles are measured anew. Files are links where the file system lets them.
func gather(from []string, into string) error {
	if err := os.RemoveAll(into); err != nil {
		return err
	}
	var errs []error
	found := 0
	for _, folder := range from {
		models, failed, err := repository.Load(folder)
		if errs = append(errs, failed...); err != nil {
			errs = append(errs, err)
		}
		for i := range models {
			if models[i].Path == "" {
				continue // emulated
			}
			if err := gatherModel(&models[i], into); err != nil {
				errs = append(errs, err)
				continue
			}
			found++
		}
	}
	if found == 0 {
		return errors.Join(append(errs, fmt.Errorf("there is no model in %s: run `make models zoo` first", strings.Join(from, ", ")))...)
	}
	return nil // models that cannot be read are said by who loads them, and the others are measured
}

func gatherModel(m *repository.Model, into string) error {
	text, err := os.ReadFile(filepath.Join(m.Dir, "config.yaml"))
	if err != nil {
		return err
	}
	folder := filepath.Join(into, m.Spec.Name)
	if err := os.MkdirAll(filepath.Join(folder, m.Spec.Version), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), gpuConfig(string(text), m.Spec.Name), 0o644); err != nil {
		return err
	}
	return linkOrCopy(m.Path, filepath.Join(folder, m.Spec.Version, "model.onnx"))
}

// gpuConfig is a model's configuration for GPUs.
func gpuConfig(text, name string) []byte {
	var out []string
	precision := false
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(line, ":")
		if precision = precision || key == "precision"; key != "device_type" {
			out = append(out, strings.TrimRight(line, "\n"))
		}
	}
	out = append(out, "device_type: "+gpuDeviceType)
	if strings.HasSuffix(name, half) && !precision {
		out = append(out, "precision: fp16")
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
