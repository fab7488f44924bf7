package cuda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

func takes(d mono.Dur) func(int) mono.Dur { return func(int) mono.Dur { return d } }

// Every size of models of one and of two tensors, in turns, in both slots: each item gets
// its own output, whatever lies behind the last one.
func TestEachSize(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	for round := range 3 {
		for n := 1; n <= 16; n++ {
			for model := range 2 {
				if e := r.run(model, n, round*100+n); e.err != nil {
					t.Fatalf("model %d, batch of %d: %v", model, n, e.err)
				}
			}
		}
	}
	if s := r.device.Stats(); s.Batches.Load() != 96 || s.Failed.Load() != 0 || s.Memory.Load() < 2<<20 || s.Staged.Load() == 0 {
		t.Errorf("counted %d batches, %d failed, %d bytes, %d staged", s.Batches.Load(), s.Failed.Load(), s.Memory.Load(), s.Staged.Load())
	}
	r.close()
}

// Batches run in the order of Launch, one at a time, and times are those of the execution.
func TestOrderAndTimes(t *testing.T) {
	defer leaks(t)
	const length, copies = 4 * mono.Millisecond, 3 * mono.Millisecond
	r := newRig(t, config{fake: fakecuda.Config{CopyTime: copies}, length: takes(length)})
	done := make(chan ended, 64)
	r.device.Launch(r.batch(0, 1, 0, heap, done))
	for i := range 20 {
		r.device.Launch(r.batch(i%2, 1+i%16, i+1, heap, done))
		e := r.await(done)
		if e.err != nil || e.batch.Size != 1+max(0, i-1)%16 {
			t.Fatalf("batch %d: size %d, %v", i, e.batch.Size, e.err)
		}
		if got := e.end.Sub(e.start); got < length {
			t.Errorf("batch %d took %v, want %v and no less", i, got, length)
		}
		if now := mono.Now(); e.end.Add(copies) > now {
			t.Errorf("batch %d was finished %v before its outputs were copied", i, e.end.Add(copies).Sub(now))
		}
	}
	r.await(done)
	r.close()
}

// Copies in and out take place while another batch executes, where there is one.
func TestCopiesHide(t *testing.T) {
	defer leaks(t)
	for _, ahead := range []bool{false, true} {
		r := newRig(t, config{fake: fakecuda.Config{CopyTime: 3 * mono.Millisecond}, length: takes(12 * mono.Millisecond), models: []cuda.Model{flip(4)}})
		buffers := newBuffers(r)
		done := make(chan ended, 64)
		const batches = 16
		under := 0
		for i := range batches {
			r.device.Launch(r.batch(0, 4, i, buffers.Alloc, done))
			if under++; under == cuda.Depth || !ahead {
				r.await(done)
				under--
			}
		}
		for range under {
			r.await(done)
		}
		s := r.device.Stats()
		share := float64(s.Hidden.Load()) / float64(s.Copied.Load())
		if ahead && share < 0.3 || !ahead && share > 0.1 {
			t.Errorf("launched ahead %v: %.0f %% of the copies' time is hidden", ahead, 100*share)
		}
		r.device.Close()
		buffers.close(t)
		r.check()
	}
}

// What a batch must not be, and more of them than there are slots, fails at once.
func TestRefusesBatches(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{length: takes(50 * mono.Millisecond), models: []cuda.Model{flip(2)}})
	done := make(chan ended, 8)
	for i := range 2 {
		r.device.Launch(r.batch(0, 1, i, heap, done))
	}
	for _, spoil := range []struct{ model, size, cut int }{{0, 1, 0}, {7, 1, 0}, {-1, 1, 0}, {0, 17, 0}, {0, 0, 0}, {0, 1, 1}} {
		b := r.batch(0, 1, 0, heap, done)
		b.Model, b.Size, b.Input = spoil.model, spoil.size, b.Input[spoil.cut:]
		r.device.Launch(b)
		select {
		case e := <-done:
			if e.err == nil || e.batch != b {
				t.Errorf("%+v: %v", spoil, e.err)
			}
		default:
			t.Errorf("%+v: not finished at once", spoil)
		}
	}
	for range 2 {
		if e := r.await(done); e.err != nil {
			t.Error(e.err)
		}
	}
	r.close()
	if e := r.run(0, 1, 1); e.err == nil {
		t.Error("a closed device runs")
	}
}

