package parts

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/transport/mono"
)

// digitsModel is the digits model, from the tree's root.
func digitsModel(t *testing.T) *repository.Model {
	t.Helper()
	t.Chdir("../../..")
	models, _, err := repository.Load("examples/digits/models")
	if err != nil {
		t.Fatal(err)
	}
	for i := range models {
		if models[i].Spec.Name == "digits-cnn" {
			return &models[i]
		}
	}
	t.Fatal("no digits-cnn")
	return nil
}

// openSession is the model on the CPU.
func openSession(t *testing.T, m *repository.Model) *onnx.Session {
	t.Helper()
	s, err := onnx.Open(m.Path, &m.Spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestDigitsOnThisGPU: the digits on a real GPU as on the CPU, in each precision, and as CUDA
// graphs. Where there is none it is skipped, unless SYMPHONY_REQUIRE_CUDA promises one.
func TestDigitsOnThisGPU(t *testing.T) {
	m := digitsModel(t)
	driver := CUDA()
	_, err := driver.Devices()
	var rt cuda.Runtime
	if err == nil {
		rt, _, err = HostGPUs(config.Backend{}, cli.Logger(config.Log{Level: "debug", Format: "console"})).Runtime()
	}
	if err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_CUDA") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := openSession(t, m)
	for name, c := range map[string]struct {
		model     cuda.Model
		tolerance float64
	}{
		"fp32":                 {cuda.Model{Precision: cuda.FP32}, 1e-3},
		"tf32":                 {cuda.Model{Precision: cuda.TF32}, 2e-2},
		"fp32, CUDA graphs":    {cuda.Model{Precision: cuda.FP32, Graphs: cuda.GraphsOn}, 1e-3},
		"fp32, no CUDA graphs": {cuda.Model{Precision: cuda.FP32, Graphs: cuda.GraphsOff}, 1e-3},
	} {
		t.Run(name, func(t *testing.T) { compareDigits(t, driver, rt, c.model, m, s, c.tolerance) })
	}
}

// The same on a GPU in software that computes on the CPU: so that the test above is known to
// work before a GPU can be had.
func TestDigitsOnFakeGPU(t *testing.T) {
	m := digitsModel(t)
	if err := onnx.Load(ONNXLibrary("")); err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_ONNXRUNTIME") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, other := openSession(t, m), openSession(t, m)
	var one sync.Mutex
	in, out := int(m.Spec.Inputs[0].ByteSize()), int(m.Spec.Outputs[0].ByteSize())
	kernel := fakecuda.Kernel{Run: func(size int, from, to [][]byte) error {
		b := &executor.Batch{Size: size}
		for i := range size {
			b.Inputs, b.Outputs = append(b.Inputs, from[0][i*in:(i+1)*in]), append(b.Outputs, to[0][i*out:(i+1)*out])
		}
		one.Lock()
		defer one.Unlock()
		return other.Run(b)
	}}
	driver := fakecuda.New(fakecuda.Config{})
	compareDigits(t, driver, fakecuda.NewRuntime(fakecuda.Kernels{"digits-cnn": kernel}), cuda.Model{Precision: cuda.FP32}, m, s, 1e-6)
	if open := driver.Counts(); open != (fakecuda.Counts{}) || len(driver.Misused()) > 0 {
		t.Errorf("left open: %+v, %v", open, driver.Misused())
	}
}

// compareDigits runs batches of all sizes on a device, two at a time, and holds each output
// against the CPU's: within a share of the largest probability, and with the same digit.
func compareDigits(t *testing.T, driver cuda.Driver, rt cuda.Runtime, model cuda.Model, m *repository.Model, want *onnx.Session, tolerance float64) {
	t.Helper()
	c, err := driver.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	model.Spec, model.Path, model.Sizes = &m.Spec, m.Path, cuda.Ladder(m.Spec.MaxBatch)
	d, refused, err := cuda.NewDevice(c, rt, []cuda.Model{model}, cuda.Options{Warn: func(err error) { t.Log(err) }})
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	defer d.Close()
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	worst := 0.0
	for size := 1; size <= m.Spec.MaxBatch; size += 2 {
		first, second := randomBatch(r, m, size), randomBatch(r, m, min(size+1, m.Spec.MaxBatch))
		finished := make(chan error, 2)
		for _, b := range []*executor.Batch{first, second} {
			b.Finish = func(start, end mono.Time, err error) {
				if err == nil && end < start {
					t.Errorf("seed %d: a batch of %d from %v to %v", seed, b.Size, start, end)
				}
				finished <- err
			}
			d.Launch(b)
		}
		for range 2 {
			if err := <-finished; err != nil {
				t.Fatalf("seed %d, batches of %d and more: %v", seed, size, err)
			}
		}
		for _, b := range []*executor.Batch{first, second} {
			worst = max(worst, furthest(t, b, want))
		}
	}
	t.Logf("off by at most %.2g of the largest probability", worst)
	if worst > tolerance {
		t.Errorf("seed %d: off by %.3g, at most %g", seed, worst, tolerance)
	}
}

// randomBatch is of pixels from 0 to 1.
func randomBatch(r *rand.Rand, m *repository.Model, size int) *executor.Batch {
	in, out := int(m.Spec.Inputs[0].ByteSize()), int(m.Spec.Outputs[0].ByteSize())
	b := &executor.Batch{Size: size, Input: make([]byte, size*in), Output: make([]byte, size*out)}
	for at := 0; at < len(b.Input); at += 4 {
		binary.LittleEndian.PutUint32(b.Input[at:], math.Float32bits(r.Float32()))
	}
	for i := range size {
		b.Inputs, b.Outputs = append(b.Inputs, b.Input[i*in:(i+1)*in]), append(b.Outputs, b.Output[i*out:(i+1)*out])
	}
	return b
}

// furthest is how far a batch's outputs lie from those of a session, relative to the largest
// of each item, which must be of the same digit.
func furthest(t *testing.T, b *executor.Batch, s *onnx.Session) (worst float64) {
	t.Helper()
	want := &executor.Batch{Size: b.Size, Inputs: b.Inputs}
	for _, o := range b.Outputs {
		want.Outputs = append(want.Outputs, make([]byte, len(o)))
	}
	if err := s.Run(want); err != nil {
		t.Fatal(err)
	}
	for i := range b.Size {
		got, expected := floats(b.Outputs[i]), floats(want.Outputs[i])
		best, seen := 0, 0
		for k := range expected {
			if expected[k] > expected[best] {
				best = k
			}
			if got[k] > got[seen] {
				seen = k
			}
		}
		for k := range expected {
			worst = max(worst, math.Abs(got[k]-expected[k])/expected[best])
		}
		if second := runnerUp(expected, best); seen != best && expected[best]-second > 0.05 {
			t.Errorf("item %d of %d: digit %d, want %d", i, b.Size, seen, best)
		}
	}
	return worst
}

func floats(b []byte) (all []float64) {
	for at := 0; at < len(b); at += 4 {
		all = append(all, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))))
	}
	return all
}

func runnerUp(v []float64, best int) (second float64) {
	for k := range v {
		if k != best {
			second = max(second, v[k])
		}
	}
	return second
}
