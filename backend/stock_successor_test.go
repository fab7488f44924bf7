package backend

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// orders sends batches to both devices until stop, and tells how many were refused.
func (x *watching) orders(model wire.ModelID, from wire.BatchID) (stop func() (ran, refused int)) {
	done, end := make(chan struct{}), make(chan [2]int)
	go func() {
		ran, refused := 0, 0
		for id := from; ; id++ {
			select {
			case <-done:
				end <- [2]int{ran, refused}
				return
			default:
			}
			if d := x.orderOn(int(id)%2, 100, id, model); d.Reason == wire.ReasonNone {
				ran++
			} else {
				refused++
			}
		}
	}()
	return func() (int, int) {
		close(done)
		n := <-end
		return n[0], n[1]
	}
}

// states are those that the scheduler was told of a model.
func (x *watching) states(key string) (all []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.stocks() {
		if s.Key == key {
			all = append(all, s.State)
		}
	}
	return all
}

// While new files are loaded the old ones serve on both devices, under the same id, without one order refused; the scheduler hears
// of nothing but another profile. Then the old ones' slot is free.
func TestFilesChangeWithoutAGap(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{7}})
	stop := x.orders(7, 1000)
	told := len(x.states("m/1"))
	for i := range 3 {
		profile := "alpha_ms: 0." + string(rune('2'+i))
		x.write(t, "m", strings.Replace(emulatedModel, "alpha_ms: 0.1", profile, 1)+"load: 100ms\n")
		x.look()
		x.wait("the new files", func() bool {
			l := x.last("m/1")
			return l.Spec != nil && l.State == catalog.StateReady && l.Spec.Profile.Alpha.Millis() > 0.15+0.1*float64(i)
		})
		x.bindTo(map[string]wire.ModelID{"m/1": 7})
	}
	if ran, refused := stop(); refused > 0 || ran < 10 {
		t.Errorf("%d orders ran, %d were refused", ran, refused)
	}
	if all := x.states("m/1")[told:]; slices.ContainsFunc(all, func(s string) bool { return s != catalog.StateReady }) {
		t.Errorf("the scheduler was told %v", all)
	}
	s := x.b.pools[0].stock
	x.wait("the old ones' end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, e := range s.slots {
			if e != nil {
				n++
			}
		}
		return n == 1 && len(s.hidden) == 0
	})
}

// A smaller max_batch is told before the new files take their place: a batch that was made before fits.
func TestSmallerBatchIsToldFirst(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{7}})
	s := x.b.pools[0].stock
	s.mu.Lock()
	old := s.entries["m/1"]
	s.mu.Unlock()
	x.write(t, "m", strings.NewReplacer("alpha_ms: 0.1", "alpha_ms: 0.2", "max_batch: 8", "max_batch: 2").Replace(emulatedModel))
	x.look()
	x.wait("the smaller max_batch", func() bool { l := x.last("m/1"); return l.Spec != nil && l.Spec.MaxBatch == 2 })
	s.mu.Lock()
	still := s.entries["m/1"] == old && old.exec.MaxBatch == 8
	s.mu.Unlock()
	if !still {
		t.Error("the new files took their place at once")
	}
	x.wait("the new files", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.entries["m/1"] != old
	})
}

// Where a device has no room for both the old one goes first, and that is said; the new one is loaded then.
func TestNoRoomForBoth(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	x := &watching{dir: dir, now: time.Now()}
	x.write(t, "m", emulatedModel+"memory: {static: 3MiB}\n")
	x.stocking = newStocking(t, func(c *Config) { c.Repository, c.Pools[0].Memory = dir, 4<<20 })
	defer x.end()
	x.w = newWatch(&Backend{cfg: Config{Repository: dir, Watch: true}})
	x.w.b = x.b
	x.admitted(100)
	x.write(t, "m", strings.Replace(emulatedModel, "alpha_ms: 0.1", "alpha_ms: 0.2", 1)+"memory: {static: 3MiB}\n")
	x.look()
	x.wait("the new files", func() bool {
		l := x.last("m/1")
		return l.State == catalog.StateReady && l.Spec != nil && l.Spec.Profile.Alpha.Millis() > 0.15
	})
	if told := x.log.about("m/1", "there is no room for both"); len(told) != 1 {
		t.Errorf("told %q", told)
	}
	x.write(t, "m", strings.Replace(emulatedModel, "alpha_ms: 0.1", "alpha_ms: 0.3", 1)+"memory: {static: 5MiB}\n") // too large by itself
	x.look()
	x.wait("the reason", func() bool { return strings.Contains(x.last("m/1").Outdated, "not enough memory") })
	if l := x.last("m/1"); l.State != catalog.StateReady || len(l.Devices) != 2 {
		t.Errorf("told %+v", l)
	}
}

