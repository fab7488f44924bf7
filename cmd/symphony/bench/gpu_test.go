package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/fakenvml"
	"github.com/symphony-serving/symphony/bench/gpu"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Models of the fake GPUs: y[i] = factor * x[i].
func fakeFactors() map[string]float32 { return map[string]float32{"first": 2, "second": -3} }

const (
	fakeFloats = 256
	fakeConfig = "# a model for tests\nplatform: onnxruntime\ndevice_type: cpu\nslo: 60ms\nmax_batch: 16\ninputs: [{name: x, type: FP32, shape: [256]}]\noutputs: [{name: y, type: FP32, shape: [256]}]\n"
)

func multiply(factor float32, n int, in, out []byte) {
	for i := range n * fakeFloats {
		v := math.Float32frombits(binary.LittleEndian.Uint32(in[4*i:]))
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(factor*v))
	}
}

// fakeCPU computes one model after the other, as the names say.
type fakeCPU []string

func (c fakeCPU) Launch(b *executor.Batch) {
	start := mono.Now()
	multiply(fakeFactors()[c[b.Model]], b.Size, b.Input, b.Output)
	b.Finish(start, mono.Now(), nil)
}
func (fakeCPU) Close() {}

// fakeMachine is a machine with GPUs in software and a repository of two models.
func fakeMachine(t *testing.T) (*gpuMachine, *fakecuda.Driver) {
	t.Helper()
	t.Chdir(t.TempDir())
	kernels := fakecuda.Kernels{}
	for name, factor := range fakeFactors() {
		writeModel(t, "models", name, fakeConfig)
		kernels[name] = fakecuda.Kernel{Run: func(n int, in, out [][]byte) error { multiply(factor, n, in[0], out[0]); return nil },
			Time: func(n int) mono.Dur { return 3*mono.Millisecond + mono.Dur(n)*200*mono.Microsecond }}
	}
	suite := "suite"
	if err := os.WriteFile(suite, []byte("#!/bin/sh\n[ \"$SYMPHONY_REQUIRE_CUDA\" = 1 ] || exit 9\necho '--- PASS: TestConformance (0.50s)'\necho '    --- PASS: TestConformance/order (0.25s)'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	driver := fakecuda.New(fakecuda.Config{CopyTime: 10 * mono.Microsecond, Bandwidth: 10 << 30})
	infos, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	library := fakenvml.New(telemetry.Device{UUID: infos[0].UUID, Name: infos[0].Name, PCI: infos[0].PCI})
	h := &gpuMachine{log: zerolog.Nop(), repositories: []string{"models"}, suite: "./" + suite, quick: true,
		pool: config.Pool{Kind: "cuda", DeviceType: gpuDeviceType},
		nvml: func() (telemetry.NVML, error) { return library, nil },
		gpus: &backend.GPUs{Driver: driver, Runtime: func() (cuda.Runtime, string, error) { return fakecuda.NewRuntime(kernels), "fake", nil }},
		cpu: func(models []repository.Model) (executor.Device, error) {
			var names fakeCPU
			for i := range models {
				names = append(names, models[i].Spec.Name)
			}
			return names, nil
		}}
	return h, driver
}

// writeModel puts a model into a repository.
func writeModel(t *testing.T, dir, name, text string) {
	t.Helper()
	for file, text := range map[string]string{"config.yaml": text, "1/model.onnx": "not read: " + name} {
		path := filepath.Join(dir, name, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The whole bench on a GPU in software, briefly: each part has its section, outputs are equal,
// the plan is looked at, and nothing is left open in the driver. A machine that is too busy for a
// part in its share of the time gets twice the time, once: what lacks then is missing.
func TestGPU(t *testing.T) {
	limit := 32 * mono.Second
	if os.Getenv("GPU_REPORT") != "" { // somebody wants to look
		limit = 150 * mono.Second
	}
	lacks, late := wholeGPU(t, limit)
	if len(lacks) > 0 && late {
		t.Logf("a busy machine: once more, in twice the time: %s", strings.Join(lacks, "; "))
		lacks, _ = wholeGPU(t, 2*limit)
	}
	for _, what := range lacks {
		t.Error(what)
	}
}

// wholeGPU runs all parts. It tells what the report lacks, and whether a part's time was over
// before it had what it needs. What no lack of time explains is an error at once.
func wholeGPU(t *testing.T, limit mono.Dur) (lacks []string, late bool) {
	t.Helper()
	h, driver := fakeMachine(t)
	o := gpu.Options{Out: "out", Limit: limit, Command: "symphony bench gpu", Version: "v0", Host: "here", Time: "now", Progress: os.Stderr}
	if dir := os.Getenv("GPU_REPORT"); dir != "" {
		o.Out, h.quick = filepath.Join(dir, t.Name()), false
	}
	r, err := gpu.Run(t.Context(), smallPieces(h.machine()), o)
	h.close()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Parts {
		late = late || ranOut(&p) && p.Part != "loads" && p.Part != "paging"
		// What a busy machine carries in a moment is not for a test to demand, nor that a model is loaded in it.
		if p.Status != gpu.Done && p.Status != gpu.Skipped && p.Part != "goodput" && p.Part != "loads" && p.Part != "paging" || p.Status == gpu.Skipped && p.Part != "scaling" {
			if what := fmt.Sprintf("%s: %s: %s", p.Part, p.Status, p.Error); ranOut(&p) {
				lacks = append(lacks, what)
			} else {
				t.Error(what)
			}
		}
		if r.Sections[p.Part] == nil && p.Status != gpu.Skipped {
			lacks = append(lacks, p.Part+" has no section")
		}
	}
	text, err := os.ReadFile(filepath.Join(o.Out, "REPORT.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Fake GPU", "1 passed, 0 failed, 0 skipped", "| first/1 | fp32 |", "| second/1 | fp32 |", "equal enough", "staggered", "| Symphony |", "| first | eager |",
		"plots/goodput.svg", "plots/prediction.svg", "plots/timeline.svg", "570.86.15", "batches at"} {
		if !strings.Contains(string(text), want) {
			lacks = append(lacks, fmt.Sprintf("the report has no %q", want))
		}
	}
	if c := driver.Counts(); c != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", c)
	}
	for _, err := range driver.Misused() {
		t.Error(err)
	}
	return lacks, late
}

// ranOut: the part did not begin, or failed with most of its time over. One that fails for
// another reason does so sooner, or fails again.
func ranOut(p *gpu.Outcome) bool {
	return p.Status == gpu.NotRun || p.Status == gpu.Failed && p.Seconds > p.Budget/2
}

// smallPieces lets the part loads copy little at a time: under the race detector large pieces
// take seconds of a busy processor, which the parts after it then lack.
func smallPieces(m gpu.Machine) gpu.Machine {
	open := m.Open
	m.Open = func(ctx context.Context) (*gpu.Direct, error) {
		d, err := open(ctx)
		if err == nil {
			d.PieceMost = 1 << 20
		}
		return d, err
	}
	return m
}

// A model that no GPU takes is named, and the others are measured.
func TestGPURefuses(t *testing.T) {
	h, _ := fakeMachine(t)
	writeModel(t, "models", "unknown", fakeConfig)
	r, err := gpu.Run(t.Context(), h.machine(), gpu.Options{Out: "out", Limit: 30 * mono.Second, Only: []string{"outputs"}})
	h.close()
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Parts[0]; p.Status != gpu.Failed || !strings.Contains(p.Error, "unknown/1") || strings.Contains(p.Error, "first/1") {
		t.Errorf("%+v", p)
	}
}

// Without a GPU the script says what is missing within ten seconds, a line each, and builds nothing.
func TestNoGPU(t *testing.T) {
	if found, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(found) > 0 {
		t.Skip("this machine has a GPU")
	}
	begin := mono.Now()
	cmd := exec.CommandContext(t.Context(), "../../../scripts/test-gpu.sh")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if took := mono.Now().Sub(begin); took > 10*mono.Second {
		t.Errorf("it took %v", took)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if !strings.HasPrefix(line, "test-gpu: missing: ") || !strings.Contains(line, ": ") {
			t.Errorf("%q", line)
		}
	}
	if !strings.Contains(string(out), "libcuda.so.1") && !strings.Contains(string(out), "/dev/nvidia0") {
		t.Errorf("neither the driver nor the GPU is named: %s", out)
	}
}

// The command says the same of itself, without the script.
func TestGPUCheck(t *testing.T) {
	h, _ := fakeMachine(t)
	h.gpus.Driver = fakecuda.New(fakecuda.Config{Unsupported: &cuda.UnsupportedError{What: "no driver", Need: "install one"}})
	missing, fatal := parsed[gpuCmd](t).missing(h)
	if !fatal || len(missing) == 0 || missing[0] != "driver: no CUDA: no driver: install one" {
		t.Errorf("%q", missing)
	}
	for _, line := range missing[1:] {
		if !strings.HasPrefix(line, "libraries: ") {
			t.Errorf("%q", line)
		}
	}
}

// With a GPU and without libraries parts that run models fail alone; those that run none need none.
func TestGPUWithoutLibraries(t *testing.T) {
	h, _ := fakeMachine(t)
	t.Setenv("PATH", t.TempDir())
	missing, fatal := parsed[gpuCmd](t, "--onnxruntime=nowhere/libonnxruntime.so").missing(h)
	if fatal || len(missing) != 1 || !strings.HasPrefix(missing[0], "libraries: ") || !strings.Contains(missing[0], "make gpu-libs") {
		t.Errorf("%q, fatal %v", missing, fatal)
	}
	if missing, _ := parsed[gpuCmd](t, "--onnxruntime=nowhere/libonnxruntime.so", "--only=discovery,conformance").missing(h); len(missing) > 0 {
		t.Errorf("%q", missing)
	}
}

// The digits of the repository, computed by ONNX Runtime on both sides, here behind a driver
// in software: the models are found, their pictures prepared, and compared.
func TestGPUOnDigits(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	library := os.Getenv("SYMPHONY_ONNXRUNTIME")
	if library == "" {
		library = filepath.Join(root, "build/onnxruntime/libonnxruntime.so")
	}
	if err := onnx.Load(library); err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	h, _ := fakeMachine(t)
	if err := os.Symlink(filepath.Join(root, "examples"), "examples"); err != nil {
		t.Fatal(err)
	}
	h.repositories, h.cpu = []string{filepath.Join(root, "examples/digits/models")}, onCPU
	models, err := h.models()
	if err != nil {
		t.Fatal(err)
	}
	kernels := fakecuda.Kernels{}
	for i := range models {
		m := &models[i]
		s, err := onnx.Open(m.Path, &m.Spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		kernels[m.Spec.Name] = fakecuda.Kernel{Run: func(n int, in, out [][]byte) error {
			b := &executor.Batch{Size: n}
			for k := range n {
				from, to := int(m.Spec.Inputs[0].ByteSize()), int(m.Spec.Outputs[0].ByteSize())
				b.Inputs, b.Outputs = append(b.Inputs, in[0][k*from:(k+1)*from]), append(b.Outputs, out[0][k*to:(k+1)*to])
			}
			return s.Run(b)
		}}
	}
	h.gpus.Runtime = func() (cuda.Runtime, string, error) { return fakecuda.NewRuntime(kernels), "fake", nil }
	r, err := gpu.Run(t.Context(), h.machine(), gpu.Options{Out: "out", Limit: 300 * mono.Second, Only: []string{"outputs"}, Progress: os.Stderr})
	h.close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("out/REPORT.md")
	if err != nil || !r.Passed || !strings.Contains(string(text), "| digits-cnn/1 | fp32 | 20 | 1, 3, 32 |") {
		t.Errorf("%v, %v\n%s", err, r.Failures(), text)
	}
}

func TestGPUFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for out, flags := range map[string][]string{"build/gpu/report": {"--quick"}, "bench/gpu": nil, "x": {"--quick", "--out=x"}} {
		o, err := parsed[gpuCmd](t, flags...).options()
		if err != nil || !strings.HasSuffix(o.Out, out) {
			t.Errorf("%v: %+v, %v", flags, o, err)
		}
	}
	for want, flags := range map[string][]string{"--only": {"--only=nothing"}, "--limit": {"--limit=1s"}} {
		if _, err := parsed[gpuCmd](t, flags...).options(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

// Configurations of CPUs become those of GPUs, and converted models say their precision.
func TestGPUConfig(t *testing.T) {
	text := "# about\nplatform: onnxruntime\ndevice_type: cpu\nslo: 30ms\n"
	if got := string(gpuConfig(text, "resnet50")); got != "# about\nplatform: onnxruntime\nslo: 30ms\ndevice_type: gpu\n" {
		t.Error(got)
	}
	if got := string(gpuConfig(text, "resnet50-fp16")); !strings.HasSuffix(got, "device_type: gpu\nprecision: fp16\n") {
		t.Error(got)
	}
	if got := string(gpuConfig(text+"precision: tf32", "resnet50-fp16")); strings.Count(got, "precision") != 1 {
		t.Error(got)
	}
}

// What a search of the scheduler's rate printed is read, also after it was interrupted.
func TestRateOf(t *testing.T) {
	if rate, err := rateOf([]byte(`{"Command": "x", "Searches": [{"Loops": 2, "Interrupted": true, "Best": {"OfferedRate": 123456}}]}`), errRate); err != nil || rate != 123456 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, text := range []string{"", "{", `{"Searches": [{"Loops": 2}]}`} {
		if _, err := rateOf([]byte(text), errRate); !errors.Is(err, errRate) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

var errRate = errors.New("signal: interrupt")

// The real search, in a process of its own, within a moment: whatever it says, it ends.
func TestScalingOf(t *testing.T) {
	t.Setenv(beMain, "1")
	begin := time.Now()
	rate, err := scalingOf(t.Context(), 1, 2*mono.Second)
	if err == nil && rate < 1000 || time.Since(begin) > time.Minute {
		t.Errorf("%v requests/s, %v", rate, err)
	}
	t.Logf("%v requests/s, %v", rate, err)
}
