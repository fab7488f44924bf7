package gpu

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// rig is a machine with a GPU in software and two models: doubles, whose answers are twice its
// inputs, and halves, which has two inputs and is wrong by off.
type rig struct {
	driver *fakecuda.Driver
	gpu    *cuda.Device
	off    float64
	hang   mono.Dur // after which the device counts as lost; 0: long, for busy machines
	opened int
	closed int
	during func() // each load of a model; nil: nothing
}

const (
	rigAlpha = 50 * mono.Microsecond
	rigBeta  = 700 * mono.Microsecond
)

func rigTime(size int) mono.Dur { return rigBeta + mono.Dur(size)*rigAlpha }

func vector(name string, n int64) catalog.TensorSpec {
	return catalog.TensorSpec{Name: name, Type: catalog.FP32, Shape: []int64{n}}
}

func rigSpecs() []*catalog.ModelSpec {
	return []*catalog.ModelSpec{
		{Name: "doubles", Version: "1", MaxBatch: 8, Inputs: []catalog.TensorSpec{vector("x", 4096)}, Outputs: []catalog.TensorSpec{vector("y", 64)}},
		{Name: "halves", Version: "1", MaxBatch: 4, Inputs: []catalog.TensorSpec{vector("a", 16), vector("b", 16)}, Outputs: []catalog.TensorSpec{vector("y", 16)}},
	}
}

func get(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}
func put(b []byte, i int, v float64) {
	binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(v)))
}

// doubles and halves are what the models compute, tensor by tensor, and wrong by off.
func doubles(n int, in, out [][]byte, _ float64) {
	for k := range n {
		for i := range 64 {
			put(out[0][k*256:], i, 2*get(in[0][k*4096*4:], i))
		}
	}
}

func halves(n int, in, out [][]byte, off float64) {
	for k := range n {
		for i := range 16 {
			put(out[0][k*64:], i, (1+off)*(get(in[0][k*64:], i)+get(in[1][k*64:], i))/2)
		}
	}
}

// item is the i-th input of so many floats.
func item(floats int) func(i int) []byte {
	return func(i int) []byte {
		b := make([]byte, 4*floats)
		for k := range floats {
			put(b, k, math.Sin(float64(i*floats+k)))
		}
		return b
	}
}

// compare is of one tensor.
func compareFloats(got, want []byte) (Difference, error) {
	if len(got) != len(want) {
		return Difference{}, fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	d, large, apart := Difference{Argmax: true}, 0.0, 0.0
	for i := range len(got) / 4 {
		large, apart = max(large, math.Abs(get(want, i))), max(apart, math.Abs(get(got, i)-get(want, i)))
	}
	d.Relative, d.Where = apart/large, "y"
	return d, nil
}

// onHost is the CPU: item by item, as slabs have it.
type onHost struct{}

func (onHost) Launch(b *executor.Batch) {
	start := mono.Now()
	switch b.Model {
	case 0:
		doubles(1, [][]byte{b.Input}, [][]byte{b.Output}, 0)
	case 1:
		halves(1, [][]byte{b.Input[:64], b.Input[64:]}, [][]byte{b.Output}, 0)
	}
	b.Finish(start, mono.Now(), nil)
}
func (onHost) Close() {}

// told is a runtime whose loads are told of.
type told struct {
	cuda.Runtime
	r *rig
}

// Load implements cuda.Runtime.
func (k told) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	if k.r.during != nil {
		k.r.during()
	}
	return k.Runtime.Load(c, s, m)
}

func (r *rig) runtime() *fakecuda.Runtime {
	return fakecuda.NewRuntime(fakecuda.Kernels{
		"doubles": {Time: rigTime, Run: func(n int, in, out [][]byte) error { doubles(n, in, out, 0); return nil }},
		"halves":  {Time: rigTime, Run: func(n int, in, out [][]byte) error { halves(n, in, out, r.off); return nil }},
	})
}

func newRig() *rig {
	return &rig{driver: fakecuda.New(fakecuda.Config{CopyTime: 20 * mono.Microsecond, Bandwidth: 2 << 30})}
}

