package executor

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// paged is a Pager: a copier whose runs and copies wait, where they are told to, and that checks what it is asked.
type paged struct {
	copier
	pages int
	needs []int // pages of each slot's model

	copying func(slot int) error // waits, and says how it ends; nil: at once, well

	mu    sync.Mutex
	there map[int]bool
	runs  map[int]int // by slot
	loads sync.WaitGroup
}

func newPaged(t *testing.T, pages int, needs ...int) *paged {
	return &paged{copier: copier{t: t}, pages: pages, needs: needs, there: map[int]bool{}, runs: map[int]int{}}
}

func (p *paged) Pages() int { return p.pages }

func (p *paged) Launch(b *Batch) {
	p.mu.Lock()
	if !p.there[b.Model] {
		p.t.Errorf("a batch of slot %d runs without its weights", b.Model)
	}
	p.runs[b.Model]++
	p.mu.Unlock()
	run := *b
	run.Finish = func(start, end mono.Time, err error) {
		p.mu.Lock()
		if p.runs[run.Model]--; !p.there[run.Model] {
			p.t.Errorf("the weights of slot %d went while a batch ran", run.Model)
		}
		p.mu.Unlock()
		b.Finish(start, end, err)
	}
	p.copier.Launch(&run)
}

func (p *paged) Load(slot int, done func(Copied)) {
	p.mu.Lock()
	used := p.needs[slot]
	for s, there := range p.there {
		if there {
			used += p.needs[s]
		}
	}
	if used > p.pages || p.there[slot] {
		p.t.Errorf("a load of slot %d, which is there (%v), makes %d pages of %d", slot, p.there[slot], used, p.pages)
	}
	p.mu.Unlock()
	p.loads.Add(1)
	go func() {
		defer p.loads.Done()
		start, err := mono.Now(), error(nil)
		if p.copying != nil {
			err = p.copying(slot)
		}
		p.mu.Lock()
		p.there[slot] = err == nil
		p.mu.Unlock()
		done(Copied{Start: start, End: mono.Now(), Bytes: 1000 * int64(slot+1), Err: err})
	}()
}

func (p *paged) Unload(slot int, done func()) {
	p.mu.Lock()
	if !p.there[slot] || p.runs[slot] > 0 {
		p.t.Errorf("slot %d is unloaded: there %v, %d batches run", slot, p.there[slot], p.runs[slot])
	}
	p.there[slot] = false
	p.mu.Unlock()
	done()
}

func (p *paged) Close() {
	p.copier.Close()
	p.loads.Wait()
}

// Loaded implements LoadReporter.
func (w *world) Loaded(l *wire.Loaded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads[l.Load] = append(w.loads[l.Load], *l)
}

// newPagedWorld is a world around a paged device, with a model in each slot.
func newPagedWorld(t *testing.T, p *paged) *world {
	w := newWorld(t, 1, p)
	for slot, n := range p.needs {
		w.exec.Put(slot, &Model{InputSize: itemSize, InputMax: itemSize, OutputSize: itemSize, MaxBatch: 16, Pages: n})
	}
	return w
}

func (w *world) load(id wire.LoadID, slot int, gen wire.Generation, change ...func(*LoadOrder)) {
	now := mono.Now()
	o := &LoadOrder{Load: wire.Load{Epoch: 1, Load: id, Model: wire.ModelID(slot), Op: wire.OpLoad, Generation: gen, Earliest: now, Latest: now.Add(100 * mono.Second)}, ModelIndex: slot}
	for _, f := range change {
		f(o)
	}
	if !w.exec.Load(o) {
		w.t.Fatal("the device has no pages")
	}
}

func unload(o *LoadOrder) { o.Op, o.Latest = wire.OpUnload, mono.Never }

// loaded waits for a load's report.
func (w *world) loaded(id wire.LoadID) (l wire.Loaded) {
	w.t.Helper()
	until(w.t, "a load is not reported", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.loads[id]) > 0 {
			l = w.loads[id][0]
		}
		return len(w.loads[id]) > 0
	})
	return l
}

// came checks what came of a load.
func (w *world) came(id wire.LoadID, want wire.Reason) {
	w.t.Helper()
	if l := w.loaded(id); l.Reason != want {
		w.t.Errorf("%+v, want %v", l, want)
	}
}

