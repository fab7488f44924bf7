package cuda_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Out of memory in a run fails that batch with a reason, and no other.
func TestOutOfMemoryInARun(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	r.runtime.FailRuns(nil, fmt.Errorf("running flip: %w", cuda.ErrMemory), nil)
	done := make(chan ended, 2)
	r.device.Launch(r.batch(0, 1, 0, heap, done))
	r.device.Launch(r.batch(0, 2, 1, heap, done))
	if e := r.await(done); e.err != nil {
		t.Error(e.err)
	}
	if e := r.await(done); !errors.Is(e.err, cuda.ErrMemory) || isLost(e.err) || !strings.Contains(e.err.Error(), "flip/1") || !strings.Contains(e.err.Error(), "batch of 2") {
		t.Error(e.err)
	}
	for model := range 2 {
		if e := r.run(model, 3, 2); e.err != nil {
			t.Error("after that:", e.err)
		}
	}
	if r.losses() != 0 || r.device.Stats().Failed.Load() != 1 {
		t.Errorf("%d times lost, %d failed", r.losses(), r.device.Stats().Failed.Load())
	}
	r.close()
}

// A device that does nothing but fail is taken out of service.
func TestNothingButFailures(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{options: cuda.Options{FailuresMax: 4}})
	bad := cuda.ErrMemory
	r.runtime.FailRuns(bad, bad, bad, nil, bad, bad, bad, bad)
	for i := range 8 {
		e := r.run(0, 1, i)
		if (i == 3) != (e.err == nil) || isLost(e.err) != (i == 7) {
			t.Errorf("batch %d: %v", i, e.err)
		}
	}
	until(t, "the loss is told", func() bool { return r.losses() == 1 })
	r.close()
}

// However many batches fail for what their inputs hold, the device stays in service; a kernel that fails still takes it out.
func TestModelsFailuresAreNotTheDevices(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{options: cuda.Options{FailuresMax: 4}})
	bad := fmt.Errorf("%w: index 99 is beyond the table", cuda.ErrModel)
	var errs []error
	for range 40 {
		errs = append(errs, bad)
	}
	r.runtime.FailRuns(errs...)
	for i := range errs {
		if e := r.run(0, 1, i); e.err == nil || isLost(e.err) {
			t.Errorf("batch %d: %v", i, e.err)
		}
	}
	if e := r.run(1, 3, 2); e.err != nil || r.losses() != 0 {
		t.Errorf("after that: %v, %d times lost", e.err, r.losses())
	}
	r.runtime.FailRuns(bad, cuda.ErrMemory, cuda.ErrMemory, bad, cuda.ErrMemory, cuda.ErrMemory)
	for i := range 6 {
		if e := r.run(0, 1, i); isLost(e.err) != (i == 5) {
			t.Errorf("batch %d: %v", i, e.err)
		}
	}
	until(t, "the loss is told", func() bool { return r.losses() == 1 })
	r.close()
}

// load launches batches, two at a time, until told to end, and counts how each ended.
type load struct {
	r         *rig
	stop      chan struct{}
	finished  sync.WaitGroup
	launched  int
	good, bad atomic.Int64
	twice     atomic.Int64
	astray    atomic.Int64
}

func (r *rig) load(memory func(int) []byte, free func([]byte)) *load {
	l := &load{r: r, stop: make(chan struct{})}
	l.finished.Add(1)
	go func() {
		defer l.finished.Done()
		slots := make(chan struct{}, cuda.Depth)
		for {
			select {
			case <-l.stop:
				for range cuda.Depth {
					slots <- struct{}{}
				}
				return
			case slots <- struct{}{}:
				l.launch(slots, memory, free)
			}
		}
	}()
	return l
}

func (l *load) launch(slots chan struct{}, memory func(int) []byte, free func([]byte)) {
	b := l.r.batch(l.launched%2, 1+l.launched%16, l.launched, memory, nil)
	l.launched++
	var calls atomic.Int64
	b.Finish = func(_, _ mono.Time, err error) {
		if calls.Add(1) > 1 {
			l.twice.Add(1)
			return
		}
		switch {
		case err != nil:
			l.bad.Add(1)
			if errors.Is(err, executor.ErrAstray) {
				l.astray.Add(1)
			}
			time.Sleep(time.Millisecond) // a lost device would fail thousands
		case right(b) != nil:
			l.r.t.Error(right(b))
		default:
			l.good.Add(1)
		}
		if !errors.Is(err, executor.ErrAstray) {
			free(b.Input)
			free(b.Output)
		}
		<-slots
	}
	l.r.device.Launch(b)
}

// end ends the load: every batch was finished once.
func (l *load) end() {
	l.r.t.Helper()
	close(l.stop)
	ended := make(chan struct{})
	go func() { l.finished.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(generous):
		l.r.t.Fatal("a batch was never finished")
	}
	if l.twice.Load() != 0 || int(l.good.Load()+l.bad.Load()) != l.launched {
		l.r.t.Errorf("%d launched, %d good, %d failed, %d finished twice", l.launched, l.good.Load(), l.bad.Load(), l.twice.Load())
	}
}

