package bench

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/bench/gpu"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A whole system, links over TCP, whose GPU in software has room for one of two models: requests to both by turns are
// all answered rightly, each after a load of its model; those to the one that is there are not cold.
func TestPagedGPUWithAScheduler(t *testing.T) {
	h, driver := fakeMachine(t)
	kernels := fakecuda.Kernels{}
	for name, factor := range fakeFactors() {
		if err := os.RemoveAll(filepath.Join("models", name)); err != nil {
			t.Fatal(err)
		}
		writeModel(t, "models", name, "platform: onnxruntime\ndevice_type: cuda\nslo: 5s\nmax_batch: 4\ninputs: [{name: x, type: FP32, shape: [256]}]\noutputs: [{name: y, type: FP32, shape: [256]}]\n")
		kernels[name] = fakecuda.Kernel{Memory: 5 << 20, Time: func(int) mono.Dur { return mono.Millisecond },
			Run: func(n int, in, out [][]byte) error { multiply(factor, n, in[0], out[0]); return nil }}
	}
	h.gpus.Runtime = func() (cuda.Runtime, string, error) { return fakecuda.NewRuntime(kernels), "fake", nil }
	h.quick, h.pool.Paged = false, &config.Paged{Page: 1 << 20, Pages: 8}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s, err := h.serve(ctx, &gpu.Recorder{})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		for _, name := range []string{"first", "second"} {
			if cold := askFloats(ctx, t, s, name, 3); cold != 1 {
				t.Errorf("%d of 3 requests to %s were cold, want the first", cold, name)
			}
			if n := driver.Counts().Programs; n != 1 {
				t.Errorf("the GPU has %d programs, and room for one", n)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	h.close()
	if c := driver.Counts(); c != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", c)
	}
	for _, err := range driver.Misused() {
		t.Error(err)
	}
}

// askFloats sends a fake model some requests, one after the other, and tells how many were cold.
func askFloats(ctx context.Context, t *testing.T, s *gpu.System, model string, times int) (cold int) {
	t.Helper()
	in := make([]byte, 4*fakeFloats)
	for i := range fakeFloats {
		binary.LittleEndian.PutUint32(in[4*i:], math.Float32bits(float32(i)))
	}
	want := make([]byte, len(in))
	multiply(fakeFactors()[model], 1, in, want)
	for range times {
		r, err := s.Client.Infer(ctx, frontend.Request{Model: model, Inputs: []frontend.Tensor{{Name: "x", Type: "FP32", Shape: []int64{1, fakeFloats}, Data: in}}})
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		if string(r.Outputs[0].Data) != string(want) {
			t.Errorf("%s: a wrong output", model)
		}
		if r.Cold {
			cold++
		}
		r.Release()
	}
	return cold
}
