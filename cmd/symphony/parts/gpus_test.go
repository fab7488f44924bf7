package parts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A whole system in one process, on three GPUs in software beside an emulated pool: each
// answer is that of its own request, and at the end nothing is left open.
func TestSystemOnGPUs(t *testing.T) {
	models := t.TempDir()
	for file, text := range map[string]string{"1/model.onnx": "not read", "config.yaml": "platform: onnxruntime\ndevice_type: cuda\nslo: 500ms\nmax_batch: 8\n" +
		"inputs: [{name: a, type: UINT8, shape: [3]}, {name: b, type: UINT8, shape: [1]}]\noutputs: [{name: y, type: UINT8, shape: [4]}]\n"} {
		path := filepath.Join(models, "join", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// b before a, item by item: two tensors of each item, each item's own.
	join := fakecuda.Kernel{Time: func(size int) mono.Dur { return 200 * mono.Microsecond }, Run: func(size int, in, out [][]byte) error {
		for i := range size {
			copy(out[0][4*i:], append(bytes.Clone(in[1][i:i+1]), in[0][3*i:3*i+3]...))
		}
		return nil
	}}
	driver := fakecuda.New(fakecuda.Config{GPUs: make([]cuda.Info, 3), CopyTime: 5 * mono.Microsecond})
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena = []string{"inproc:gpus"}, "inproc:gpus-frontend", 16<<20
	cfg.Backend.Repository = models
	cfg.Backend.Pools = []config.Pool{{Kind: "cuda"}, {DeviceType: "e", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv", Models: []string{"ResNet50"}}}}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.GPUs = &backend.GPUs{Driver: driver, Runtime: func() (cuda.Runtime, string, error) {
		return fakecuda.NewRuntime(fakecuda.Kernels{"join": join}), "fake", nil
	}}
	s, err := p.ServeLibrary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Client.WaitReady(t.Context(), "join", "ResNet50"); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Client.Model("join", ""); err != nil || e.DeviceType != "fake-gpu" || e.GPUs != 3 {
		t.Errorf("%+v, %v", e, err)
	}
	askJoined(t, s.Client, 500)
	if open := driver.Counts(); open.PinnedBytes == 0 || open.Contexts != 3 || open.Programs != 3 {
		t.Errorf("open: %+v", open)
	}
	if n := pinnedGPUs(t, p); n != 3 {
		t.Errorf("metrics have pinned memory of %d GPUs", n)
	}
	if err := s.Drain(); err != nil {
		t.Error(err)
	}
	if open := driver.Counts(); open != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", open)
	}
	for _, err := range driver.Misused() {
		t.Error(err)
	}
}

// pinnedGPUs is how many GPUs' pinned memory the metrics count.
func pinnedGPUs(t *testing.T, p *Process) (n int) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "symphony_backend_gpu_pinned_bytes" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() > 0 {
				n++
			}
		}
	}
	return n
}

// askJoined asks n times, some at once, and looks at what comes back.
func askJoined(t *testing.T, client *frontend.Client, n int) {
	t.Helper()
	answers := make(chan error, n)
	const atOnce = 40
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		item := []byte{byte(i), byte(i >> 8), 7, byte(3 * i)}
		client.InferAsync(context.Background(), frontend.Request{Model: "join", Inputs: []frontend.Tensor{
			{Name: "a", Type: catalog.Uint8, Shape: []int64{3}, Data: item[:3]}, {Name: "b", Type: catalog.Uint8, Shape: []int64{1}, Data: item[3:]}}},
			func(r *frontend.Response, err error) {
				if err == nil {
					if got, want := r.Outputs[0].Data, append(bytes.Clone(item[3:]), item[:3]...); !bytes.Equal(got, want) {
						err = fmt.Errorf("request %d: %v, want %v", i, got, want)
					}
					r.Release()
				}
				<-room
				answers <- err
			})
	}
	for range n {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
