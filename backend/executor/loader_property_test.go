package executor

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// byHand is a Pager whose runs, copies and forgetting end when the test says so.
type byHand struct {
	pages int
	needs []int

	mu         sync.Mutex
	run        *Batch
	copying    int // slot; -1: none
	done       func(Copied)
	there      []bool
	forgetting map[int]func()
	wrong      []string
}

func (d *byHand) Pages() int { return d.pages }
func (d *byHand) Close()     {}

func (d *byHand) check(ok bool, what string) {
	if !ok {
		d.wrong = append(d.wrong, what)
	}
}

func (d *byHand) Launch(b *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.check(d.run == nil, "two batches run")
	d.check(d.there[b.Model] && d.forgetting[b.Model] == nil, "a batch runs without weights")
	d.run = b
}

func (d *byHand) Load(slot int, done func(Copied)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.check(d.copying < 0, "two copies at a time")
	d.check(!d.there[slot], "weights that are there are loaded")
	d.copying, d.done = slot, done
	used := d.needs[slot]
	for s, there := range d.there {
		if there {
			used += d.needs[s]
		}
	}
	d.check(used <= d.pages, "more pages are used than there are")
}

func (d *byHand) Unload(slot int, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.check(d.there[slot] && d.forgetting[slot] == nil, "weights are unloaded that are not there")
	d.check(d.run == nil || d.run.Model != slot, "weights are unloaded with which a batch runs")
	d.forgetting[slot] = done
}

// endRun ends the batch that runs; false: none does.
func (d *byHand) endRun() bool {
	d.mu.Lock()
	b := d.run
	d.run = nil
	d.mu.Unlock()
	if b == nil {
		return false
	}
	for i := range b.Inputs {
		copy(b.Outputs[i], b.Inputs[i])
	}
	now := mono.Now()
	b.Finish(now, now, nil)
	return true
}

func (d *byHand) endCopy(err error) bool {
	d.mu.Lock()
	slot, done := d.copying, d.done
	if slot >= 0 {
		d.there[slot] = err == nil
	}
	d.copying, d.done = -1, nil
	d.mu.Unlock()
	if slot < 0 {
		return false
	}
	now := mono.Now()
	done(Copied{Start: now, End: now, Err: err})
	return true
}

func (d *byHand) endForgetting(slot int) bool {
	d.mu.Lock()
	done := d.forgetting[slot]
	if delete(d.forgetting, slot); done != nil {
		d.there[slot] = false
	}
	d.mu.Unlock()
	if done == nil {
		return false
	}
	done()
	return true
}

// TestPagesAddUp: whatever comes in whatever order, no page is lost or counted twice, each load has one report unless
// it is void, and each batch one unless it is given up; and at last all is given back.
func TestPagesAddUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(r *rapid.T) {
		needs := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(r, "needs")
		d := &byHand{pages: rapid.IntRange(6, 14).Draw(r, "pages"), needs: needs, copying: -1, there: make([]bool, len(needs)), forgetting: map[int]func(){}}
		h := &history{T: r, device: d, world: newWorld(t, 1, d), epoch: 1}
		defer h.close()
		for slot := range needs {
			h.put(slot)
		}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			h.step()
			h.check()
		}
		h.settle()
	})
}

// history is a world that things happen to.
type history struct {
	*rapid.T
	*world
	device    *byHand
	epoch     wire.Epoch
	loads     wire.LoadID
	batches   wire.BatchID
	gen       wire.Generation
	voided    []wire.LoadID // may have no report
	given     []wire.BatchID
	suspended bool
}

func (h *history) put(slot int) {
	h.exec.Put(slot, &Model{InputSize: itemSize, InputMax: itemSize, OutputSize: itemSize, MaxBatch: 16, Pages: h.device.needs[slot]})
}

func (h *history) step() {
	slot := rapid.IntRange(0, len(h.device.needs)-1).Draw(h.T, "slot")
	switch what := rapid.SampledFrom([]string{"load", "load", "load", "unload", "unload held", "run", "run", "end run", "end run", "end copy", "end copy", "copy fails",
		"forget", "forget", "fence", "introduce", "suspend", "drop", "late load"}).Draw(h.T, "what"); what {
	case "load", "late load":
		h.loads, h.gen = h.loads+1, h.gen+1
		o := &LoadOrder{Load: wire.Load{Epoch: h.epoch, Load: h.loads, Op: wire.OpLoad, Generation: h.gen, Earliest: mono.Now(), Latest: mono.Never}, ModelIndex: slot}
		if what == "late load" {
			o.Latest = mono.Past
		}
		h.exec.Load(o)
		h.lost(h.suspended)
	case "unload":
		h.unload(slot, wire.Generation(rapid.IntRange(1, int(h.gen)+1).Draw(h.T, "generation")))
	case "unload held":
		if held := h.exec.Held(); len(held) > 0 {
			w := held[slot%len(held)]
			h.unload(w.Slot, w.Generation)
		}
	case "run":
		h.order(slot)
	case "end run":
		h.device.endRun()
	case "end copy":
		h.device.endCopy(nil)
	case "copy fails":
		h.device.endCopy(errors.New("it fails"))
	case "forget":
		h.device.endForgetting(slot)
	case "fence":
		h.epoch++
		keep := rapid.Bool().Draw(h.T, "keep")
		h.exec.Fence(h.epoch, keep, func(*Order) {})
		h.void()
		if !keep {
			h.give()
		}
	case "introduce":
		h.exec.Introduce(rapid.IntRange(0, 5).Draw(h.T, "most"))
		h.void()
	case "suspend":
		if h.suspended = !h.suspended; h.suspended {
			h.exec.Suspend()
			h.void()
			h.give()
		} else {
			h.exec.Resume()
		}
	case "drop":
		h.exec.Drop(slot)
		for h.exec.Uses(slot) && (h.device.endRun() || h.device.endCopy(nil) || h.device.endForgetting(slot)) {
		}
		until(h.world.t, "a slot is in use that nothing uses", func() bool { return !h.exec.Uses(slot) })
		h.put(slot)
	}
}