// open is Machine.Open.
func (r *rig) open(context.Context) (*Direct, error) {
	c, err := r.driver.Open(0)
	if err != nil {
		return nil, err
	}
	d := &Direct{Driver: r.driver, Runtime: r.runtime(), CPU: onHost{}, PieceMost: 4 << 20}
	var models []cuda.Model
	for i, s := range rigSpecs() {
		m := Model{Model: cuda.Model{Spec: s, Precision: cuda.FP32, Sizes: cuda.Ladder(s.MaxBatch)}, Items: 5, CPU: i, Tolerance: 1e-3, Compare: compareFloats}
		m.Item = item(itemSize(s.Inputs) / 4)
		d.Models, models = append(d.Models, m), append(models, m.Model)
	}
	if r.gpu, _, err = cuda.NewDevice(c, told{d.Runtime, r}, models, cuda.Options{Hang: cmp.Or(r.hang, 30*mono.Second)}); err != nil {
		return nil, err
	}
	own, err := r.driver.Open(0)
	if err != nil {
		return nil, err
	}
	d.GPU = r.gpu
	d.Alloc = func(n int) (b []byte, err error) {
		err = cuda.On(own, func() error { b, err = own.HostAlloc(n); return err })
		return b, err
	}
	d.Free = func(b []byte) { _ = cuda.On(own, func() error { return own.HostFree(b) }) }
	d.Close = func() error { r.closed++; r.gpu.Close(); return own.Close() }
	r.opened++
	return d, nil
}

// machine has what needs no system.
func (r *rig) machine() Machine {
	return Machine{Driver: r.driver, Processors: 2, Open: r.open,
		Look: func() ([]Reading, error) {
			infos, err := r.driver.Devices()
			if err != nil {
				return nil, err
			}
			return []Reading{{Name: infos[0].Name, UUID: infos[0].UUID, ClockMHz: 1755, ClockMostMHz: 1980, PowerW: 310, Celsius: 44, Health: "healthy", Healthy: true}}, nil
		},
		Suite: func(_ context.Context, to io.Writer) error {
			_, err := io.WriteString(to, "--- PASS: TestDriver (0.10s)\n    --- PASS: TestDriver/copies (0.10s)\nPASS\n")
			return err
		}}
}

// leaks is what a run has left behind in the driver.
func (r *rig) leaks(t *testing.T) {
	t.Helper()
	if c := r.driver.Counts(); c != (fakecuda.Counts{}) {
		t.Errorf("left behind: %+v", c)
	}
	for _, err := range r.driver.Misused() {
		t.Error(err)
	}
}

// options are of a short run of some parts.
func options(t *testing.T, only ...string) Options {
	return Options{Out: outFolder(t), Only: only, Limit: 13 * mono.Second, reserve: mono.Second, Command: "symphony bench gpu", Version: "v0", Host: "here", Time: "now", Progress: testWriter{t}}
}

// inTime runs parts. If one fails with its time over, on a busy machine, they get three times the time, once.
func inTime(t *testing.T, o Options) (*rig, *Result) {
	t.Helper()
	over := func(p Outcome) bool { return p.Status == NotRun || p.Status == Failed && p.Seconds > p.Budget/2 }
	for again := false; ; again = true {
		r := newRig()
		res, err := Run(t.Context(), r.machine(), o)
		if err != nil {
			t.Fatal(err)
		}
		if again || !slices.ContainsFunc(res.Parts, over) {
			return r, res
		}
		t.Logf("a busy machine: %v", res.Failures())
		r.leaks(t)
		o.Limit *= 3
	}
}

// counted tells of a launch.
type counted struct {
	executor.Device
	launches int // until then; they come one at a time
	then     func()
}

// Launch implements executor.Device.
func (c *counted) Launch(b *executor.Batch) {
	if c.launches--; c.launches == 0 {
		c.then()
	}
	c.Device.Launch(b)
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) { w.t.Log(string(p)); return len(p), nil }

func outcome(t *testing.T, r *Result, name string) *Outcome {
	t.Helper()
	for i := range r.Parts {
		if r.Parts[i].Part == name {
			return &r.Parts[i]
		}
	}
	t.Fatalf("no part %s: %+v", name, r.Parts)
	return nil
}

var errRig = errors.New("no more of it")

func files(t *testing.T, folder, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// outFolder is where a test's report goes: GPU_REPORT names a folder for who wants to look.
func outFolder(t *testing.T) string {
	if dir := os.Getenv("GPU_REPORT"); dir != "" {
		return filepath.Join(dir, t.Name())
	}
	return t.TempDir()
}
