package backend

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/emugpu"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// keeping is a backend that keeps one GPU, without a scheduler; its model's runs call during.
func keeping(t *testing.T, d *fakecuda.Driver, during func()) *Backend {
	t.Helper()
	k := fakecuda.Kernels{"a": {Time: func(int) mono.Dur {
		during()
		return 0
	}}}
	b, _ := onFakes(t, d, k)
	b.clock, b.stop, b.members = emugpu.NewClock(1), make(chan struct{}), newMembers(b)
	p, err := b.buildPool(t.Context(), PoolConfig{Kind: KindCUDA, DeviceType: "g", Models: []string{"a"}}, gpuRepository(t, map[string]string{"a": ""}))
	if err != nil {
		t.Fatal(err)
	}
	b.pools = []*pool{p}
	if b.metrics, err = newMetrics(b, nil); err != nil {
		t.Fatal(err)
	}
	p.executors = append(p.executors, executor.New(p.devices[0], p.models, newRoster(), p.memory(0, transport.Heap{}), b, b.metrics.observer(0, 0)))
	b.keepGPUs()
	return b
}

// eventually waits for something.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// A GPU that telemetry wants closed while it is being reopened is closed, and serves only when
// it has been reopened once more.
func TestLostWhileReopened(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{})
	var b *Backend
	var armed atomic.Bool
	b = keeping(t, d, func() {
		if armed.CompareAndSwap(true, false) {
			b.judged(place{0, 0}, b.pools[0].gpus[0], health.Verdict{State: health.Out, Cause: "its memory failed", Remedy: health.NewContext})
		}
	})
	g := b.pools[0].gpus[0]
	reasons := func() int {
		b.service.mu.Lock()
		defer b.service.mu.Unlock()
		return len(b.service.out[place{0, 0}])
	}
	armed.Store(true)
	g.device.Fail(errors.New("for the test"))
	eventually(t, "it is closed again", func() bool { return !armed.Load() && g.losses.Load() == 2 && d.Counts().Contexts == 0 })
	if n := reasons(); n != 2 {
		t.Errorf("%d reasons against it, want its own and telemetry's", n)
	}
	b.judged(place{0, 0}, g, health.Verdict{})
	eventually(t, "it is back", func() bool { return reasons() == 0 })
	if _, err := profiler.Measure(t.Context(), g.device, 0, &b.pools[0].specs[0], profiler.Options{Warmup: 1, Rounds: 1}); err != nil {
		t.Errorf("it is in service: %v", err)
	}
	b.revived(place{0, 0}, g, 1) // late news of the first loss
	g.device.Fail(errors.New("a third time"))
	b.revived(place{0, 0}, g, 2)
	if reasons() != 1 {
		t.Error("in service after a revival of an earlier loss")
	}
	_ = b.Close()
	ended(t, b, nil, d)
}

// A backend ends although a GPU hangs while it is being reopened.
func TestCloseWhileReopening(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{})
	b := keeping(t, d, func() {})
	d.GPU(0).Hang()
	b.pools[0].gpus[0].device.Fail(errors.New("for the test"))
	eventually(t, "it hangs", d.GPU(0).Hanging)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = b.Close()
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("Close waits for the driver")
	}
	d.GPU(0).Release()
	eventually(t, "it gives back what it had", func() bool { return d.Counts() == fakecuda.Counts{} })
	ended(t, b, nil, d)
}
