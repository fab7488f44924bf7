//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/drivertest"
	"github.com/symphony-serving/symphony/transport/mono"
)

// need skips where there is no driver, and fails where one was promised.
func need(t *testing.T) {
	t.Helper()
	_, err := New().Devices()
	switch {
	case err == nil:
	case os.Getenv("SYMPHONY_REQUIRE_CUDA") == "1":
		t.Fatalf("SYMPHONY_REQUIRE_CUDA=1 promises a GPU: %v", err)
	default:
		var missing *cuda.UnsupportedError
		if !errors.As(err, &missing) || missing.What == "" || missing.Need == "" {
			t.Fatalf("without a driver: %v, want an UnsupportedError that says what to do", err)
		}
		t.Skip(err)
	}
}

// TestConformance is the suite that fakecuda passes too: whoever tests over it has its word
// for what a device does.
func TestConformance(t *testing.T) {
	need(t)
	drivertest.Run(t, func(*testing.T) drivertest.Fixture {
		return drivertest.Fixture{Driver: New(), Execute: spin, Leaks: leaks}
	})
}

// leaks: what is open in this process.
func leaks() error {
	process.mu.Lock()
	defer process.mu.Unlock()
	if len(process.primaries) > 0 {
		return errors.New("a context")
	}
	if n := len(process.pinned.list()); n > 0 {
		return errors.New("pinned memory")
	}
	return nil
}

// spinning waits 3 million cycles of the device's clock: 2 ms at 1.5 GHz.
const spinning = `.version 6.0
.target sm_70
.address_size 64
.visible .entry spin()
{
	.reg .u64 %start, %now, %gone;
	.reg .pred %again;
	mov.u64 %start, %clock64;
more:
	mov.u64 %now, %clock64;
	sub.u64 %gone, %now, %start;
	setp.lt.u64 %again, %gone, 3000000;
	@%again bra more;
	ret;
}
`

// spin makes what queues one thread of that. c must stay open until the test's cleanups: the
// module is unloaded by one of them.
func spin(t *testing.T, c cuda.Context, s cuda.Stream) func() error {
	m, err := cu.LoadData(spinning)
	if err != nil {
		t.Fatal(describe(codeOf(err)))
	}
	t.Cleanup(func() {
		must(t, cuda.On(c, func() error { return failure(codeOf(m.Unload())) }))
	})
	f, err := m.Function("spin")
	if err != nil {
		t.Fatal(describe(codeOf(err)))
	}
	return func() error {
		return f.Launch(1, 1, 1, 1, 1, 1, 0, s.(*stream).s, []unsafe.Pointer{})
	}
}

// TestPinnedCopiesDoNotWait: of the same bytes, a copy from pinned memory is only queued. It
// is told by whether an event behind it is still to come, on any of a hundred tries.
func TestPinnedCopiesDoNotWait(t *testing.T) {
	need(t)
	if os.Getenv(childVariable) != "" {
		t.Skip("the driver of the tests does all at once")
	}
	const size = 64 << 20
	c, err := New().Open(0)
	must(t, err)
	defer func() { must(t, c.Close()) }()
	must(t, cuda.On(c, func() error {
		s, err := c.NewStream(false)
		must(t, err)
		e, err := c.NewEvent()
		must(t, err)
		dev, err := c.Alloc(size)
		must(t, err)
		m, err := c.HostAlloc(size)
		must(t, err)
		queued := false
		for i := 0; i < 100 && !queued; i++ {
			must(t, s.CopyIn(dev, m))
			must(t, s.Record(e))
			done, err := e.Done()
			must(t, err)
			queued = !done
			must(t, s.Synchronize())
		}
		if !queued {
			t.Error("each of 100 copies of 64 MiB of pinned memory was done when its call returned")
		}
		return errors.Join(c.HostFree(m), c.Free(dev), e.Close(), s.Close())
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTimeOfAKernel: events see that a kernel took time, and no more than the host saw.
func TestTimeOfAKernel(t *testing.T) {
	need(t)
	c, err := New().Open(0)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) }) // after spin's
	must(t, cuda.On(c, func() error {
		s, err := c.NewStream(true)
		must(t, err)
		var e [2]cuda.Event
		for i := range e {
			e[i], err = c.NewEvent()
			must(t, err)
		}
		run := spin(t, c, s)
		must(t, run()) // loads it
		must(t, s.Synchronize())
		before := mono.Now()
		must(t, s.Record(e[0]))
		must(t, run())
		must(t, s.Record(e[1]))
		must(t, e[1].Synchronize())
		host := mono.Now().Sub(before)
		took, err := e[1].Since(e[0])
		must(t, err)
		if took < 100*mono.Microsecond || took > host+mono.Millisecond && os.Getenv(childVariable) == "" {
			t.Errorf("a kernel of 3 million cycles took %v by its events, %v by the host's clock", took, host)
		}
		return errors.Join(e[0].Close(), e[1].Close(), s.Close())
	}))
}