// Files that cannot be loaded take nothing with them: what was served goes on, the reason is told and counted, and goes when
// they are mended; a version whose folder cannot be read is served on, too.
func TestFaultyFilesTakeNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{7}})
	ready := func() catalog.Stocked { return x.last("m/1") }
	x.write(t, "m", strings.Replace(emulatedModel, "slo: 50ms", "slo: never", 1))
	x.look()
	x.wait("the reason", func() bool { return strings.Contains(ready().Outdated, "never") })
	if l := ready(); l.State != catalog.StateReady || len(l.Devices) != 2 {
		t.Errorf("told %+v", l)
	}
	if n := modelsIn(t, x.registry, stateOutdated); n != 1 {
		t.Errorf("%v models are counted", n)
	}
	if d := x.orderOn(0, 100, 1, 7); d.Reason != wire.ReasonNone {
		t.Errorf("%+v", d)
	}
	x.write(t, "m", emulatedModel)
	x.look()
	x.wait("it is mended", func() bool { return ready().Outdated == "" })
	for _, broken := range []func(path string) error{
		func(path string) error { return os.Symlink("nowhere", path) },
		func(path string) error { return os.WriteFile(path, nil, 0) },
	} {
		path := filepath.Join(x.dir, "m", "config.yaml")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := broken(path); err != nil {
			t.Fatal(err)
		}
		x.now = x.now.Add(time.Second)
		x.look()
		x.wait("the reason", func() bool { return ready().Outdated != "" })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		x.write(t, "m", emulatedModel)
		x.look()
		x.wait("it is mended", func() bool { return ready().Outdated == "" })
	}
	if slices.Contains(x.states("m/1"), catalog.StateGone) {
		t.Errorf("told %v", x.states("m/1"))
	}
}

// A version that comes without a file that can be read is no secret: the scheduler is told that it failed, and why; and that it is gone.
func TestBrokenVersionIsTold(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	x.write(t, "new", "platform: onnxruntime\nslo: 50ms\nmax_batch: 4\ninputs: [{name: x, type: FP32, shape: [1]}]\noutputs: [{name: y, type: FP32, shape: [1]}]\n")
	if err := os.Mkdir(filepath.Join(x.dir, "new", "3"), 0o755); err != nil {
		t.Fatal(err)
	}
	x.look()
	if got := x.until("new/3", catalog.StateFailed); !strings.Contains(got.Error, "model.onnx: there is no such file") || !got.Local {
		t.Errorf("told %+v", got)
	}
	if err := os.RemoveAll(filepath.Join(x.dir, "new")); err != nil {
		t.Fatal(err)
	}
	x.look()
	x.until("new/3", catalog.StateGone)
}

// Outputs of new files are marked for a while. The mark's end is the end of what was marked, and no fault where the
// model is being loaded again by then.
func TestMarkEndsWhileLoadedAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	s := x.b.pools[0].stock
	s.mu.Lock()
	s.after = time.Second
	old := s.entries["m/1"]
	s.mu.Unlock()
	x.write(t, "m", strings.Replace(emulatedModel, "alpha_ms: 0.1", "alpha_ms: 0.2", 1))
	x.look()
	var n *entry
	x.wait("the new files", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n = s.entries["m/1"]
		return n != old
	})
	s.mu.Lock()
	exec := n.exec
	n.exec = nil // as replace has it until the next files are read
	s.mu.Unlock()
	x.wait("the mark's end", func() bool { return exec.Exchange.Load() == 0 })
	s.mu.Lock()
	n.exec = exec
	s.mu.Unlock()
}

// Where new files are given up after a smaller max_batch was told for them, the old ones' own holds again.
func TestSmallerBatchIsTakenBack(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	s := x.b.pools[0].stock
	s.mu.Lock()
	s.grace = time.Minute // the new files take their place after that
	s.mu.Unlock()
	batch := func() int {
		if l := x.last("m/1"); l.Spec != nil {
			return l.Spec.MaxBatch
		}
		return 0
	}
	x.write(t, "m", strings.NewReplacer("alpha_ms: 0.1", "alpha_ms: 0.2", "max_batch: 8", "max_batch: 2").Replace(emulatedModel))
	x.look()
	x.wait("the smaller max_batch", func() bool { return batch() == 2 })
	x.write(t, "m", "nonsense")
	x.look()
	x.wait("its own max_batch", func() bool { return batch() == 8 && x.last("m/1").Outdated != "" })
}

// Nothing is learnt of files that others have taken the place of: it would be stored in the place of what was measured of
// the new ones.
func TestNothingIsLearntOfOldFiles(t *testing.T) {
	defer goleak.VerifyNone(t)
	x := newWatching(t, map[string]string{"m": emulatedModel})
	defer x.end()
	s := x.b.pools[0].stock
	s.mu.Lock()
	s.grace = time.Second // the old ones are there for as long
	old := s.entries["m/1"]
	s.mu.Unlock()
	x.write(t, "m", strings.Replace(emulatedModel, "alpha_ms: 0.1", "alpha_ms: 0.2", 1))
	x.look()
	x.wait("the new files", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.entries["m/1"] != old
	})
	for range 2 {
		s.learn(mono.Now(), false)
		s.p.countersOf(0).ran.add(1, 20*mono.Millisecond)
	}
	s.learn(mono.Now(), false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old.learning.learner != nil {
		t.Error("the old ones are learnt of")
	}
}
