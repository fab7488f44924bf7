package cuda_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pagedRig is a rig whose device loads by order: flip, pair and another flip, with few sizes.
type pagedRig struct {
	*rig
	paged *cuda.Paged
	base  fakecuda.Counts // of a device without models
}

func newPaged(t *testing.T, c config) *pagedRig {
	t.Helper()
	c.models, c.options.Forgets = []cuda.Model{}, true
	r := &pagedRig{rig: newRig(t, c)}
	r.base = r.driver.Counts()
	r.paged = cuda.NewPaged(r.device, 100)
	r.models = []cuda.Model{flip(16), pair(16), anotherFlip()}
	for slot := range r.models {
		r.models[slot].Sizes = []int{1, 16}
		r.paged.Put(slot, r.models[slot])
	}
	return r
}

// load begins one.
func (r *pagedRig) load(slot int) <-chan executor.Copied {
	done := make(chan executor.Copied, 2)
	r.paged.Load(slot, func(c executor.Copied) { done <- c })
	return done
}

func (r *pagedRig) unload(slot int) <-chan struct{} {
	done := make(chan struct{}, 2)
	r.paged.Unload(slot, func() { done <- struct{}{} })
	return done
}

// have waits for something that comes once.
func have[T any](t interface{ Fatalf(string, ...any) }, what string, from <-chan T) (v T) {
	select {
	case v = <-from:
	case <-time.After(generous):
		t.Fatalf("%s: not within %v", what, generous)
	}
	return v
}

// reopen brings the device back.
func (r *pagedRig) reopen() {
	r.t.Helper()
	until(r.t, "all is given back", func() bool { return r.device.Released() == nil })
	if err := r.device.Reopen(r.open()); err != nil {
		r.t.Fatal(err)
	}
}

// A model is loaded by order, runs, and all that it took of the device is back when it is unloaded; one that the host has
// not, or for which the device has no memory, is not loaded, and harms nobody.
func TestPagedLoads(t *testing.T) {
	defer leaks(t)
	r := newPaged(t, config{options: cuda.Options{Budget: 3 << 20}})
	if n := r.driver.Counts().Programs; n != 0 || r.paged.Pages() != 100 || r.paged.Depth() != cuda.Depth {
		t.Errorf("it begins with %d programs, %d pages, depth %d", n, r.paged.Pages(), r.paged.Depth())
	}
	for range 3 {
		c := have(t, "a load", r.load(1))
		if c.Err != nil || c.Bytes < 1<<20 || c.Bytes != r.device.Stats().Memory.Load() || c.Bytes != r.device.Held(1) || c.End <= c.Start {
			t.Fatalf("%+v, %d bytes are held", c, r.device.Stats().Memory.Load())
		}
		if e := r.run(1, 16, 3); e.err != nil {
			t.Error(e.err)
		}
		if c := have(t, "a load of nothing", r.load(7)); c.Err == nil || errors.Is(c.Err, executor.ErrMemory) {
			t.Errorf("%+v", c)
		}
		if c := have(t, "a second one", r.load(0)); c.Err != nil {
			t.Fatal(c.Err)
		}
		if c := have(t, "a third one, for which there is no room", r.load(2)); !errors.Is(c.Err, executor.ErrMemory) || !strings.Contains(c.Err.Error(), "3072 KiB") {
			t.Errorf("%+v", c)
		}
		if e := r.run(0, 1, 3); e.err != nil {
			t.Error(e.err)
		}
		for _, slot := range []int{0, 1} {
			have(t, "an unload", r.unload(slot))
		}
		if left := r.driver.Counts(); left != r.base || r.device.Stats().Memory.Load() != 0 {
			t.Errorf("without models it has %+v, began with %+v; %d bytes are counted", left, r.base, r.device.Stats().Memory.Load())
		}
	}
	if m := r.paged.Take(1); m == nil || m.Spec.Name != "pair" || r.paged.Take(1) != nil || r.paged.Take(9) != nil {
		t.Errorf("taken away: %+v", m)
	}
	if c := have(t, "a load of what was taken away", r.load(1)); c.Err == nil {
		t.Errorf("%+v", c)
	}
	r.paged.Close()
	r.check()
}

