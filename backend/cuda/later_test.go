package cuda_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// anotherFlip is flip under another version.
func anotherFlip() cuda.Model {
	m := flip(16)
	spec := *m.Spec
	spec.Version = "2"
	m.Spec = &spec
	return m
}

// Models are loaded and unloaded while others run, whose batches all have their own outputs;
// what was unloaded is refused, and its memory is given back. Also a model of several tensors,
// which needs memory of the host.
func TestLoadWhileOthersRun(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{length: func(n int) mono.Dur { return mono.Dur(50+n) * mono.Microsecond }})
	defer r.close()
	held, staged := r.device.Stats().Memory.Load(), r.device.Stats().Staged.Load()
	r.models = append(r.models, anotherFlip())
	l := r.load(heap, func([]byte) {})
	for i := range 3 {
		took, err := r.device.Load(t.Context(), 2, anotherFlip())
		if err != nil || took < 1<<20 || r.device.Stats().Memory.Load() != held+took {
			t.Fatalf("%d: it took %d, of %d: %v", i, took, r.device.Stats().Memory.Load()-held, err)
		}
		r.device.Unload(2)
		r.device.Unload(7) // where there never was one
	}
	l.end()
	if l.bad.Load() > 0 || l.good.Load() == 0 {
		t.Errorf("%d batches of others failed, %d ran", l.bad.Load(), l.good.Load())
	}
	if _, err := r.device.Load(t.Context(), 3, pair(16)); err != nil {
		t.Fatal(err)
	}
	if r.device.Stats().Staged.Load() <= staged {
		t.Error("a model of several tensors has no memory of the host")
	}
	r.device.Unload(1)
	if _, err := r.device.Load(t.Context(), 1, pair(16)); err != nil { // right() knows it by this slot
		t.Fatal(err)
	}
	l = r.load(heap, func([]byte) {})
	for range 2 {
		if _, err := r.device.Load(t.Context(), 2, anotherFlip()); err != nil {
			t.Fatal(err)
		}
		r.device.Unload(2)
	}
	l.end()
	if e := r.run(1, 16, 3); e.err != nil {
		t.Error(e.err)
	}
	if _, err := r.device.Load(t.Context(), 2, anotherFlip()); err != nil {
		t.Fatal(err)
	}
	if e := r.run(2, 3, 5); e.err != nil {
		t.Error(e.err)
	}
	r.device.Unload(1)
	r.device.Unload(3)
	if e := r.run(1, 1, 1); e.err == nil || !strings.Contains(e.err.Error(), "has no model 1") {
		t.Errorf("a model that was unloaded: %v", e.err)
	}
}