// A model that does not fit is refused with its name and figures; the others serve.
func TestRefusesModels(t *testing.T) {
	defer leaks(t)
	large := flip(1024)
	r, o := prepare(t, config{fake: fakecuda.Config{GPUs: []cuda.Info{{Memory: 8 << 20}}}, models: []cuda.Model{pair(4), large, flip(4)}})
	o.Budget = 2200 << 10 // two small ones, or a small and no large one
	d, refused, err := cuda.NewDevice(r.open(), r.runtime, r.models, o)
	if err != nil || len(refused) != 1 || refused[0].Index != 1 {
		t.Fatal(err, refused)
	}
	r.device = d
	if text := refused[0].Error(); !errors.Is(refused[0], cuda.ErrMemory) || !strings.Contains(text, "flip/1") || !strings.Contains(text, "1280 KiB") || !strings.Contains(text, "2200 KiB") || !strings.Contains(text, "budget") {
		t.Error(text)
	}
	if e := r.run(1, 1, 0); e.err == nil {
		t.Error("a refused model runs")
	}
	d.Keep([]int{2, 0}) // as a pool does whose devices serve the same
	if m := d.Models(); len(m) != 2 || m[0].Spec.Name != "flip" || m[1].Spec.Name != "pair" {
		t.Errorf("it serves %v", m)
	}
	r.models = []cuda.Model{flip(4), pair(4)}
	for model := range 2 {
		if e := r.run(model, 3, 5); e.err != nil {
			t.Error(e.err)
		}
	}
	before := r.driver.Counts()
	d.Keep([]int{0})
	if after := r.driver.Counts(); after.Programs != before.Programs-1 || after.Bytes >= before.Bytes-1<<20 {
		t.Errorf("Keep gives back nothing: %+v, %+v", before, after)
	}
	r.close()
}

// Without room at all, or where loading fails for all, there is no device and nothing is left.
func TestNoModelFits(t *testing.T) {
	defer leaks(t)
	r, o := prepare(t, config{fake: fakecuda.Config{GPUs: []cuda.Info{{Memory: 1 << 20}}}})
	d, refused, err := cuda.NewDevice(r.open(), r.runtime, r.models, o)
	if d != nil || err == nil || len(refused) != 2 || !errors.Is(refused[1], cuda.ErrMemory) {
		t.Errorf("%v, %v", refused, err)
	}
	r.gpu.SetMemory(1 << 30)
	r.runtime.FailLoads(errors.New("no such operator"), nil)
	d, refused, err = cuda.NewDevice(r.open(), r.runtime, r.models, o)
	if err != nil || len(refused) != 1 || !strings.Contains(refused[0].Error(), "no such operator") || !strings.Contains(refused[0].Error(), "flip/1") {
		t.Fatal(refused, err)
	}
	r.device = d
	r.close()
}

// Every step of loading may fail for want of memory: then nothing is left behind, and what
// fits serves.
func TestOutOfMemoryWhileLoading(t *testing.T) {
	defer leaks(t)
	for n := range 14 {
		r, o := prepare(t, config{})
		r.gpu.FailAllocs(n)
		d, _, err := cuda.NewDevice(r.open(), r.runtime, r.models, o)
		if err == nil {
			d.Close()
		}
		r.driver.FailHost(n)
		r.runtime.FailRuns(slices.Repeat([]error{nil}, n*7)...)
		if d, _, err = cuda.NewDevice(r.open(), r.runtime, r.models, o); err == nil {
			d.Close()
		}
		r.check()
	}
}

// In the steady state nothing is allocated for a batch, and nothing is left of 10,000.
func TestSteadyState(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	buffers := newBuffers(r)
	done := make(chan ended, 2)
	batches := []func(){}
	for model := range 2 {
		for _, n := range []int{1, 5, 16} {
			b := r.batch(model, n, n, buffers.Alloc, done)
			finished := make(chan error, 1)
			b.Finish = func(_, _ mono.Time, err error) { finished <- err }
			batches = append(batches, func() {
				r.device.Launch(b)
				if err := <-finished; err != nil {
					t.Error(err)
				}
			})
		}
	}
	all := func() {
		for _, run := range batches {
			run()
		}
	}
	all()
	before, unpinned := r.driver.Counts(), r.gpu.Stats().Unpinned
	if n := testing.AllocsPerRun(100, all); n != 0 && !raceEnabled {
		t.Errorf("%v allocations for %d batches, want none", n, len(batches))
	}
	for range 10_000 / len(batches) {
		all()
	}
	if after := r.driver.Counts(); after != before {
		t.Errorf("10,000 batches later: %+v, before %+v", after, before)
	}
	if n := r.gpu.Stats().Unpinned - unpinned; n != 0 {
		t.Errorf("%d copies of memory that is not pinned", n)
	}
	r.device.Close()
	buffers.close(t)
	r.check()
}