// script is what happens to a paged device at random, and what it should have by then.
type script struct {
	*pagedRig
	rt      *rapid.T
	has     map[int]int64 // by slot: bytes
	coming  int           // -1: none
	load    <-chan executor.Copied
	leaving map[int]<-chan struct{} // by slot
}

// settle waits for what is under way, and counts.
func (s *script) settle() {
	if s.coming >= 0 {
		c := have(s.rt, "a load", s.load)
		if c.Err != nil {
			s.rt.Fatalf("slot %d was not loaded: %v", s.coming, c.Err)
		}
		s.has[s.coming] = c.Bytes
		s.coming = -1
	}
	for _, l := range s.leaving {
		have(s.rt, "an unload", l)
	}
	clear(s.leaving)
	var sum int64
	for _, bytes := range s.has {
		sum += bytes
	}
	if got := s.device.Stats().Memory.Load(); got != sum {
		s.rt.Fatalf("%d bytes are counted, %d are loaded: %v", got, sum, s.has)
	}
	if c := s.driver.Counts(); c.Programs != len(s.has) || c.Events != s.base.Events+2*len(s.has) || c.Allocations != 5*len(s.has) {
		s.rt.Fatalf("the device has %+v, of %d models", c, len(s.has))
	}
}

func (s *script) step() {
	slot := rapid.IntRange(0, len(s.models)-1).Draw(s.rt, "slot")
	_, has := s.has[slot]
	switch do := rapid.SampledFrom([]string{"load", "load", "unload", "run", "run", "settle", "lose", "fail"}).Draw(s.rt, "do"); {
	case do == "load" && !has && s.coming < 0 && s.leaving[slot] == nil:
		s.coming, s.load = slot, s.pagedRig.load(slot)
	case do == "unload" && has:
		delete(s.has, slot)
		s.leaving[slot] = s.unload(slot)
	case do == "run" && has:
		if e := s.run(slot, 1+slot, 3); e.err != nil {
			s.rt.Fatalf("slot %d: %v", slot, e.err)
		}
	case do == "settle":
		s.settle()
	case do == "lose" || do == "fail":
		s.lose(do)
	}
}

// lose has the device be lost, in the middle of whatever it does, and comes back: empty.
func (s *script) lose(how string) {
	if s.coming >= 0 && rapid.Bool().Draw(s.rt, "under way") {
		time.Sleep(time.Duration(rapid.IntRange(0, 500).Draw(s.rt, "us")) * time.Microsecond)
	}
	if how == "lose" {
		s.gpu.Lose() // which nobody notices until something is done there
	}
	s.device.Fail(errors.New("for the test"))
	if s.coming >= 0 {
		if c := have(s.rt, "a load on a lost device", s.load); c.Err != nil && !isLost(c.Err) {
			s.rt.Fatalf("a load ended with %v", c.Err)
		}
		s.coming = -1
	}
	for _, l := range s.leaving {
		have(s.rt, "an unload on a lost device", l)
	}
	clear(s.leaving)
	s.reopen()
	for slot := range s.models {
		if e := s.run(slot, 1, 1); e.err == nil {
			s.rt.Fatalf("slot %d is back by itself", slot)
		}
		have(s.rt, "an unload of nothing", s.unload(slot))
	}
	clear(s.has)
	s.settle()
}

// Whatever is loaded, unloaded, run and lost in whatever order: the device has what was loaded and not unloaded since, and
// no byte more; what runs is right; and a device that is closed in the middle of it gives all back.
func TestPagedAddsUp(t *testing.T) {
	defer leaks(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := &script{pagedRig: newPaged(t, config{}), rt: rt, has: map[int]int64{}, coming: -1, leaving: map[int]<-chan struct{}{}}
		defer func() { // also of one that failed
			s.paged.Close()
			s.check()
		}()
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			s.step()
		}
		if rapid.Bool().Draw(rt, "ends settled") {
			s.settle()
		}
	})
}