// However a device is lost under load: each batch that was launched is finished once, the
// owner is told once, and the device serves again when it has been reopened. Nothing is left.
func TestLostUnderLoad(t *testing.T) {
	defer leaks(t)
	for _, c := range []struct {
		name         string
		lose, repair func(r *rig)
		hangs        bool
	}{
		{name: "the context", lose: func(r *rig) { r.gpu.Lose() }},
		{name: "a kernel", lose: func(r *rig) { r.gpu.FailKernel() }},
		{name: "what its owner knows", lose: func(r *rig) { r.device.Fail(errors.New("uncorrectable memory errors")) }},
		{name: "the bus", lose: func(r *rig) { r.gpu.Vanish() }, repair: func(r *rig) { r.gpu.Return() }},
		{name: "a hang", lose: func(r *rig) { r.gpu.Hang() }, repair: func(r *rig) { r.gpu.Release() }, hangs: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			hang := 30 * mono.Second // a busy machine is not a hang
			if c.hangs {
				hang = mono.Second
			}
			r := newRig(t, config{length: takes(mono.Millisecond), options: cuda.Options{Hang: hang}})
			b := newBuffers(r)
			l := r.load(b.Alloc, b.Free)
			for round := range 3 {
				good := l.good.Load()
				until(t, "batches", func() bool { return l.good.Load() > good+20 })
				c.lose(r)
				until(t, "the loss is told", func() bool { return r.losses() == round+1 })
				bad := l.bad.Load()
				until(t, "batches fail", func() bool { return l.bad.Load() > bad })
				if c.hangs && !r.gpu.Hanging() {
					t.Error("it does not hang, and was lost")
				}
				if c.repair != nil {
					c.repair(r)
				}
				r.reopen()
			}
			good := l.good.Load()
			until(t, "batches at the end", func() bool { return l.good.Load() > good+20 })
			l.end()
			if n := r.device.Stats().Lost.Load(); n != 3 || r.losses() != 3 {
				t.Errorf("lost %d times, told %d times", n, r.losses())
			}
			if n := l.astray.Load(); n > 3*cuda.Depth || c.hangs && n < 3 {
				t.Errorf("%d batches astray after 3 losses", n)
			}
			r.device.Close()
			b.close(t)
			r.check()
		})
	}
}

// reopen brings the device back, as soon as the driver does.
func (r *rig) reopen() {
	r.t.Helper()
	until(r.t, "it comes back", func() bool {
		if cuda.Probe(r.driver, 0) != nil {
			return false
		}
		c, err := r.driver.Open(0)
		return err == nil && r.device.Reopen(c) == nil
	})
	if e := r.run(0, 3, 1); e.err != nil && !strings.Contains(e.err.Error(), "at a time") { // a load may be there
		r.t.Error(e.err)
	}
}

// A device that is not lost is not reopened, nor one that has less room than it had.
func TestReopenRefuses(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	if err := r.device.Reopen(r.open()); err == nil || isLost(err) {
		t.Errorf("it serves: %v", err)
	}
	r.gpu.Lose()
	if e := r.run(0, 1, 1); !isLost(e.err) || !errors.Is(e.err, executor.ErrLost) {
		t.Error(e.err)
	}
	until(t, "it has given all back", func() bool { return r.driver.Counts().Contexts == 0 })
	r.gpu.SetMemory(1<<20 + 1<<18)
	var refused *cuda.RefusedError
	until(t, "it refuses", func() bool { // once its threads have ended
		err := r.device.Reopen(r.open())
		return errors.As(err, &refused)
	})
	if refused.Model != "pair/1" {
		t.Error(refused)
	}
	if e := r.run(0, 1, 1); e.err == nil {
		t.Error("it runs")
	}
	r.gpu.SetMemory(1 << 30)
	r.reopen()
	r.close()
	if err := r.device.Reopen(r.open()); err == nil {
		t.Error("a closed device is reopened")
	}
	told := r.losses()
	if r.device.Fail(errors.New("too late")); r.losses() != told || r.device.Stats().Lost.Load() != 1 {
		t.Error("a closed device is lost")
	}
	r.check()
}

