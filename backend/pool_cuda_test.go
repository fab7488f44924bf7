package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/mono"
)

// gpuRepository has models of one input and output, each of 4 bytes, up to batches of 8. What
// runs them does not read their files.
func gpuRepository(t *testing.T, more map[string]string) []repository.Model {
	t.Helper()
	dir := t.TempDir()
	for name, lines := range more {
		config := "platform: onnxruntime\nslo: 50ms\nmax_batch: 8\ninputs: [{name: x, type: FP32, shape: []}]\noutputs: [{name: y, type: FP32, shape: []}]\n" + lines
		for file, text := range map[string]string{"config.yaml": config, "1/model.onnx": name} {
			path := filepath.Join(dir, name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	models, failed, err := repository.Load(dir)
	if err != nil || len(models) != len(more) {
		t.Fatal(models, failed, err)
	}
	return models
}

// onFakes is a backend on fake GPUs, and its log.
func onFakes(t *testing.T, d *fakecuda.Driver, k fakecuda.Kernels) (*Backend, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	b := &Backend{log: zerolog.New(&log), cfg: Config{Profiling: profiler.Options{Warmup: 1, Rounds: 2}, GPUs: &GPUs{Driver: d,
		Runtime: func() (cuda.Runtime, string, error) { return fakecuda.NewRuntime(k), "fake 1", nil }}}}
	var err error
	if b.gpuHost, err = openGPUs(b.cfg.GPUs, b.log); err != nil {
		t.Fatal(err)
	}
	return b, &log
}

// ended closes a pool and looks for what is left.
func ended(t *testing.T, b *Backend, p *pool, d *fakecuda.Driver) {
	t.Helper()
	if p != nil {
		for _, device := range p.devices {
			device.Close()
		}
		b.pools = []*pool{p}
		b.closeBuffers()
	}
	if c := d.Counts(); c != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", c)
	}
	for _, err := range d.Misused() {
		t.Error(err)
	}
}

// steady is a kernel that takes one millisecond, and one more from batches of 4 on.
func steady(memory int64) fakecuda.Kernel {
	return fakecuda.Kernel{Memory: memory, Time: func(size int) mono.Dur { return mono.Millisecond * mono.Dur(1+size/4) }}
}

// A model that does not fit is refused by name and numbers, the others serve on all GPUs of
// the pool, planned as a table of steps; the log has a line for each GPU.
func TestPoolOfGPUs(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: []cuda.Info{{Name: "NVIDIA T1"}, {Name: "NVIDIA T1"}, {Name: "NVIDIA X"}}})
	models := gpuRepository(t, map[string]string{"a": "device_type: cuda\nbatch_sizes: [1, 4, 8]\n", "huge": "device_type: nvidia-t1\n", "other": "device_type: cpu\n", "z": "device_type: cuda\nprecision: tf32\n"})
	b, log := onFakes(t, d, fakecuda.Kernels{"a": steady(1 << 20), "huge": steady(900 << 20), "z": steady(1 << 20)})
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, Devices: 2, Memory: 512 << 20}, models)
	if err != nil {
		t.Fatal(err)
	}
	defer ended(t, b, p, d)
	if p.doc.DeviceType != "nvidia-t1" || p.doc.Devices != 2 || len(p.devices) != 2 || len(p.specs) != 2 || p.specs[0].Name != "a" || p.specs[1].Name != "z" {
		t.Fatalf("%+v, %d devices, %+v", p.doc, len(p.devices), p.specs)
	}
	if l := p.specs[0].Profile.Table; len(l) != 8 || l[1] != l[3] || l[4] != l[7] || l[0] >= l[1] || l[0] < mono.Millisecond {
		t.Errorf("planned with %v", l)
	}
	b.gpuHost.tellUnused()
	for _, want := range []string{"model huge/1 does not fit on GPU 0", "512 MiB", "model huge/1 does not fit on GPU 1",
		`"gpu":1,"name":"NVIDIA T1"`, `"pool":"nvidia-t1"`, "a GPU serves", `"name":"NVIDIA X"`, "a GPU that no pool uses"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in\n%s", want, log)
		}
	}
	for k := range p.devices { // the model behind the one that was left out is found by its new index
		r, err := profiler.Measure(t.Context(), p.devices[k], 1, &p.specs[1], profiler.Options{Warmup: 1, Rounds: 1})
		if err != nil || r.Profile.MaxBatch() != 8 {
			t.Errorf("GPU %d: %v", k, err)
		}
	}
}

// A profile is read again on the same GPU, and measured anew in another precision.
func TestProfileOfGPUIsKept(t *testing.T) {
	models := gpuRepository(t, map[string]string{"a": ""})
	for i, c := range []struct {
		precision cuda.Precision
		measures  bool
	}{{cuda.FP32, true}, {cuda.FP32, false}, {cuda.TF32, true}} {
		d := fakecuda.New(fakecuda.Config{})
		b, log := onFakes(t, d, fakecuda.Kernels{"a": steady(1)})
		p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, DeviceType: "g", Models: []string{"a"}, Precision: c.precision}, models)
		if err != nil {
			t.Fatal(err)
		}
		if measured := strings.Contains(log.String(), "profile measured"); measured != c.measures {
			t.Errorf("run %d: measured %v\n%s", i, measured, log)
		}
		ended(t, b, p, d)
	}
}

