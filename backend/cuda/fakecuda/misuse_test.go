package fakecuda_test

import (
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestMisuse: each is an error, and each is kept.
func TestMisuse(t *testing.T) {
	cases := map[string]func(*testing.T, *rig) error{
		"double free":         func(t *testing.T, r *rig) error { must(t, r.c.Free(r.dev)); return r.c.Free(r.dev) },
		"free of a middle":    func(t *testing.T, r *rig) error { return r.c.Free(r.dev + 8) },
		"stream closed twice": func(t *testing.T, r *rig) error { must(t, r.s.Close()); return r.s.Close() },
		"event closed twice":  func(t *testing.T, r *rig) error { must(t, r.e.Close()); return r.e.Close() },
		"copy after Close":    func(t *testing.T, r *rig) error { must(t, r.s.Close()); return r.s.CopyIn(r.dev, r.host) },
		"mark after Close":    func(t *testing.T, r *rig) error { must(t, r.e.Close()); return r.s.Record(r.e) },
		"question after Close": func(t *testing.T, r *rig) error {
			must(t, r.e.Close())
			_, err := r.e.Done()
			return err
		},
		"copy beyond the memory":             func(t *testing.T, r *rig) error { return r.s.CopyIn(r.dev+1, r.host) },
		"copy into freed memory":             func(t *testing.T, r *rig) error { must(t, r.c.Free(r.dev)); return r.s.CopyIn(r.dev, r.host) },
		"HostFree twice":                     func(t *testing.T, r *rig) error { must(t, r.c.HostFree(r.host)); return r.c.HostFree(r.host) },
		"HostFree of a part":                 func(t *testing.T, r *rig) error { return r.c.HostFree(r.host[:8]) },
		"HostUnregister of allocated memory": func(t *testing.T, r *rig) error { return r.c.HostUnregister(r.host) },
		"HostUnregister of nothing":          func(t *testing.T, r *rig) error { return r.c.HostUnregister(make([]byte, 8)) },
		"Close of what is in use":            func(t *testing.T, r *rig) error { return r.c.Close() },
		"since never":                        func(t *testing.T, r *rig) error { _, err := r.e.Since(r.e); return err },
		"another thread": func(t *testing.T, r *rig) (err error) {
			var other sync.WaitGroup
			other.Go(func() { err = r.s.Synchronize() }) // this goroutine's thread is locked
			other.Wait()
			return err
		},
		"use after the context's Close": func(t *testing.T, r *rig) error {
			for _, err := range []error{r.s.Close(), r.e.Close(), r.c.Free(r.dev), r.c.HostFree(r.host), r.c.Close()} {
				must(t, err)
			}
			return r.s.Synchronize()
		},
		"free under a queued copy": func(t *testing.T, r *rig) error {
			defer behindHang(t, r, func() { must(t, r.s.CopyIn(r.dev, r.host)) })()
			return r.c.Free(r.dev)
		},
		"HostFree under a queued copy": func(t *testing.T, r *rig) error {
			defer behindHang(t, r, func() { must(t, r.s.CopyIn(r.dev, r.host)) })()
			return r.c.HostFree(r.host)
		},
		"an event of another device": func(t *testing.T, r *rig) error {
			c, err := r.d.Open(1)
			must(t, err)
			must(t, c.Enter())
			e, err := c.NewEvent()
			must(t, err)
			must(t, r.c.Enter())
			return r.s.Wait(e)
		},
		"the context of another device": func(t *testing.T, r *rig) error {
			c, err := r.d.Open(1)
			must(t, err)
			must(t, c.Enter())
			return r.s.CopyIn(r.dev, r.host)
		},
	}
	for name, misuse := range cases {
		t.Run(name, func(t *testing.T) {
			r := setUp(t, fakecuda.Config{GPUs: make([]cuda.Info, 2)})
			if err := misuse(t, r); err == nil {
				t.Error("it was taken")
			}
			if m := r.d.Misused(); len(m) != 1 {
				t.Errorf("kept: %v, want one", m)
			}
		})
	}
}

// behindHang queues something behind a kernel that hangs; the result lets it go on.
func behindHang(t *testing.T, r *rig, do func()) func() {
	p := load(t, fakecuda.NewRuntime(fakecuda.Kernels{"m": {}}), r.c, r.s, 1)
	must(t, p.Bind(0, 1, []cuda.Ptr{r.dev}, []cuda.Ptr{r.dev + 4}))
	r.g.Hang()
	must(t, p.Run(0, 1))
	do()
	return func() {
		r.g.Release()
		must(t, r.s.Synchronize())
	}
}

// TestMissingWait: a copy into memory that a kernel reads, without an event between them.
func TestMissingWait(t *testing.T) {
	r := setUp(t, fakecuda.Config{CopyTime: mono.Millisecond})
	other, err := r.c.NewStream(false)
	must(t, err)
	run := execute2(t, r, fakecuda.Kernel{Time: func(int) mono.Dur { return 50 * mono.Millisecond }})
	must(t, run())
	must(t, other.CopyOut(r.host[16:20], r.dev)) // both read
	must(t, r.s.Record(r.e))
	must(t, other.Wait(r.e)) // with it, nothing is wrong
	must(t, other.CopyIn(r.dev, r.host[:4]))
	must(t, other.CopyOut(r.host[4:8], r.dev))
	must(t, other.Synchronize())
	if m := r.d.Misused(); len(m) != 0 {
		t.Fatal(m)
	}
	must(t, other.Close())

	d := setUp(t, fakecuda.Config{CopyTime: 1000 * mono.Second})
	other, err = d.c.NewStream(false)
	must(t, err)
	must(t, d.s.CopyIn(d.dev, d.host[:8]))
	must(t, other.CopyOut(d.host[8:16], d.dev+4))
	eventually(t, "a copy out of what is copied in at the same time is seen", func() bool { return len(d.d.Misused()) == 1 })
	d.g.Lose() // before the race detector sees it, too
	wantLost(t, "Synchronize", d.s.Synchronize())
}
