package executor

import (
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// gated runs a batch when it is told to.
type gated struct {
	mu    sync.Mutex
	batch *Batch
}

func (g *gated) Close() {}
func (g *gated) Launch(b *Batch) {
	g.mu.Lock()
	g.batch = b
	g.mu.Unlock()
}

func (g *gated) has() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.batch != nil
}

func (g *gated) run() {
	g.mu.Lock()
	b := g.batch
	g.batch = nil
	g.mu.Unlock()
	for i := range b.Outputs {
		copy(b.Outputs[i], b.Inputs[i])
	}
	now := mono.Now()
	b.Finish(now, now, nil)
}

// slotOrder is one of a single request.
func slotOrder(id wire.BatchID, slot int, meant *Model) *Order {
	now := mono.Now()
	return &Order{Batch: wire.Batch{Batch: id, Exec: now, Until: now, Latest: mono.Never, Items: []wire.BatchItem{
		{Request: wire.RequestID(id), Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: itemSize}}}}, ModelIndex: slot, Meant: meant, Arrived: now}
}

func (w *world) reason(id wire.BatchID) (r wire.Reason, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reports[id]) == 0 {
		return 0, false
	}
	return w.reports[id][0].Reason, true
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// A model that is dropped runs what it has and gets nothing more; another one in its slot does
// not get its orders; until then the slot is in use.
func TestSlots(t *testing.T) {
	g := &gated{}
	w := newWorld(t, 1, g)
	defer w.close()
	first, second := &Model{InputSize: itemSize, InputMax: itemSize, OutputSize: itemSize, MaxBatch: 1}, &Model{InputSize: itemSize, InputMax: itemSize, OutputSize: itemSize, MaxBatch: 1}
	refused := func(id wire.BatchID, slot int, meant *Model) {
		t.Helper()
		w.exec.Submit(slotOrder(id, slot, meant))
		if r, there := w.reason(id); !there || r != wire.ReasonExecution {
			t.Errorf("batch %d: %v, %v", id, r, there)
		}
	}
	refused(1, 3, nil) // before there is one
	w.exec.Put(3, first)
	refused(2, 2, nil) // a slot between
	w.exec.Submit(slotOrder(3, 3, first))
	w.until("it runs", g.has)
	w.exec.Submit(slotOrder(4, 3, nil)) // it waits
	w.exec.Drop(3)
	refused(5, 3, first)
	if !w.exec.Uses(3) || w.exec.Uses(0) {
		t.Error("who uses what")
	}
	w.exec.Put(3, second)
	refused(6, 3, first)
	for _, id := range []wire.BatchID{3, 4} {
		w.until("it runs", g.has)
		g.run()
		w.until("a report", func() bool { _, there := w.reason(id); return there })
		if r, _ := w.reason(id); r != wire.ReasonNone {
			t.Errorf("batch %d: %v", id, r)
		}
	}
	w.until("nobody uses it", func() bool { return !w.exec.Uses(3) })
	w.exec.Submit(slotOrder(7, 3, second))
	w.until("it runs", g.has)
	g.run()
	w.exec.Drop(99) // where there never was one
	w.wait(7)
}

// Who holds a device has it alone: orders wait, and run at Release. One that has orders, or is
// out of service, cannot be held.
func TestHold(t *testing.T) {
	g := &gated{}
	w := newWorld(t, 1, g)
	defer w.close()
	if !w.exec.Hold() || w.exec.Hold() {
		t.Fatal("an idle device is held once")
	}
	w.exec.Submit(slotOrder(1, 0, nil))
	time.Sleep(20 * time.Millisecond) // time enough to be launched, if it were
	if g.has() {
		t.Error("an order ran on a device that was held")
	}
	w.exec.Release()
	w.until("it runs", g.has)
	if w.exec.Hold() {
		t.Error("a busy device was held")
	}
	g.run()
	w.wait(1)
	w.exec.Suspend()
	if w.exec.Hold() {
		t.Error("a device out of service was held")
	}
	w.exec.Resume()
	if !w.exec.Hold() {
		t.Error("an idle device cannot be held")
	}
}

// A device that is never free is held once what runs has ended: the order behind that waits for
// Release. How long a device has had no order is told.
func TestHoldNext(t *testing.T) {
	g := &gated{}
	w := newWorld(t, 1, g)
	defer w.close()
	now := mono.Now()
	if q := w.exec.Quiet(now); q != mono.Dur(mono.Never) {
		t.Errorf("an order came %v ago, and none did", q)
	}
	w.exec.Submit(slotOrder(1, 0, nil))
	w.until("it runs", g.has)
	w.exec.Submit(slotOrder(2, 0, nil))
	if q := w.exec.Quiet(mono.Now()); q != 0 || w.exec.HoldNext() {
		t.Errorf("a busy device is held, or had no order for %v", q)
	}
	g.run()
	w.until("it is reported", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.reports) == 1
	})
	if g.has() {
		t.Error("an order was begun on a device that is claimed")
	}
	if !w.exec.HoldNext() || w.exec.HoldNext() {
		t.Error("once what runs has ended the device is held, once")
	}
	w.exec.Release()
	w.until("the other one runs", g.has)
	g.run()
	w.wait(2)
}
