package fakecuda_test

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/drivertest"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestConformance: a GPU that copies in no time, one that takes time, and the second of two.
func TestConformance(t *testing.T) {
	cases := []struct {
		name   string
		c      fakecuda.Config
		device int
		model  fakecuda.Kernel
	}{
		{"in no time", fakecuda.Config{}, 0, fakecuda.Kernel{}},
		{"as fast as PCIe", fakecuda.Config{CopyTime: 5 * mono.Microsecond, Bandwidth: 20 << 30}, 0, fakecuda.Kernel{Time: func(int) mono.Dur { return 2 * mono.Millisecond }}},
		{"second of two", fakecuda.Config{GPUs: make([]cuda.Info, 2), CopyTime: 400 * mono.Microsecond}, 1, fakecuda.Kernel{Time: func(int) mono.Dur { return mono.Millisecond }}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Fixture {
				d := fakecuda.New(c.c)
				return drivertest.Fixture{
					Driver: d, Device: c.device,
					Execute: func(t *testing.T, ctx cuda.Context, s cuda.Stream) func() error { return execute(t, ctx, s, c.model) },
					Leaks: func() error {
						if n := d.Counts(); n != (fakecuda.Counts{}) {
							return fmt.Errorf("%+v", n)
						}
						if m := d.Misused(); len(m) > 0 {
							return fmt.Errorf("%d times, at first: %w", len(m), m[0])
						}
						return nil
					},
				}
			})
		})
	}
}

// execute loads a model of one input and one output of 4 bytes and gives what runs it.
func execute(t *testing.T, c cuda.Context, s cuda.Stream, k fakecuda.Kernel) func() error {
	p := load(t, fakecuda.NewRuntime(fakecuda.Kernels{"m": k}), c, s, 1)
	at, err := c.Alloc(64)
	must(t, err)
	t.Cleanup(func() { must(t, c.Free(at)) })
	t.Cleanup(func() { must(t, p.Close()) })
	must(t, p.Bind(0, 1, []cuda.Ptr{at}, []cuda.Ptr{at + 32}))
	return func() error { return p.Run(0, 1) }
}