// A loss that a load finds out is a loss to all: it is told of, and who is to forget what the device had has heard of it
// before the load's end. The device is back when it is reopened, and loads.
func TestLossFoundByALoad(t *testing.T) {
	defer leaks(t)
	var told atomic.Bool
	hold := make(chan struct{})
	r := newPaged(t, config{options: cuda.Options{Losing: func(error) {
		<-hold
		told.Store(true)
	}}})
	r.gpu.Lose()
	load := r.load(0)
	select {
	case c := <-load:
		t.Errorf("a load ended before its device's loss was told: %+v", c)
	case <-time.After(50 * time.Millisecond):
	}
	close(hold)
	if c := have(t, "the load", load); !isLost(c.Err) || !told.Load() {
		t.Errorf("%+v, told %v", c, told.Load())
	}
	if c := have(t, "another one", r.load(1)); !isLost(c.Err) {
		t.Errorf("%+v", c)
	}
	until(t, "the loss", func() bool { return r.losses() == 1 })
	r.reopen()
	if c := have(t, "a load", r.load(0)); c.Err != nil {
		t.Error(c.Err)
	}
	if e := r.run(0, 2, 3); e.err != nil {
		t.Error(e.err)
	}
	r.paged.Close()
	r.check()
}

// A device that is closed while it loads waits for the load as long as that may take, and gives all back; nobody is told
// of it, nor of what is ordered then.
func TestPagedClosedWhileItLoads(t *testing.T) {
	defer leaks(t)
	slow := &slowLoads{here: make(chan struct{}), on: make(chan struct{})}
	r := newPaged(t, config{runtime: func(k cuda.Runtime) cuda.Runtime { slow.Runtime = k; return slow }})
	slow.waits.Store(true)
	load := r.load(0)
	<-slow.here
	unload := r.unload(1) // behind it
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.paged.Close()
	}()
	select {
	case <-closed:
		t.Error("it is closed under a load")
	case <-time.After(2500 * time.Millisecond): // longer than a device that hangs is waited for
	}
	close(slow.on)
	have(t, "Close", closed)
	r.paged.Load(0, func(executor.Copied) { t.Error("a closed device loads") })
	r.paged.Unload(0, func() { t.Error("a closed device unloads") })
	if len(load)+len(unload) != 0 {
		t.Error("a closed device tells of its loads")
	}
	r.check()
}

// A load that hangs in a library does not keep a device from being closed for ever.
func TestPagedClosedWhileALoadHangs(t *testing.T) {
	defer leaks(t)
	slow := &slowLoads{here: make(chan struct{}), on: make(chan struct{})}
	r := newPaged(t, config{runtime: func(k cuda.Runtime) cuda.Runtime { slow.Runtime = k; return slow }})
	slow.waits.Store(true)
	r.load(0)
	<-slow.here
	begin := mono.Now()
	r.paged.Close()
	if took := mono.Now().Sub(begin); took > 15*mono.Second {
		t.Errorf("Close took %v", took.Std())
	}
	close(slow.on)
	until(t, "all is given back", func() bool { return r.driver.Counts() == fakecuda.Counts{} })
	r.mu.Lock()
	if len(r.warn) != 1 || !strings.Contains(r.warn[0].Error(), "does not give back") {
		t.Errorf("warned of %v", r.warn)
	}
	r.warn = nil
	r.mu.Unlock()
	r.check()
}

