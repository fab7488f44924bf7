package sim

import (
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// liveHeap is the heap that is live late in a run of so many requests, beside
// what was live before it.
func liveHeap(t *testing.T, requests int) int64 {
	t.Helper()
	const rate = 4000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, late, arrived := heap(), int64(0), 0
	cfg := &Config{Models: []Model{{Name: "ResNet50", Profile: linear(t, 1.053, 5.072), SLO: 25 * mono.Millisecond, Stream: workload.Stream{Process: workload.Poisson, Rate: rate}}},
		GPUs: 8, NewPolicy: symphony, Duration: mono.FromSeconds(float64(requests) / rate), Seed: 1}
	cfg.Observer.Arrive = func(mono.Time, wire.ModelID) {
		if arrived++; arrived == requests*9/10 {
			late = heap()
		}
	}
	r, err := Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if late == 0 || r.All.BadRate() > 0.01 {
		t.Fatalf("%d requests arrived, bad rate %g: the run is not what it should be", arrived, r.All.BadRate())
	}
	return late - before
}

// TestMemoryDoesNotFollowTheRun: ten times as many requests, the same heap.
func TestMemoryDoesNotFollowTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 2,200,000 requests")
	}
	short, long := liveHeap(t, 200_000), liveHeap(t, 2_000_000)
	const noise = 256 << 10 // of what else the process holds; a byte of each request would be 1.8 MB
	if long > short+noise || short > long+noise {
		t.Errorf("live heap %d bytes in a run of 200,000 requests, %d in one of 2,000,000", short, long)
	}
	t.Logf("live heap %d and %d bytes", short, long)
}

// TestNoAllocationPerRequest: a run twice as long allocates no more often.
func TestNoAllocationPerRequest(t *testing.T) {
	allocations := func(seconds float64) float64 {
		cfg := zooConfig(t, 16000)
		cfg.Duration = mono.FromSeconds(seconds)
		return testing.AllocsPerRun(1, func() {
			if _, err := Run(cfg, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Buffers that have yet to meet their largest batch may grow once or twice.
	if short, long := allocations(4), allocations(8); long > short+50 {
		t.Errorf("%.0f allocations in 64,000 requests, %.0f in 128,000", short, long)
	} else {
		t.Logf("%.0f and %.0f allocations", short, long)
	}
}
