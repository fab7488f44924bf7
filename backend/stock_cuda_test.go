package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func gpuSource(t *testing.T, name string) catalog.Source {
	t.Helper()
	dir := t.TempDir()
	config := "platform: onnxruntime\nslo: 50ms\nmax_batch: 8\ninputs: [{name: x, type: FP32, shape: [8]}]\noutputs: [{name: y, type: FP32, shape: [8]}]\n"
	for path, text := range map[string]string{"config.yaml": config, "1/model.onnx": name} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return catalog.Source{Name: name, Version: "1", URL: "file://" + dir}
}

// onGPUs is a backend of all GPUs of a driver, without models.
func onGPUs(t *testing.T, d *fakecuda.Driver, k fakecuda.Kernels) *stocking {
	t.Helper()
	return newStocking(t, func(c *Config) {
		c.Profiling = profiler.Options{Warmup: 1, Rounds: 2}
		c.Pools[0] = PoolConfig{DeviceType: "g", Kind: KindCUDA, Memory: 512 << 20}
		c.GPUs = &GPUs{Driver: d, Runtime: func() (cuda.Runtime, string, error) { return fakecuda.NewRuntime(k), "fake 1", nil }}
	})
}

// services is how often the scheduler was told of devices out of service, or back, and how it is
// with the last one. Caller holds mu.
func (c *cluster) services() (n int, works bool) {
	for _, doc := range c.docs {
		if doc.kind != wire.DocService {
			continue
		}
		last, err := catalog.DecodeService(doc.payload)
		if err != nil {
			c.t.Error(err)
		}
		n, works = n+1, last.Works
	}
	return n, works
}

// Models come onto GPUs that begin without any, are measured at their ladder of sizes, serve,
// survive the loss of a GPU, and go; one that is too large fails alone, with numbers.
func TestGPUModelsComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := fakecuda.New(fakecuda.Config{GPUs: []cuda.Info{{Name: "NVIDIA T1"}, {Name: "NVIDIA T1"}}})
	s := onGPUs(t, d, fakecuda.Kernels{"a": steady(1 << 20), "b": steady(2 << 20), "huge": steady(900 << 20)})
	ended := false
	defer func() {
		if !ended {
			s.end()
		}
	}()
	if p := s.info.Pools[0]; p.Memory != 512<<20 || p.Devices != 2 {
		t.Errorf("introduced as %+v", p)
	}
	s.admitted(100)
	a, b, huge := gpuSource(t, "a"), gpuSource(t, "b"), gpuSource(t, "huge")
	for device := range 2 {
		s.keep(catalog.Keep{Device: device, Load: []catalog.Source{a, huge, b}})
	}
	got := s.until("a/1", catalog.StateReady, 0, 1)
	if l := got.Spec.Profile.Table; len(l) != 8 || l[4] != l[5] || l[0] < mono.Millisecond || got.Static < 1<<20 {
		t.Errorf("told %+v, planned with %v", got, got.Spec.Profile)
	}
	s.until("b/1", catalog.StateReady, 0, 1)
	if got := s.until("huge/1", catalog.StateFailed); !strings.Contains(got.Error, "does not fit on GPU") || !strings.Contains(got.Error, "512 MiB") {
		t.Errorf("told %+v", got)
	}
	s.bindTo(map[string]wire.ModelID{"a/1": 1, "b/1": 2})
	id := wire.BatchID(0)
	runs := func() {
		t.Helper()
		for device := range 2 {
			for _, model := range []wire.ModelID{1, 2} {
				id++
				if done := s.orderOn(device, 100, id, model); done.Reason != wire.ReasonNone {
					t.Errorf("model %d on %d: %+v", model, device, done)
				}
			}
		}
	}
	runs()
	s.keep(catalog.Keep{Device: 0, Unload: []string{"huge/1"}})
	s.keep(catalog.Keep{Device: 1, Unload: []string{"huge/1"}})
	s.until("huge/1", catalog.StateGone)
	d.GPU(1).Lose()
	s.b.pools[0].gpus[1].device.Fail(cuda.ErrLost)
	s.wait("the GPU is out of service, and back", func() bool { n, works := s.services(); return n >= 2 && works })
	runs()
	for device := range 2 {
		s.keep(catalog.Keep{Device: device, Unload: []string{"a/1", "b/1"}})
	}
	s.until("a/1", catalog.StateGone)
	s.until("b/1", catalog.StateGone)
	for k, g := range s.b.pools[0].gpus {
		if n := g.device.Stats().Memory.Load(); n != 0 {
			t.Errorf("GPU %d: %d bytes are held", k, n)
		}
	}
	s.end()
	ended = true
	if c := d.Counts(); c != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", c)
	}
	for _, err := range d.Misused() {
		t.Error(err)
	}
}
