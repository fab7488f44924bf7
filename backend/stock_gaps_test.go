package backend

import (
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// On a GPU that serves, a model whose runs are longer than a served model can wait is run once to
// measure it, a batch of one, and its other sizes are estimated.
func TestGPUMeasuresNoLongerThanOthersCanWait(t *testing.T) {
	d := fakecuda.New(fakecuda.Config{GPUs: []cuda.Info{{Name: "NVIDIA T1"}}})
	var runs [9]atomic.Int64
	slow := fakecuda.Kernel{Memory: 1 << 20, Time: func(size int) mono.Dur { return 60 * mono.Millisecond },
		Run: func(size int, _, _ [][]byte) error { runs[size].Add(1); return nil }}
	s := onGPUs(t, d, fakecuda.Kernels{"a": steady(1 << 20), "slow": slow})
	defer ends(t, s, d)
	s.admitted(100)
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{gpuSource(t, "a")}})
	s.until("a/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"a/1": 1})
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{gpuSource(t, "slow")}})
	ready := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.last("slow/1").State == catalog.StateReady
	}
	for id := wire.BatchID(1); !ready(); id++ {
		if done := s.orderOn(0, 100, id, 1); done.Reason != wire.ReasonNone {
			t.Errorf("%+v", done)
		}
	}
	s.mu.Lock()
	got := s.last("slow/1").Spec.Profile.Table
	s.mu.Unlock()
	loading := int64(3) // of each size: the runs that load it, one in each slot and one that is timed
	for _, size := range cuda.Ladder(8) {
		want := loading
		if size == 1 {
			want++
		}
		if n := runs[size].Load(); n != want {
			t.Errorf("%d runs of batches of %d, want %d", n, size, want)
		}
	}
	if got[0] < 60*mono.Millisecond || got[7] < 8*got[0]-8 || len(s.log.about("profile measured", `"estimated":[2,3,4,6,8]`)) != 1 {
		t.Errorf("planned with %v", got)
	}
}

// A device that has had an order lately is left alone after a run for nine times its length; one that
// has not is not. A run that finds no gap waits for a hundred times its length.
func TestShareOfADevice(t *testing.T) {
	const ms = mono.Millisecond
	at := func(n int) mono.Time { return mono.Time(mono.Dur(n) * ms) }
	var s share
	if !s.due(at(0), 0) || s.overdue(at(9900), at(0)) || !s.overdue(at(9901), at(0)) {
		t.Error("before the first run")
	}
	s.ran(at(100), at(103))
	for _, c := range []struct {
		now   int
		quiet mono.Dur
		due   bool
	}{{103, 0, false}, {129, 5 * ms, false}, {130, 0, true}, {104, idleAfter + 1, true}, {104, mono.Dur(mono.Never), true}} {
		if s.due(at(c.now), c.quiet) != c.due {
			t.Errorf("a run of 3 ms has ended at 103 ms; at %d ms, with no order for %v, the next one is due: %v", c.now, c.quiet, !c.due)
		}
	}
	if s.overdue(at(300), at(3)) || !s.overdue(at(301), at(3)) {
		t.Error("a run goes before orders after 297 ms")
	}
}
