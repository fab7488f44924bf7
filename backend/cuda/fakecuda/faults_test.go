package fakecuda_test

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
)

// calls is every call that a lost device refuses.
func calls(r *rig) map[string]func() error {
	return map[string]func() error{
		"Memory":        func() error { _, _, err := r.c.Memory(); return err },
		"Alloc":         func() error { _, err := r.c.Alloc(1); return err },
		"HostAlloc":     func() error { _, err := r.c.HostAlloc(1); return err },
		"HostRegister":  func() error { return r.c.HostRegister(make([]byte, 9)) },
		"NewStream":     func() error { _, err := r.c.NewStream(true); return err },
		"NewEvent":      func() error { _, err := r.c.NewEvent(); return err },
		"CopyIn":        func() error { return r.s.CopyIn(r.dev, r.host) },
		"CopyOut":       func() error { return r.s.CopyOut(r.host, r.dev) },
		"Record":        func() error { return r.s.Record(r.e) },
		"Wait":          func() error { return r.s.Wait(r.e) },
		"Synchronize":   func() error { return r.s.Synchronize() },
		"Done":          func() error { _, err := r.e.Done(); return err },
		"e.Synchronize": func() error { return r.e.Synchronize() },
		"Since":         func() error { _, err := r.e.Since(r.e); return err },
		"Open":          func() error { _, err := r.d.Open(0); return err },
		"Load of models": func() error {
			_, err := fakecuda.NewRuntime(fakecuda.Kernels{"m": {}}).Load(r.c, r.s, model("m", 1))
			return err
		},
	}
}

func allLost(t *testing.T, r *rig) {
	t.Helper()
	for what, call := range calls(r) {
		wantLost(t, what, call())
	}
}

// TestLost: every call says so, and once all is closed the device is there again.
func TestLost(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	r.g.Lose()
	allLost(t, r)
	r.close()
	r.open()
	must(t, r.s.CopyIn(r.dev, r.host))
	must(t, r.s.Synchronize())
	r.close()
}

// TestVanishAndReturn: it cannot be opened until it is back; the old context stays lost.
func TestVanishAndReturn(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	r.g.Vanish()
	allLost(t, r)
	if all, err := r.d.Devices(); err != nil || len(all) != 1 {
		t.Errorf("CUDA lists what it found at its start: %v, %v", all, err)
	}
	r.close()
	_, err := r.d.Open(0)
	wantLost(t, "Open of what has vanished", err)
	r.g.Return()
	r.open()
	r.g.Vanish()
	r.g.Return()
	allLost(t, r)
	r.close()
	r.open()
	r.close()
}

// TestLostWhileWaiting: who waits is told, for a copy, for a mark, and behind a hung kernel.
func TestLostWhileWaiting(t *testing.T) {
	for name, lose := range map[string]func(*fakecuda.GPU){"lost": (*fakecuda.GPU).Lose, "vanished": (*fakecuda.GPU).Vanish} {
		t.Run(name, func(t *testing.T) {
			r := setUp(t, fakecuda.Config{})
			run := execute2(t, r, fakecuda.Kernel{})
			r.g.Hang()
			must(t, run())
			must(t, r.s.Record(r.e))
			eventually(t, "the kernel hangs", r.g.Hanging)
			waiting := make(chan error, 3)
			waits := []func() error{r.s.Synchronize, r.e.Synchronize, func() error { return r.s.CopyOut(make([]byte, 9), r.dev) }}
			for _, wait := range waits {
				go func() { waiting <- cuda.On(r.c, wait) }()
			}
			if ok, err := r.e.Done(); ok || err != nil {
				t.Errorf("behind a hung kernel: done %v, %v", ok, err)
			}
			lose(r.g)
			for range waits {
				wantLost(t, "who waited", <-waiting)
			}
			allLost(t, r)
		})
	}
}

// execute2 is execute on a rig whose device will be lost; the test closes nothing.
func execute2(t *testing.T, r *rig, k fakecuda.Kernel) func() error {
	t.Helper()
	p := load(t, fakecuda.NewRuntime(fakecuda.Kernels{"m": k}), r.c, r.s, 1)
	t.Cleanup(func() {
		if err := p.Close(); err != nil && !errors.Is(err, cuda.ErrLost) {
			t.Error(err)
		}
		r.close()
	})
	must(t, p.Bind(0, 1, []cuda.Ptr{r.dev}, []cuda.Ptr{r.dev + 4}))
	return func() error { return p.Run(0, 1) }
}

