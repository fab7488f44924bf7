package cuda_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// refusing is a runtime whose programs fail on some inputs, as ONNX Runtime does: the device
// goes on.
type refusing struct {
	*fakecuda.Runtime
	takes func(in [][]byte) bool

	mu   sync.Mutex // Guards what follows.
	runs int        // that were taken
	bad  error      // of the run under way
}

type refusingProgram struct {
	cuda.Program
	r *refusing
	s cuda.Stream
}

func (r *refusing) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	p, err := r.Runtime.Load(c, s, m)
	return &refusingProgram{p, r, s}, err
}

// Run waits for the kernel, which has looked at its inputs.
func (p *refusingProgram) Run(slot, size int) error {
	p.r.mu.Lock()
	p.r.bad = nil
	p.r.mu.Unlock()
	if err := errors.Join(p.Program.Run(slot, size), p.s.Synchronize()); err != nil {
		return err
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.r.bad
}

func (r *refusing) kernel(_ int, in, _ [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.takes(in) {
		r.runs++
	} else {
		r.bad = errors.New("Integer modulo by zero")
	}
	return nil
}

// First runs on a GPU are on the inputs of the model's setting, in both slots and each size; without
// a setting on zeros; and where they fail the model is refused with what to set, and the device goes on.
func TestFirstRunsOnWarmupInputs(t *testing.T) {
	in := []catalog.TensorSpec{{Name: "a", Type: catalog.Uint8, Shape: []int64{3}}, {Name: "k", Type: catalog.Uint8, Shape: []int64{2}}}
	spec := &catalog.ModelSpec{Name: "m", Version: "1", MaxBatch: 4, Inputs: in, Outputs: in}
	setting := &warmup.Setting{Inputs: map[string]warmup.Input{"k": {Random: []float64{7, 9}}}}
	inputs := setting.Make(in, nil, func(field, format string, args ...any) { t.Errorf(field+format, args...) })
	all := func(b []byte, lo, hi byte) bool {
		for _, v := range b {
			if v < lo || v > hi {
				return false
			}
		}
		return true
	}
	for name, c := range map[string]struct {
		inputs *warmup.Inputs
		takes  func(in [][]byte) bool
		fails  string
	}{
		"the setting":      {inputs: inputs, takes: func(in [][]byte) bool { return all(in[0], 0, 0) && all(in[1], 7, 9) }},
		"zeros":            {takes: func(in [][]byte) bool { return all(in[0], 0, 0) && all(in[1], 0, 0) }},
		"no zeros":         {takes: func(in [][]byte) bool { return all(in[1], 1, 255) }, fails: "its warm-up run on zeros failed: set warmup in config.yaml"},
		"none of the ones": {inputs: inputs, takes: func(in [][]byte) bool { return all(in[1], 0, 0) }, fails: "k random in 7 to 9) failed: correct warmup in config.yaml"},
	} {
		for _, later := range []bool{false, true} {
			r := &refusing{takes: c.takes}
			d := fakecuda.New(fakecuda.Config{})
			r.Runtime = fakecuda.NewRuntime(fakecuda.Kernels{"m": {Run: r.kernel}})
			ctx, err := d.Open(0)
			if err != nil {
				t.Fatal(err)
			}
			o := cuda.Options{Empty: true}
			m := cuda.Model{Spec: spec, Warmup: c.inputs}
			var models []cuda.Model
			if !later {
				models = append(models, m)
			}
			device, refused, err := cuda.NewDevice(ctx, r, models, o)
			if err != nil {
				t.Fatal(name, err)
			}
			if later {
				_, err = device.Load(t.Context(), 0, m)
			} else if len(refused) > 0 {
				err = refused[0]
			}
			device.Close()
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s, later %v: %q is missing in %v", name, later, c.fails, err)
			}
			if want := 2 * 4 * len(cuda.Ladder(4)); err == nil && r.runs != want {
				t.Errorf("%s, later %v: %d runs, want %d", name, later, r.runs, want)
			}
			for _, err := range d.Misused() {
				t.Error(name, err)
			}
		}
	}
}