// A GPU that cannot be used is left out; with none the pool is refused, and says why.
func TestGPUsThatFail(t *testing.T) {
	models := gpuRepository(t, map[string]string{"a": "", "b": ""})
	kernels := fakecuda.Kernels{"a": steady(1 << 20), "b": steady(1 << 20)}
	for name, c := range map[string]struct {
		break1 func(d *fakecuda.Driver)
		cfg    PoolConfig
		fails  string // "": one GPU serves
	}{
		"one has vanished":  {break1: func(d *fakecuda.Driver) { d.GPU(0).Vanish() }},
		"one has no memory": {break1: func(d *fakecuda.Driver) { d.GPU(1).SetMemory(1 << 10) }},
		"both have vanished": {break1: func(d *fakecuda.Driver) { d.GPU(0).Vanish(); d.GPU(1).Vanish() },
			fails: "none of its GPUs can be used"},
		"the budget is too large": {cfg: PoolConfig{Memory: 1 << 40}, fails: "GPU 0 has 1024 MiB"},
		"no such GPU":             {cfg: PoolConfig{GPUs: []string{"9"}}, fails: "there is no GPU 9: 0 is Fake GPU"},
		"no such model":           {cfg: PoolConfig{Models: []string{"c"}}, fails: `no model "c"`},
		"no model":                {cfg: PoolConfig{Models: []string{}}, fails: "device_type: cuda"},
	} {
		d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2)})
		b, log := onFakes(t, d, kernels)
		if c.break1 != nil {
			c.break1(d)
		}
		cfg := c.cfg
		cfg.Kind, cfg.DeviceType = KindCUDA, "g"
		if cfg.Models == nil {
			cfg.Models = []string{"a", "b"}
		}
		p, err := b.buildPool(t.Context(), cfg, models)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", name, err, c.fails)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case len(p.devices) != 1 || p.doc.Devices != 1 || len(p.specs) != 2 || !strings.Contains(log.String(), "a GPU is not used"):
			t.Errorf("%s: %d devices, %d models\n%s", name, len(p.devices), len(p.specs), log)
		}
		ended(t, b, p, d)
	}
}

// A start that is given up opens no further GPU.
func TestStartIsGivenUp(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2)})
	ctx, cancel := context.WithCancel(t.Context())
	b, log := onFakes(t, d, fakecuda.Kernels{"a": {Time: func(int) mono.Dur {
		cancel() // while the first one loads
		return 0
	}}})
	d.GPU(1).Vanish() // who opens it says so
	_, err := b.buildPool(ctx, PoolConfig{Kind: KindCUDA, DeviceType: "g", Models: []string{"a"}}, gpuRepository(t, map[string]string{"a": ""}))
	if !errors.Is(err, context.Canceled) || strings.Contains(log.String(), "a GPU is not used") {
		t.Errorf("%v\n%s", err, log)
	}
	ended(t, b, nil, d)
}

// Two pools do not share a GPU.
func TestPoolsShareNoGPU(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{})
	b, _ := onFakes(t, d, fakecuda.Kernels{"a": steady(1)})
	models := gpuRepository(t, map[string]string{"a": "device_type: cuda\n"})
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, DeviceType: "one"}, models)
	if err != nil {
		t.Fatal(err)
	}
	defer ended(t, b, p, d)
	if _, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, DeviceType: "two", GPUs: []string{"0"}}, models); err == nil || !strings.Contains(err.Error(), "GPU 0 is pool one's already") {
		t.Errorf("%v", err)
	}
}

// Where GPUs cannot be had a pool of kind cuda is refused, with what to do.
func TestNoGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		gpus *GPUs
		want string
	}{
		"no door":    {nil, "make cuda-headers"},
		"no driver":  {&GPUs{Driver: fakecuda.New(fakecuda.Config{Unsupported: &cuda.UnsupportedError{What: "no libcuda.so.1", Need: "install NVIDIA's driver"}})}, "install NVIDIA's driver"},
		"no GPU":     {&GPUs{Driver: fakecuda.New(fakecuda.Config{GPUs: []cuda.Info{}})}, "CUDA_VISIBLE_DEVICES"},
		"no runtime": {&GPUs{Driver: fakecuda.New(fakecuda.Config{})}, "libcublas"},
	} {
		if c.gpus != nil {
			c.gpus.Runtime = func() (cuda.Runtime, string, error) { return nil, "", errors.New("libcublas.so.13 is missing") }
		}
		if _, err := openGPUs(c.gpus, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// symphony profile on a GPU: the same model, alone, by its ladder.
func TestProfileGPU(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 2)})
	models := gpuRepository(t, map[string]string{"a": "cuda_graphs: true\n"})
	c := Config{GPUs: &GPUs{Driver: d, PowerLimit: func(uuid string) string { return "300 W of " + uuid[:3] },
		Runtime: func() (cuda.Runtime, string, error) {
			return fakecuda.NewRuntime(fakecuda.Kernels{"a": steady(1)}), "fake 1", nil
		}}}
	r, err := ProfileGPU(t.Context(), c, PoolConfig{GPUs: []string{"1"}, Paged: &Paged{Page: 1 << 40, Pages: 1}}, &models[0], profiler.Options{Warmup: 1, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	g := r.Key.GPU
	if r.GPU.Index != 1 || r.Key.Device != "fake-gpu" || g.Product != "Fake GPU" || g.Driver != "CUDA 13.0" || g.Power != "300 W of GPU" || g.Graphs != "on" ||
		g.Precision != "fp32" || fmt.Sprint(g.Sizes) != "[1 2 3 4 6 8]" || len(r.Points) != 6 || r.Key.Runtime != "fake 1" {
		t.Errorf("%+v, %d points", r.Key, len(r.Points))
	}
	ended(t, nil, nil, d)
	d.GPU(0).SetMemory(1)
	var refused *cuda.RefusedError
	if _, err := ProfileGPU(t.Context(), c, PoolConfig{}, &models[0], profiler.Options{}); !errors.As(err, &refused) {
		t.Errorf("a GPU without memory: %v", err)
	}
	ended(t, nil, nil, d)
}