// TestStickyError: the kernel before is done, the one that fails takes the context along.
func TestStickyError(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	run := execute2(t, r, fakecuda.Kernel{Run: func(_ int, in, out [][]byte) error { copy(out[0], in[0]); return nil }})
	must(t, run())
	must(t, r.s.Synchronize())
	r.g.FailKernel()
	must(t, run()) // it is only queued
	wantLost(t, "Synchronize", r.s.Synchronize())
	allLost(t, r)
	if n := r.g.Stats().Runs; n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
}

// TestKernelsError: a function that fails is a kernel that fails.
func TestKernelsError(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	run := execute2(t, r, fakecuda.Kernel{Run: func(int, [][]byte, [][]byte) error { return errors.New("assertion") }})
	must(t, run())
	wantLost(t, "Synchronize", r.s.Synchronize())
	allLost(t, r)
}

// TestHangAndRelease: a copy on another stream goes on meanwhile, a kernel does not.
func TestHangAndRelease(t *testing.T) {
	r := setUp(t, fakecuda.Config{})
	run := execute2(t, r, fakecuda.Kernel{})
	other, err := r.c.NewStream(false)
	must(t, err)
	second, err := fakecuda.NewRuntime(fakecuda.Kernels{"m": {}}).Load(r.c, other, model("m", 1))
	must(t, err)
	must(t, second.Bind(0, 1, []cuda.Ptr{r.dev + 1024}, []cuda.Ptr{r.dev + 1028}))

	r.g.Hang()
	must(t, run())
	eventually(t, "the kernel hangs", r.g.Hanging)
	must(t, other.CopyIn(r.dev+4096, r.host[:4096]))
	must(t, other.Synchronize())
	must(t, second.Run(0, 1))
	must(t, other.Record(r.e))
	if ok, err := r.e.Done(); ok || err != nil {
		t.Errorf("a second kernel behind a hung one: done %v, %v", ok, err)
	}
	r.g.Release()
	must(t, r.s.Synchronize())
	must(t, other.Synchronize())
	must(t, run()) // no other one hangs
	must(t, r.s.Synchronize())
	must(t, second.Close())
	must(t, other.Close())
}

// TestOutOfMemory: by the budget, which may change, and by order.
func TestOutOfMemory(t *testing.T) {
	r := setUp(t, fakecuda.Config{GPUs: []cuda.Info{{Memory: 1 << 20}}})
	wantMemory := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, cuda.ErrMemory) {
			t.Errorf("%s: %v, want ErrMemory", what, err)
		}
	}
	_, err := r.c.Alloc(1<<20 - room + 1)
	wantMemory("one byte more than is free", err)
	rest, err := r.c.Alloc(1<<20 - room)
	must(t, err)
	if free, total, err := r.c.Memory(); free != 0 || total != 1<<20 || err != nil {
		t.Errorf("%d of %d free, %v", free, total, err)
	}
	must(t, r.c.Free(rest))
	r.g.SetMemory(1)
	if free, total, err := r.c.Memory(); free != 0 || total != 1 || err != nil {
		t.Errorf("%d of %d free, %v", free, total, err)
	}
	_, err = r.c.Alloc(1)
	wantMemory("when others have taken the memory", err)
	r.g.SetMemory(1 << 20)

	r.g.FailAllocs(2)
	for range 2 {
		_, err = r.c.Alloc(1)
		wantMemory("as ordered", err)
	}
	r.d.FailHost(2)
	_, err = r.c.HostAlloc(1)
	wantMemory("HostAlloc, as ordered", err)
	wantMemory("HostRegister, as ordered", r.c.HostRegister(make([]byte, 9)))

	k := fakecuda.NewRuntime(fakecuda.Kernels{"m": {Memory: 2 << 20}})
	_, err = k.Load(r.c, r.s, model("m", 1))
	wantMemory("a model that does not fit", err)
	must(t, r.s.CopyIn(r.dev, r.host)) // it goes on
	must(t, r.s.Synchronize())
	r.close()
}

// TestUnsupported: where there is no driver, both calls say so.
func TestUnsupported(t *testing.T) {
	why := &cuda.UnsupportedError{What: "libcuda.so.1", Need: "install the driver"}
	d := fakecuda.New(fakecuda.Config{Unsupported: why})
	_, err := d.Devices()
	_, errOpen := d.Open(0)
	if err != error(why) || errOpen != error(why) {
		t.Errorf("%v, %v", err, errOpen)
	}
}