// run orders a batch of one request with weights of a generation.
func (w *world) run(id wire.BatchID, slot int, gen wire.Generation, change ...func(*Order)) {
	o := newOrder(id, item(wire.RequestID(id), 0, 100*mono.Second))
	o.ModelIndex, o.Generation, o.Latest = slot, gen, mono.Now().Add(100*mono.Second)
	for _, f := range change {
		f(o)
	}
	w.exec.Submit(o)
}

// done waits for a batch's report.
func (w *world) done(id wire.BatchID) wire.Done {
	w.t.Helper()
	until(w.t, "a batch is not reported", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.reports[id]) > 0
	})
	return w.report(id)
}

// checkPages waits until the device is as it should be at rest.
func (w *world) checkPages(free int, held ...Weights) {
	w.t.Helper()
	all := 0
	until(w.t, "the device is not at rest", func() bool {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		l := w.exec.loader
		all = l.all - l.taken
		return l.copied == nil && len(l.queue)+len(l.leaving) == 0
	})
	if n, _ := w.exec.Pages(); n != free || all != free || !slices.Equal(w.exec.Held(), held) {
		w.t.Errorf("%d pages are free, %d not in use, want %d; held are %v, want %v", n, all, free, w.exec.Held(), held)
	}
}

// returned checks that a batch was given back whole: no item is answered.
func (w *world) returned(id wire.BatchID, why wire.Reason) {
	w.t.Helper()
	if d := w.done(id); d.Reason != why || d.Ran != 0 || d.Failed != 0 {
		w.t.Errorf("batch %d: %+v, want it back for %v", id, d, why)
	}
	time.Sleep(5 * time.Millisecond)
	if got := w.frontends[0].got(wire.RequestID(id)); len(got) != 0 {
		w.t.Errorf("batch %d was given back, and its request answered: %v", id, got)
	}
}

// served checks that a batch ran.
func (w *world) served(id wire.BatchID) {
	w.t.Helper()
	if d := w.done(id); d.Reason != wire.ReasonNone || d.Ran != 1 {
		w.t.Errorf("batch %d: %+v", id, d)
	}
	until(w.t, "no output", func() bool { return len(w.frontends[0].got(wire.RequestID(id))) == 1 })
}

// Weights come, batches run with them, the first one is marked, and they go.
func TestLoadRunUnload(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newPagedWorld(t, newPaged(t, 10, 4, 3))
	w.load(1, 0, 7)
	if l := w.loaded(1); l.Reason != wire.ReasonNone || l.Free != 6 || l.Generation != 7 || l.Copied != 1000 || l.End < l.Start || l.Op != wire.OpLoad || l.Epoch != 1 {
		t.Errorf("%+v", l)
	}
	for id := wire.BatchID(1); id <= 2; id++ {
		w.run(id, 0, 7)
		w.served(id)
		w.frontends[0].mu.Lock()
		if got := w.frontends[0].cold[wire.RequestID(id)]; got != (id == 1) {
			t.Errorf("request %d: cold %v", id, got)
		}
		w.frontends[0].mu.Unlock()
	}
	w.load(2, 1, 8)
	w.loaded(2)
	w.checkPages(3, Weights{0, 7}, Weights{1, 8})
	w.load(3, 0, 7, unload)
	if l := w.loaded(3); l.Reason != wire.ReasonNone || l.Op != wire.OpUnload || l.Free != 7 {
		t.Errorf("%+v", l)
	}
	w.run(3, 0, 7)
	w.returned(3, wire.ReasonCold)
	w.load(4, 0, 7, unload) // it is gone: never refused
	w.came(4, wire.ReasonNone)
	w.checkPages(7, Weights{1, 8})
	w.close()
	w.checkOnce()
}