// What cannot be loaded is refused by name and numbers, gives back what it had got, and harms
// nobody.
func TestLoadRefused(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{models: []cuda.Model{flip(16)}, options: cuda.Options{Budget: 3 << 20}})
	defer r.close()
	held := r.device.Stats().Memory.Load()
	large := flip(16)
	spec := *large.Spec
	spec.Version, spec.MaxBatch = "3", 1<<14
	large.Spec, large.Sizes = &spec, []int{1 << 14}
	var refused *cuda.RefusedError
	if _, err := r.device.Load(t.Context(), 1, large); !errors.As(err, &refused) || refused.Need == 0 || refused.Budget != 3<<20 || !errors.Is(err, cuda.ErrMemory) {
		t.Errorf("too large: %v", err)
	}
	r.runtime.FailLoads(errors.New("the file is broken"))
	if _, err := r.device.Load(t.Context(), 1, anotherFlip()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a broken file: %v", err)
	}
	r.runtime.FailRuns(errors.New("no such kernel"))
	if _, err := r.device.Load(t.Context(), 1, anotherFlip()); err == nil || !strings.Contains(err.Error(), "no such kernel") {
		t.Errorf("a model that does not run: %v", err)
	}
	r.gpu.FailAllocs(2)
	if _, err := r.device.Load(t.Context(), 1, anotherFlip()); !errors.Is(err, cuda.ErrMemory) {
		t.Errorf("no memory: %v", err)
	}
	r.gpu.FailAllocs(0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.device.Load(ended, 1, anotherFlip()); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if got := r.device.Stats().Memory.Load(); got != held {
		t.Errorf("%d bytes are held, were %d", got, held)
	}
	if e := r.run(0, 16, 3); e.err != nil {
		t.Error(e.err)
	}
	if _, err := r.device.Load(t.Context(), 1, anotherFlip()); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// A device that is lost takes no models, and comes back with those that came later and without
// those that went.
func TestLoadAndLoss(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	r.models = append(r.models, anotherFlip())
	if _, err := r.device.Load(t.Context(), 2, anotherFlip()); err != nil {
		t.Fatal(err)
	}
	r.device.Unload(0)
	r.gpu.Lose()
	if e := r.run(1, 1, 1); !isLost(e.err) {
		t.Errorf("on a lost device: %v", e.err)
	}
	until(t, "the loss", func() bool { return r.losses() == 1 })
	if _, err := r.device.Load(t.Context(), 3, anotherFlip()); !isLost(err) {
		t.Errorf("onto a lost device: %v", err)
	}
	r.device.Unload(1) // meanwhile
	until(t, "all is given back", func() bool { return r.device.Released() == nil })
	if err := r.device.Reopen(r.open()); err != nil {
		t.Fatal(err)
	}
	if e := r.run(2, 3, 3); e.err != nil {
		t.Errorf("the one that came later: %v", e.err)
	}
	for _, slot := range []int{0, 1} {
		if e := r.run(slot, 1, 1); e.err == nil {
			t.Errorf("slot %d runs", slot)
		}
	}
	r.close()
	if _, err := r.device.Load(t.Context(), 3, anotherFlip()); err == nil {
		t.Error("a closed device takes a model")
	}
}

// A GPU that is lost, or closed, in the middle of a loading gives all back.
func TestLostWhileLoadedLater(t *testing.T) {
	defer leaks(t)
	for name, end := range map[string]func(r *rig){"lost": func(r *rig) { r.gpu.Lose() }, "closed": func(r *rig) { r.device.Close() }} {
		r := newRig(t, config{length: func(int) mono.Dur { return mono.Millisecond }})
		loaded := make(chan error, 1)
		before := r.driver.Counts()
		go func() {
			_, err := r.device.Load(t.Context(), 2, anotherFlip())
			loaded <- err
		}()
		until(t, "its memory", func() bool { return r.driver.Counts().Programs > before.Programs })
		end(r)
		if err := <-loaded; err == nil {
			t.Errorf("%s: it was loaded", name)
		}
		r.device.Close()
		if left := r.driver.Counts(); left != (fakecuda.Counts{}) {
			t.Errorf("%s: left open: %+v", name, left)
		}
		for _, err := range r.driver.Misused() {
			t.Error(name, err)
		}
	}
}

// slowLoads is a runtime whose loads wait, once it is told to, until they may go on.
type slowLoads struct {
	cuda.Runtime
	waits    atomic.Bool
	here, on chan struct{}
}

func (k *slowLoads) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	if k.waits.Load() {
		k.here <- struct{}{}
		<-k.on
	}
	return k.Runtime.Load(c, s, m)
}

// A GPU that is lost while a thread prepares a model leaves that model to the thread: it is given back once, and
// only when the thread is through.
func TestLostWhilePrepared(t *testing.T) {
	defer leaks(t)
	for range 30 { // whether the device's thread is still there when it is asked to give back is chance
		slow := &slowLoads{here: make(chan struct{}), on: make(chan struct{})}
		r := newRig(t, config{runtime: func(k cuda.Runtime) cuda.Runtime { slow.Runtime = k; return slow }})
		slow.waits.Store(true)
		loaded := make(chan error, 1)
		go func() {
			_, err := r.device.Load(t.Context(), 2, anotherFlip())
			loaded <- err
		}()
		<-slow.here
		r.device.Fail(cuda.ErrLost)
		if err := <-loaded; !isLost(err) {
			t.Error(err)
		}
		if r.device.Released() == nil {
			t.Error("it is given back under the thread that prepares")
		}
		close(slow.on)
		until(t, "all is given back", func() bool { return r.device.Released() == nil })
		r.device.Close()
		if left := r.driver.Counts(); left != (fakecuda.Counts{}) {
			t.Errorf("left open: %+v", left)
		}
		for _, err := range r.driver.Misused() {
			t.Error(err)
		}
	}
}

// A device may begin without models.
func TestEmptyDevice(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{models: []cuda.Model{}, options: cuda.Options{Empty: true}})
	defer r.close()
	if _, err := r.device.Load(t.Context(), 0, flip(16)); err != nil {
		t.Fatal(err)
	}
	r.models = append(r.models, flip(16))
	if e := r.run(0, 16, 3); e.err != nil {
		t.Error(e.err)
	}
}
