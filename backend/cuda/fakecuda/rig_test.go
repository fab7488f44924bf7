package fakecuda_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/catalog"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is an open device with a stream, memory of both sides, and an event.
type rig struct {
	t    *testing.T
	d    *fakecuda.Driver
	g    *fakecuda.GPU
	c    cuda.Context
	s    cuda.Stream
	e    cuda.Event
	dev  cuda.Ptr
	host []byte
}

// setUp opens device 0; the goroutine keeps its thread, which has entered it.
func setUp(t *testing.T, c fakecuda.Config) *rig {
	t.Helper()
	r := &rig{t: t, d: fakecuda.New(c)}
	r.g = r.d.GPU(0)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	r.open()
	return r
}

const room = 64 << 10 // bytes of a rig's memory

func (r *rig) open() {
	r.t.Helper()
	var err error
	r.c, err = r.d.Open(0)
	must(r.t, err)
	must(r.t, r.c.Enter())
	r.s, err = r.c.NewStream(false)
	must(r.t, err)
	r.e, err = r.c.NewEvent()
	must(r.t, err)
	r.dev, err = r.c.Alloc(room)
	must(r.t, err)
	r.host, err = r.c.HostAlloc(room)
	must(r.t, err)
}

// close closes all; a lost device may say so. Nothing may be left.
func (r *rig) close() {
	r.t.Helper()
	for i, err := range []error{r.s.Close(), r.e.Close(), r.c.Free(r.dev), r.c.HostFree(r.host)} {
		if err != nil && !errors.Is(err, cuda.ErrLost) {
			r.t.Fatalf("closing, number %d: %v", i, err)
		}
	}
	must(r.t, r.c.Close())
	if n := r.d.Counts(); n != (fakecuda.Counts{}) {
		r.t.Fatalf("left open: %+v", n)
	}
	if m := r.d.Misused(); len(m) > 0 {
		r.t.Fatal(m[0])
	}
}

func wantLost(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, cuda.ErrLost) {
		t.Errorf("%s: %v, want ErrLost", what, err)
	}
}

// eventually waits for what must happen at all.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 5000 {
		if is() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// model takes and makes one float32 an item.
func model(name string, sizes ...int) *cuda.Model {
	tensor := func(name string) []catalog.TensorSpec {
		return []catalog.TensorSpec{{Name: name, Type: "FP32", Shape: []int64{1}}}
	}
	return &cuda.Model{Spec: &catalog.ModelSpec{Name: name, Version: "1", MaxBatch: sizes[len(sizes)-1], Inputs: tensor("x"), Outputs: tensor("y")}, Sizes: sizes}
}

func load(t *testing.T, r *fakecuda.Runtime, c cuda.Context, s cuda.Stream, sizes ...int) cuda.Program {
	t.Helper()
	p, err := r.Load(c, s, model("m", sizes...))
	must(t, err)
	return p
}