// What is unloaded waits for what is being loaded: a load is weighed by what is free before it and after.
func TestPagedOneAtATime(t *testing.T) {
	defer leaks(t)
	slow := &slowLoads{here: make(chan struct{}), on: make(chan struct{})}
	r := newPaged(t, config{runtime: func(k cuda.Runtime) cuda.Runtime { slow.Runtime = k; return slow }})
	have(t, "a load", r.load(0))
	slow.waits.Store(true)
	load := r.load(1)
	<-slow.here
	unload := r.unload(0)
	aside := make(chan error, 1)
	go func() {
		_, end, err := r.paged.Aside(t.Context(), r.models[2], 0)
		if err == nil {
			end()
		}
		aside <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if len(unload) != 0 || len(aside) != 0 || r.driver.Counts().Programs != 1 {
		t.Error("something is unloaded, or loaded, beside a load")
	}
	slow.waits.Store(false)
	close(slow.on)
	if c := have(t, "the load", load); c.Err != nil {
		t.Error(c.Err)
	}
	have(t, "the unload", unload)
	if err := have(t, "the one aside", aside); err != nil {
		t.Error(err)
	}
	if c := r.driver.Counts(); c.Programs != 1 || r.device.Held(0) != 0 || r.device.Held(1) == 0 {
		t.Errorf("%+v", c)
	}
	r.paged.Close()
	r.check()
}

// A model beside those of the slots runs under a number that is nobody else's, is weighed, and goes: also with its device.
func TestAside(t *testing.T) {
	defer leaks(t)
	counted := &countedLoads{}
	r := newPaged(t, config{runtime: func(k cuda.Runtime) cuda.Runtime { counted.Runtime = k; return counted }})
	have(t, "a load", r.load(1))
	held := r.device.Stats().Memory.Load()
	runAt := func(slot int) error {
		done := make(chan ended, 1)
		b := r.batch(0, 16, 5, heap, done)
		b.Model = slot
		r.device.Launch(b)
		return r.await(done).err
	}
	a, end, err := r.paged.Aside(t.Context(), r.models[0], 0)
	if err != nil || a.Slot >= 0 || a.Bytes < 1<<20 || a.Took <= 0 || a.Model.Spec.Name != "flip" || r.device.Stats().Memory.Load() != held+a.Bytes {
		t.Fatalf("%+v, %v; %d bytes are held", a, err, r.device.Stats().Memory.Load())
	}
	if err := runAt(a.Slot); err != nil {
		t.Error(err)
	}
	if e := r.run(1, 16, 3); e.err != nil {
		t.Error(e.err)
	}
	end()
	if got := r.device.Stats().Memory.Load(); got != held || r.driver.Counts().Programs != 1 {
		t.Errorf("%d bytes are held, were %d", got, held)
	}
	if err := runAt(a.Slot); err == nil {
		t.Error("what was unloaded runs")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	before := counted.loads.Load()
	if _, _, err := r.paged.Aside(canceled, r.models[0], 0); !errors.Is(err, context.Canceled) || r.driver.Counts().Programs != 1 {
		t.Errorf("given up: %v", err)
	}
	if _, err := r.device.LoadAside(canceled, r.models[0], 0); !errors.Is(err, context.Canceled) || counted.loads.Load() != before {
		t.Errorf("given up after %d sessions were made: %v", counted.loads.Load()-before, err)
	}
	old, endOld, err := r.paged.Aside(t.Context(), r.models[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	r.device.Fail(errors.New("for the test"))
	if _, _, err := r.paged.Aside(t.Context(), r.models[0], 0); !isLost(err) {
		t.Errorf("on a lost device: %v", err)
	}
	r.reopen()
	a, end, err = r.paged.Aside(t.Context(), r.models[0], 0)
	if err != nil || a.Slot == old.Slot {
		t.Fatalf("%+v, %v", a, err)
	}
	endOld()
	if err := runAt(old.Slot); err == nil {
		t.Error("a model of an earlier life runs")
	}
	if err := runAt(a.Slot); err != nil {
		t.Errorf("after the end of the one of an earlier life: %v", err)
	}
	_ = end // it is the device's to give back
	r.paged.Close()
	r.check()
}

// A file is read once, its check is made until it finds nothing wrong, and its memory is given back with the last use.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	if _, err := cuda.ReadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for _, text := range []string{"some bytes", ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := cuda.ReadFile(path)
		if err != nil || string(f.Bytes()) != text {
			t.Fatalf("%q, %v", f.Bytes(), err)
		}
		n, wrong := 0, errors.New("it is not as it should be")
		for range 3 {
			if err := f.Checked(func() error { n++; return wrong }); err != wrong {
				t.Errorf("checked %d times: %v", n, err)
			}
		}
		for range 3 {
			if err := f.Checked(func() error { n++; return nil }); err != nil || n != 4 {
				t.Errorf("checked %d times: %v", n, err)
			}
		}
		f.Use()
		f.Close()
		if string(f.Bytes()) != text {
			t.Errorf("in use it has %q", f.Bytes())
		}
		f.Close()
		if f.Bytes() != nil {
			t.Error("its memory is not given back with the last use")
		}
		var none *cuda.File
		none.Use()
		none.Close()
	}
}