// A batch without the weights that it counts on, or past its latest start, is given back whole; so is one that
// counts on weights of a resident device.
func TestReturnedWhole(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newPagedWorld(t, newPaged(t, 10, 4))
	w.run(1, 0, 7)
	w.returned(1, wire.ReasonCold)
	w.load(1, 0, 7)
	w.loaded(1)
	w.run(2, 0, 6)
	w.returned(2, wire.ReasonCold)
	w.run(3, 0, 0, func(o *Order) { o.Latest = mono.Never })
	w.returned(3, wire.ReasonCold)
	w.run(4, 0, 7, func(o *Order) { o.Latest = mono.Now().Add(-1) })
	w.returned(4, wire.ReasonLate)
	w.run(5, 0, 7, func(o *Order) { o.Latest = mono.Never })
	w.served(5)
	w.close()

	resident := newWorld(t, 1, &copier{t: t})
	resident.run(1, 0, 7)
	resident.returned(1, wire.ReasonCold)
	if resident.exec.Load(&LoadOrder{}) || resident.exec.Held() != nil || resident.exec.Introduce(9) != nil {
		t.Error("a resident device loads")
	}
	resident.close()
}

// A batch that is late because the one before it took too long is given back when its turn comes.
func TestLateBehindAnother(t *testing.T) {
	defer goleak.VerifyNone(t)
	running, held := make(chan struct{}, 9), make(chan struct{})
	w := newWorld(t, 1, &copier{t: t, pause: hold(running, held)})
	w.exec.Submit(newOrder(1, item(1, 0, 100*mono.Second)))
	<-running
	o := newOrder(2, item(2, 0, 100*mono.Second))
	o.Latest = mono.Now().Add(mono.Millisecond)
	w.exec.Submit(o)
	w.exec.Submit(newOrder(3, item(3, 0, 100*mono.Second)))
	for mono.Now() <= o.Latest {
		time.Sleep(time.Millisecond)
	}
	close(held)
	w.served(1)
	w.returned(2, wire.ReasonLate)
	w.served(3)
	w.close()
	w.checkOnce()
}

// A batch waits for weights that are on their way, and others do not wait for it; if they do not come it is given back.
func TestWaitsForItsWeights(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPaged(t, 10, 4, 3, 3)
	steps := make(chan error)
	p.copying = func(slot int) error {
		if slot == 0 {
			return nil
		}
		return <-steps
	}
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	w.loaded(1)
	w.load(2, 1, 2)
	w.load(3, 2, 3)
	w.run(1, 1, 2)
	w.run(2, 2, 3)
	w.run(3, 0, 1)
	w.served(3)
	steps <- nil
	w.served(1)
	steps <- errors.New("it does not come")
	w.returned(2, wire.ReasonCold)
	if l := w.loaded(3); l.Reason != wire.ReasonExecution || l.Free != 3 || l.Copied != 0 {
		t.Errorf("%+v", l)
	}
	w.load(4, 2, 4)
	steps <- ErrMemory
	w.came(4, wire.ReasonMemory)
	w.checkPages(3, Weights{0, 1}, Weights{1, 2})
	w.close()
	w.checkOnce()
}

// Loads that cannot be done say why, and in order of their Earliest the others are.
func TestRefusedLoads(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPaged(t, 10, 4, 3, 3, 9)
	steps, order := make(chan error), make(chan int, 9)
	p.copying = func(slot int) error { order <- slot; return <-steps }
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	<-order
	now := mono.Now()
	w.load(2, 1, 2, func(o *LoadOrder) { o.Earliest = now.Add(50) })
	w.load(3, 2, 3, func(o *LoadOrder) { o.Earliest = now.Add(40) })
	w.load(4, 3, 4, func(o *LoadOrder) { o.Earliest = now.Add(60) })
	w.load(5, 9, 5)
	w.load(6, -1, 6)
	w.load(7, 2, 7, func(o *LoadOrder) { o.Latest = now })
	w.load(8, 1, 8, func(o *LoadOrder) { o.Earliest, o.Meant = now.Add(70), &Model{} })
	for id := wire.LoadID(20); id < 20+loadsMax; id++ {
		w.load(id, 1, wire.Generation(id), func(o *LoadOrder) { o.Earliest, o.Latest = now.Add(mono.Second), now })
	}
	for range 3 {
		steps <- nil
	}
	reasons := map[wire.LoadID]wire.Reason{1: wire.ReasonNone, 2: wire.ReasonNone, 3: wire.ReasonNone, 4: wire.ReasonMemory, 5: wire.ReasonUnknownModel,
		6: wire.ReasonUnknownModel, 7: wire.ReasonLate, 8: wire.ReasonUnknownModel, 20: wire.ReasonLate, 19 + loadsMax: wire.ReasonFull}
	for id, why := range reasons {
		if l := w.loaded(id); l.Reason != why {
			t.Errorf("load %d: %+v, want %v", id, l, why)
		}
	}
	if a, b := <-order, <-order; a != 2 || b != 1 {
		t.Errorf("slot %d was loaded, then %d", a, b)
	}
	w.checkPages(0, Weights{0, 1}, Weights{2, 3}, Weights{1, 2})
	w.close()
}