// A device that hangs and does not come back is left alone: Close ends, and nothing more is
// written where others may write by then.
func TestHangForEver(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{options: cuda.Options{Hang: 50 * mono.Millisecond}})
	b := newBuffers(r)
	r.gpu.Hang()
	done := make(chan ended, 2)
	for i := range 2 {
		r.device.Launch(r.batch(0, 1, i, b.Alloc, done))
	}
	for range 2 {
		if e := r.await(done); !isLost(e.err) || !errors.Is(e.err, executor.ErrAstray) || !strings.Contains(e.err.Error(), "not ended") {
			t.Error(e.err)
		}
	}
	if e := r.run(0, 1, 1); !isLost(e.err) || errors.Is(e.err, executor.ErrAstray) {
		t.Errorf("a lost device: %v", e.err)
	}
	if c, err := r.driver.Open(0); err != nil || r.device.Reopen(c) == nil {
		t.Errorf("reopened while a thread is in the driver (%v)", err)
	}
	r.device.Close()
	r.mu.Lock()
	if len(r.warn) != 1 {
		t.Errorf("Close warned %v", r.warn)
	}
	r.warn = nil
	r.mu.Unlock()
	if r.pinned.Bytes() == 0 {
		t.Error("memory was unpinned while a copy is queued")
	}
	r.gpu.Release() // its threads end after all
	until(t, "it gives back what it had", func() bool { return r.driver.Counts().Contexts == 0 })
	b.close(t)
	r.check()
}

// Models that hang while they are loaded are an error, and nothing waits for ever.
func TestHangWhileLoading(t *testing.T) {
	defer leaks(t)
	r, o := prepare(t, config{})
	o.Stall = 50 * mono.Millisecond
	r.gpu.Hang()
	failed := make(chan error, 1)
	go func() {
		_, _, err := cuda.NewDevice(r.open(), r.runtime, r.models, o)
		failed <- err
	}()
	select {
	case err := <-failed:
		if !isLost(err) || !strings.Contains(err.Error(), "loading") {
			t.Error(err)
		}
	case <-time.After(generous):
		t.Fatal("it waits")
	}
	r.gpu.Release()
	until(t, "it gives back what it had", func() bool { return r.driver.Counts().Contexts == 0 })
	r.check()
}

// A device whose models hang while it is reopened is not opened a second time beside that, and
// Close does not wait for it.
func TestHangWhileReopening(t *testing.T) {
	defer leaks(t)
	for _, closes := range []bool{false, true} {
		stall := mono.Second // what loads, too, must end within it
		if closes {
			stall = 600 * mono.Second
		}
		r := newRig(t, config{options: cuda.Options{Stall: stall}})
		r.device.Fail(errors.New("for the test"))
		until(t, "it has given all back", func() bool { return r.device.Released() == nil })
		r.gpu.Hang()
		reopened := make(chan error, 1)
		go func() { reopened <- r.device.Reopen(r.open()) }()
		until(t, "it hangs", r.gpu.Hanging)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if closes {
				r.device.Close()
			}
			if err := <-reopened; err == nil || isLost(err) == closes {
				t.Errorf("reopened: %v", err)
			}
		}()
		select {
		case <-ended:
		case <-time.After(generous):
			t.Fatal("it waits for the driver")
		}
		if !closes {
			if err := r.device.Reopen(r.open()); !isLost(err) || !strings.Contains(err.Error(), "still in the driver") {
				t.Errorf("reopened a second time: %v", err)
			}
		}
		r.gpu.Release()
		until(t, "it gives back what it had", func() bool { return r.driver.Counts().Contexts == 0 })
		if !closes {
			r.reopen()
			r.device.Close()
		}
		r.mu.Lock()
		r.warn = nil // that Close has left a thread alone
		r.mu.Unlock()
		r.check()
	}
}

// A device lost while its models load is an error, at whichever step.
func TestLostWhileLoading(t *testing.T) {
	defer leaks(t)
	for n := range 6 {
		r, o := prepare(t, config{})
		r.runtime.FailRuns(append(slices.Repeat([]error{nil}, n*5), cuda.ErrLost)...)
		if _, _, err := cuda.NewDevice(r.open(), r.runtime, r.models, o); !isLost(err) {
			t.Error(err)
		}
		r.check()
	}
}

// A loss that is told may be answered by Close from the same call.
func TestCloseFromLost(t *testing.T) {
	defer leaks(t)
	r, o := prepare(t, config{})
	closed := make(chan struct{})
	o.Lost = func(error) { r.device.Close(); close(closed) }
	var err error
	if r.device, _, err = cuda.NewDevice(r.open(), r.runtime, r.models, o); err != nil {
		t.Fatal(err)
	}
	r.gpu.FailKernel()
	if e := r.run(0, 1, 1); !isLost(e.err) {
		t.Error(e.err)
	}
	select {
	case <-closed:
	case <-time.After(generous):
		t.Fatal("Close waits for itself")
	}
	r.check()
}

// Close finishes what was launched.
func TestCloseFinishes(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{length: takes(5 * mono.Millisecond)})
	done := make(chan ended, 2)
	for i := range 2 {
		r.device.Launch(r.batch(1, 4, i, heap, done))
	}
	r.device.Close()
	if len(done) != 2 {
		t.Fatalf("%d batches are finished after Close", len(done))
	}
	for range 2 {
		if e := r.await(done); e.err != nil {
			t.Error(e.err)
		}
	}
	r.check()
}
