package cuda_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// generous is a limit on liveness.
const generous = 20 * time.Second

// flip is a model of one tensor: out is in, each byte flipped.
func flip(maxBatch int) cuda.Model {
	t := []catalog.TensorSpec{{Name: "t", Type: catalog.Uint8, Shape: []int64{64}}}
	return cuda.Model{Spec: &catalog.ModelSpec{Name: "flip", Version: "1", MaxBatch: maxBatch, Inputs: t, Outputs: t}}
}

// pair is one of two tensors: ids below 10, and bytes; they come out flipped, and the other
// way round.
func pair(maxBatch int) cuda.Model {
	ids := catalog.TensorSpec{Name: "ids", Type: catalog.Uint8, Shape: []int64{8}}
	rest := catalog.TensorSpec{Name: "rest", Type: catalog.Uint8, Shape: []int64{24}}
	return cuda.Model{Spec: &catalog.ModelSpec{Name: "pair", Version: "1", MaxBatch: maxBatch, Inputs: []catalog.TensorSpec{ids, rest}, Outputs: []catalog.TensorSpec{rest, ids}}}
}

func flipTo(out, in []byte) {
	for i := range in {
		out[i] = in[i] ^ 0xff
	}
}

// kernels of the models; length is how long a batch takes.
func kernels(length func(int) mono.Dur) fakecuda.Kernels {
	return fakecuda.Kernels{
		"flip": {Time: length, Memory: 1 << 20, Run: func(_ int, in, out [][]byte) error {
			flipTo(out[0], in[0])
			return nil
		}},
		"pair": {Time: length, Memory: 1 << 20, Run: func(_ int, in, out [][]byte) error {
			for _, id := range in[0] { // of the padding, too
				if id >= 10 {
					return fmt.Errorf("id %d: illegal address", id)
				}
			}
			flipTo(out[0], in[1])
			flipTo(out[1], in[0])
			return nil
		}},
	}
}

// rig is a driver with one device on its GPU 0.
type rig struct {
	t       *testing.T
	driver  *fakecuda.Driver
	gpu     *fakecuda.GPU
	runtime *fakecuda.Runtime
	device  *cuda.Device
	models  []cuda.Model
	pinned  *cuda.Pinned

	mu   sync.Mutex
	lost []error
	warn []error
}

type config struct {
	fake    fakecuda.Config
	length  func(int) mono.Dur
	models  []cuda.Model
	options cuda.Options
	runtime func(cuda.Runtime) cuda.Runtime // what goes before the driver's; nil: nothing
}

// prepare makes a driver and a runtime.
func prepare(t *testing.T, c config) (*rig, cuda.Options) {
	t.Helper()
	r := &rig{t: t, driver: fakecuda.New(c.fake), runtime: fakecuda.NewRuntime(kernels(c.length)), models: c.models, pinned: cuda.NewPinned()}
	r.gpu = r.driver.GPU(0)
	if r.models == nil {
		r.models = []cuda.Model{flip(16), pair(16)}
	}
	o := c.options
	o.Pinned = r.pinned
	o.Lost = func(err error) { r.note(&r.lost, err) }
	o.Warn = func(err error) { r.note(&r.warn, err) }
	return r, o
}

func newRig(t *testing.T, c config) *rig {
	t.Helper()
	r, o := prepare(t, c)
	var refused []*cuda.RefusedError
	var err error
	kernels := cuda.Runtime(r.runtime)
	if c.runtime != nil {
		kernels = c.runtime(kernels)
	}
	r.device, refused, err = cuda.NewDevice(r.open(), kernels, r.models, o)
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	return r
}

func (r *rig) open() cuda.Context {
	r.t.Helper()
	c, err := r.driver.Open(0)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) note(list *[]error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, err)
}

func (r *rig) losses() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lost)
}

// until waits for something.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(generous); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, generous)
		}
	}
}

// close ends the device and looks at what it leaves.
func (r *rig) close() {
	r.t.Helper()
	r.device.Close()
	r.check()
}

func (r *rig) check() {
	r.t.Helper()
	if left := r.driver.Counts(); left != (fakecuda.Counts{}) {
		r.t.Errorf("left open: %+v", left)
	}
	for _, err := range r.driver.Misused() {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.warn {
		r.t.Error("warned:", err)
	}
}

// ended is how a batch ended.
type ended struct {
	batch      *executor.Batch
	start, end mono.Time
	err        error
}

// batch makes one of n items, with inputs that depend on seed, and tells when it has ended.
func (r *rig) batch(model, n, seed int, memory func(int) []byte, done chan<- ended) *executor.Batch {
	in, out := 0, 0
	for _, s := range r.models[model].Spec.Inputs {
		in += int(s.ByteSize())
	}
	for _, s := range r.models[model].Spec.Outputs {
		out += int(s.ByteSize())
	}
	b := &executor.Batch{Model: model, Size: n, Input: memory(n * in), Output: memory(n * out)}
	for i := range b.Input {
		b.Input[i] = byte(seed+i) % 10
		if model == 0 {
			b.Input[i] = 0xf0 | byte(seed+i)
		}
	}
	for i := range n {
		b.Inputs = append(b.Inputs, b.Input[i*in:(i+1)*in])
		b.Outputs = append(b.Outputs, b.Output[i*out:(i+1)*out])
	}
	b.Finish = func(start, end mono.Time, err error) { done <- ended{b, start, end, err} }
	return b
}

// right holds the outputs against the inputs.
func right(b *executor.Batch) error {
	for i, in := range b.Inputs {
		want := make([]byte, len(in))
		flipTo(want, in)
		if b.Model == 1 {
			want = append(append([]byte(nil), want[8:]...), want[:8]...)
		}
		if !bytes.Equal(b.Outputs[i], want) {
			return fmt.Errorf("model %d, batch of %d: item %d has another's output, or none: %x, want %x", b.Model, b.Size, i, b.Outputs[i], want)
		}
	}
	return nil
}

func heap(n int) []byte { return make([]byte, n) }

// run runs one batch and waits for it.
func (r *rig) run(model, n, seed int) ended {
	r.t.Helper()
	done := make(chan ended, 1)
	r.device.Launch(r.batch(model, n, seed, heap, done))
	return r.await(done)
}

func (r *rig) await(done <-chan ended) ended {
	r.t.Helper()
	select {
	case e := <-done:
		if e.err == nil {
			if err := right(e.batch); err != nil {
				r.t.Error(err)
			}
		}
		return e
	case <-time.After(generous):
		r.t.Fatal("a batch was not finished")
		return ended{}
	}
}

func leaks(t *testing.T) { goleak.VerifyNone(t) }

func isLost(err error) bool { return errors.Is(err, cuda.ErrLost) }