// An unload counts at once, its memory is free when the batch that runs has ended, and that batch is given back: a load
// that needs the room waits for it.
func TestUnloadWhileItRuns(t *testing.T) {
	defer goleak.VerifyNone(t)
	running, held := make(chan struct{}, 9), make(chan struct{})
	p := newPaged(t, 10, 8, 7)
	p.pause = hold(running, held)
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	w.loaded(1)
	w.run(1, 0, 1)
	<-running
	w.load(2, 0, 1, unload)
	if l := w.loaded(2); l.Free != 10 {
		t.Errorf("%+v", l)
	}
	w.load(3, 1, 2)
	w.run(2, 1, 2)
	w.load(4, 0, 3) // behind it, and it does not fit
	if free, _ := w.exec.Pages(); free != 10 || len(w.exec.Held()) != 0 || !w.exec.Uses(0) {
		t.Errorf("%d pages are free, held are %v", free, w.exec.Held())
	}
	close(held)
	w.returned(1, wire.ReasonCold)
	w.served(2)
	w.came(4, wire.ReasonMemory)
	w.checkPages(3, Weights{1, 2})
	w.close()
	w.checkOnce()
}

// While somebody holds the device no weights leave; a load that needs their pages begins at Release.
func TestLoadWaitsForRelease(t *testing.T) {
	defer goleak.VerifyNone(t)
	w := newPagedWorld(t, newPaged(t, 10, 8, 7))
	w.load(1, 0, 1)
	w.came(1, wire.ReasonNone)
	if !w.exec.Hold() {
		t.Fatal("an idle device cannot be held")
	}
	w.load(2, 0, 1, unload)
	w.load(3, 1, 2)
	w.exec.Release()
	w.came(3, wire.ReasonNone)
	w.checkPages(3, Weights{1, 2})
	w.close()
	w.checkOnce()
}

// Weights that are unloaded while they are loaded leave when they are there; a newer load of a model takes the place
// of an older one.
func TestUnloadWhileItLoads(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPaged(t, 10, 4, 3)
	steps := make(chan error)
	p.copying = func(int) error { return <-steps }
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	w.load(2, 1, 2)
	w.run(1, 0, 1)
	w.run(2, 1, 2)
	w.load(3, 0, 1, unload)
	w.load(4, 1, 2, unload)
	w.returned(1, wire.ReasonCold)
	w.returned(2, wire.ReasonCold)
	for id := wire.LoadID(1); id <= 2; id++ {
		if l := w.loaded(id); l.Reason != wire.ReasonCold || l.Op != wire.OpLoad {
			t.Errorf("%+v", l)
		}
	}
	if l := w.loaded(4); l.Reason != wire.ReasonNone || l.Free != 10 {
		t.Errorf("%+v", l)
	}
	w.load(5, 0, 3)
	steps <- nil // of the first
	steps <- nil
	w.came(5, wire.ReasonNone)
	w.load(6, 0, 4)
	steps <- nil
	w.loaded(6)
	w.checkPages(6, Weights{0, 4})
	w.close()
}

// A model that is taken away takes its weights and loads along, and its slot is in use until they are gone.
func TestDropWithWeights(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPaged(t, 10, 4, 3, 2)
	steps := make(chan error)
	p.copying = func(int) error { return <-steps }
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	steps <- nil
	w.loaded(1)
	w.load(2, 1, 2)
	w.load(3, 2, 3)
	for slot := range 3 {
		if !w.exec.Uses(slot) {
			t.Errorf("slot %d is not in use", slot)
		}
		w.exec.Drop(slot)
	}
	until(t, "slots are in use still", func() bool { return !w.exec.Uses(0) && !w.exec.Uses(2) })
	if !w.exec.Uses(1) {
		t.Error("a slot that is being loaded is not in use")
	}
	for id := wire.LoadID(2); id <= 3; id++ {
		if l := w.loaded(id); l.Reason != wire.ReasonUnknownModel {
			t.Errorf("%+v", l)
		}
	}
	steps <- nil
	until(t, "the slot is in use still", func() bool { return !w.exec.Uses(1) })
	w.checkPages(10)
	w.close()
}