func (h *history) unload(slot int, gen wire.Generation) {
	h.loads++
	h.exec.Load(&LoadOrder{Load: wire.Load{Epoch: h.epoch, Load: h.loads, Op: wire.OpUnload, Generation: gen, Latest: mono.Never}, ModelIndex: slot})
	h.lost(h.suspended)
}

// order orders a batch, and waits for its input.
func (h *history) order(slot int) {
	h.exec.mu.Lock()
	n := len(h.exec.orders)
	h.exec.mu.Unlock()
	if n >= ordersMax-1 {
		return // it would be refused as full: that is another test
	}
	gen := h.gen
	for _, w := range h.exec.Held() {
		if w.Slot == slot {
			gen = w.Generation
		}
	}
	h.batches++
	o := newOrder(h.batches, item(wire.RequestID(h.batches), 0, 1000*mono.Second))
	o.Epoch, o.ModelIndex, o.Generation = h.epoch, slot, gen
	h.exec.Submit(o)
	if h.suspended {
		h.given = append(h.given, h.batches)
	}
	until(h.world.t, "no input", func() bool {
		h.exec.mu.Lock()
		defer h.exec.mu.Unlock()
		return !slices.ContainsFunc(h.exec.orders, func(o *order) bool { return !o.isReady() })
	})
}

func (h *history) lost(is bool) {
	if is {
		h.voided = append(h.voided, h.loads)
	}
}

// void notes that loads without a report have none to come; give does so for batches.
func (h *history) void() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := wire.LoadID(1); id <= h.loads; id++ {
		if len(h.world.loads[id]) == 0 {
			h.voided = append(h.voided, id)
		}
	}
}

func (h *history) give() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := wire.BatchID(1); id <= h.batches; id++ {
		if len(h.reports[id]) == 0 {
			h.given = append(h.given, id)
		}
	}
}

// check: pages add up, at any time.
func (h *history) check() {
	h.exec.mu.Lock()
	defer h.exec.mu.Unlock()
	l := h.exec.loader
	free, taken := l.all, 0
	for slot := range l.slots {
		w := &l.slots[slot]
		if taken += w.pages; w.generation != 0 {
			free -= w.pages
		}
		if leaves := slices.Contains(l.leaving, slot); leaves != (w.pages > 0 && w.generation == 0) {
			h.Fatalf("slot %d: %+v, leaving %v", slot, *w, l.leaving)
		}
	}
	if c := l.copied; c != nil {
		if taken += c.pages; !c.void {
			free -= c.pages
		}
	}
	if free != l.free || taken != l.taken || free < 0 || taken > l.all {
		h.Fatalf("%d pages are free, counted %d; %d are in use, counted %d, of %d", l.free, free, l.taken, taken, l.all)
	}
}

// settle lets all end, takes all back, and looks whether anything is missing.
func (h *history) settle() {
	if h.suspended {
		h.exec.Resume()
		h.suspended = false
	}
	for quiet := 0; quiet < 3; {
		quiet++
		if h.device.endRun() || h.device.endCopy(nil) {
			quiet = 0
		}
		for slot := range h.device.needs {
			if h.device.endForgetting(slot) {
				quiet = 0
			}
		}
		for _, w := range h.exec.Held() {
			h.unload(w.Slot, w.Generation)
			quiet = 0
		}
		if !h.exec.Idle() {
			quiet = 0
		}
		h.check()
	}
	if free, all := h.exec.Pages(); free != all || h.exec.loader.taken != 0 {
		h.Fatalf("%d of %d pages are free at last, %d in use", free, all, h.exec.loader.taken)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := wire.LoadID(1); id <= h.loads; id++ {
		if n := len(h.world.loads[id]); n != 1 && (n != 0 || !slices.Contains(h.voided, id)) {
			h.Fatalf("load %d has %d reports", id, n)
		}
	}
	for id := wire.BatchID(1); id <= h.batches; id++ {
		if n := len(h.reports[id]); n != 1 && (n != 0 || !slices.Contains(h.given, id)) {
			h.Fatalf("batch %d has %d reports", id, n)
		}
	}
	h.device.mu.Lock()
	defer h.device.mu.Unlock()
	for _, what := range h.device.wrong {
		h.Fatal(what)
	}
}