// Who is obeyed anew, or introduced to, is told of what is held, and nothing else is: loads under way are void, and
// batches that waited for them are given back. An older scheduler's loads are not taken.
func TestVoidLoads(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, begin := range map[string]func(w *world) []Weights{
		"fence":        func(w *world) []Weights { w.exec.Fence(2, true, func(*Order) {}); return w.exec.Held() },
		"introduction": func(w *world) []Weights { return w.exec.Introduce(100) },
	} {
		p := newPaged(t, 10, 4, 3, 2)
		steps := make(chan error)
		p.copying = func(int) error { return <-steps }
		w := newPagedWorld(t, p)
		w.load(1, 0, 1)
		steps <- nil
		w.loaded(1)
		w.load(2, 1, 2)
		w.load(3, 2, 3)
		w.run(1, 1, 2)
		until(t, "no input", func() bool { w.exec.mu.Lock(); defer w.exec.mu.Unlock(); return w.exec.orders[0].isReady() })
		if held := begin(w); !slices.Equal(held, []Weights{{0, 1}}) {
			t.Errorf("%s: held are %v", name, held)
		}
		w.returned(1, wire.ReasonCold)
		if name == "fence" {
			w.load(4, 2, 4) // of the one before
			w.load(4, 0, 1, unload)
		}
		w.load(5, 2, 5, func(o *LoadOrder) { o.Epoch = 2 })
		steps <- nil
		steps <- nil
		if l := w.loaded(5); l.Free != 4 {
			t.Errorf("%s: %+v", name, l)
		}
		w.checkPages(4, Weights{0, 1}, Weights{2, 5})
		if held := w.exec.Introduce(1); !slices.Equal(held, []Weights{{2, 5}}) {
			t.Errorf("%s: of one at most %v is told", name, held)
		}
		w.checkPages(8, Weights{2, 5})
		w.close()
		if len(w.loads[2])+len(w.loads[3])+len(w.loads[4]) != 0 {
			t.Errorf("%s: void loads are reported: %v", name, w.loads)
		}
	}
}

// A device that goes out of service comes back empty.
func TestSuspendForgetsWeights(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPaged(t, 10, 4, 3)
	steps := make(chan error)
	p.copying = func(int) error { return <-steps }
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	steps <- nil
	w.loaded(1)
	w.load(2, 1, 2)
	w.exec.Suspend()
	w.load(3, 0, 3)
	w.load(4, 0, 1, unload)
	steps <- nil
	w.exec.Resume()
	w.checkPages(10)
	w.load(5, 0, 4)
	steps <- nil
	w.loaded(5)
	w.checkPages(6, Weights{0, 4})
	w.close()
	if len(w.loads[2])+len(w.loads[3])+len(w.loads[4]) != 0 {
		t.Errorf("loads of a device that was out of service are reported: %v", w.loads)
	}
}

// A device that closes while it loads leaves nobody waiting.
func TestCloseWhileItLoads(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPaged(t, 10, 4, 3)
	steps := make(chan error, 1)
	p.copying = func(int) error { return <-steps }
	w := newPagedWorld(t, p)
	w.load(1, 0, 1)
	w.load(2, 1, 2)
	go func() {
		for !w.exec.ending() {
			time.Sleep(time.Millisecond)
		}
		steps <- nil
	}()
	w.close()
	w.load(3, 1, 3)
	if len(w.loads) != 0 {
		t.Errorf("%v", w.loads)
	}
}

// What a batch of a paged device asks of its weights takes no memory.
func TestWeighingDoesNotAllocate(t *testing.T) {
	w := newPagedWorld(t, newPaged(t, 10, 4, 3))
	w.load(1, 0, 7)
	w.loaded(1)
	o := newOrder(1, item(1, 0, mono.Second))
	o.Generation, o.Latest = 7, mono.Now().Add(1000*mono.Second)
	if n := testing.AllocsPerRun(1000, func() {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		if why, waits := w.exec.verdictLocked(o); why != wire.ReasonNone || waits || w.exec.chilledLocked(o) {
			t.Fatal("its weights are not there")
		}
		w.exec.loader.useLocked(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	w.close()
}
