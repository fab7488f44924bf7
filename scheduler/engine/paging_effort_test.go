package engine

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// effortsFrom is beyond the ids of requests with deadlines.
const effortsFrom = 1 << 30

// offerEffort submits n requests of best effort, of the models by turns.
func offerEffort(e *Engine, from, models, n int) int {
	for i := range n {
		now := mono.Now()
		m := wire.ModelID(i % models)
		q := batching.Request{ID: wire.RequestID(from + i), Model: m, Arrival: now, Deadline: now.Add(3600 * mono.Second), Class: wire.ClassBestEffort}
		for !e.Submit(m, &q) {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return n
}

// checkEfforts wants an answer to each of so many requests of best effort.
func (d *pagers) checkEfforts(t *testing.T, n int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		if k := d.answers[wire.RequestID(effortsFrom+i)]; k != 1 {
			t.Fatalf("request %d of best effort has %d answers", i, k)
		}
	}
}

// Twice as many models as a GPU has room for, asked for by best effort alone: they are loaded for it, one after the other's turn, also where
// loads fail and batches are refused.
func TestPagedBestEffortAlone(t *testing.T) {
	defer goleak.VerifyNone(t)
	const models, requests = 8, 160
	d := newPagers(t, 3, 0)
	d.misses = 0.05
	cfg := Config{Record: NewRecording(), ModelLoops: 2}
	e := startPaged(t, cfg, d, models, 1)
	offerEffort(e, effortsFrom, models, requests)
	d.quiet(t)
	stats := e.Stats().Paging
	e.Stop()
	d.checkEfforts(t, requests)
	d.checkMemory(t, models)
	if d.served != requests || stats.Effort < models || stats.Cold+stats.Copies > 0 {
		t.Errorf("served %d of %d, dropped %v, refused %v; %+v: want loads for best effort alone", d.served, requests, d.reasons, d.refuse, *stats)
	}
	if _, batches, err := cfg.Record.Replay(e.cfg); err != nil || batches == 0 {
		t.Errorf("%d batches are equal: %v", batches, err)
	}
}

// The GPU is lost that loads for best effort: the request waits for another one, and for one that comes.
func TestGPULostWhileItLoadsForBestEffort(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 1, 2)
	offerEffort(e, effortsFrom, 1, 3)
	for d.ordered() < 1 {
		time.Sleep(50 * time.Microsecond)
	}
	d.mu.Lock()
	first := d.orders[0].GPU
	d.mu.Unlock()
	if first != 1 {
		t.Errorf("the load goes to GPU %d, want the idle one with the highest id", first)
	}
	d.kill(first)
	d.quiet(t)
	e.Stop()
	d.checkEfforts(t, 3)
	d.checkMemory(t, 1)
	if d.served != 3 {
		t.Errorf("served %d of 3, dropped %v, orders %+v", d.served, d.reasons, d.orders)
	}
}

// The model is removed while it is loaded for best effort, and comes back under its id: who waited is told, who comes is served.
func TestModelRemovedWhileItLoadsForBestEffort(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 1, 1)
	offerEffort(e, effortsFrom, 1, 3)
	for d.ordered() < 1 {
		time.Sleep(50 * time.Microsecond)
	}
	e.RemoveModel(0, wire.ReasonUnavailable)
	d.serve(0)
	offerEffort(e, effortsFrom+3, 1, 2)
	d.quiet(t)
	e.Stop()
	d.checkEfforts(t, 5)
	d.checkMemory(t, 1)
	if d.served < 2 || d.served+d.reasons[wire.ReasonUnavailable] != 5 {
		t.Errorf("served %d, dropped %v, orders %+v", d.served, d.reasons, d.orders)
	}
}

// ordered is how many loads and unloads were.
func (d *pagers) ordered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.orders)
}

// lastPaged is lastBatch of a paged engine.
type lastPaged struct {
	lastBatch
	loads int
}

func (s *lastPaged) Load(*LoadOrder) { s.loads++ }
func (s *lastPaged) FlushLoads()     {}

// Nothing is allocated per request of a paged engine, of either class. Its loops are turned by hand.
func TestPagedBestEffortAllocatesNothing(t *testing.T) {
	sink := &lastPaged{}
	e, err := New(Config{GPUsMax: 4, RequestsMax: 256, Paged: &paged.Config{}}, sink)
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Now()
	turn := func() {
		for worked := true; worked; {
			worked = e.loops[0].turn(now)
			worked = e.rank.turn(now) || worked
		}
	}
	for m := range wire.ModelID(2) {
		if err := e.AddPagedModel(m, batching.Config{Profile: line(t, 1, 2), SLO: 20 * mono.Millisecond, QueueMax: 16}, residency.Model{Pages: 1, LoadTime: loadTime}); err != nil {
			t.Fatal(err)
		}
	}
	turn()
	if _, err := e.AddPagedGPU(0, now, 2, []residency.Weights{{Model: 0, Generation: 1}, {Model: 1, Generation: 2}}); err != nil {
		t.Fatal(err)
	}
	turn()
	next, ran := wire.RequestID(0), 0
	one := func() {
		for m, class := range []wire.Class{wire.ClassLatency, wire.ClassBestEffort} {
			next++
			q := batching.Request{ID: next, Model: wire.ModelID(m), Arrival: now, Deadline: now.Add(20 * mono.Millisecond), Class: class}
			if class == wire.ClassBestEffort {
				q.Deadline = now.Add(3600 * mono.Second)
			}
			e.Submit(q.Model, &q)
		}
		for range 30 {
			turn()
			now = now.Add(mono.Millisecond)
			if b := sink.batch.Swap(0); b != 0 {
				e.Done(Done{Batch: wire.BatchID(b), Start: now, End: now, Ran: 1})
				ran++
			}
		}
	}
	for range 300 {
		one()
	}
	ran = 0
	if n := testing.AllocsPerRun(200, one); n != 0 {
		t.Errorf("%v allocations for two requests, want none", n)
	}
	if ran != 2*201 || sink.drops.Load() > 0 || sink.loads > 0 {
		t.Errorf("%d batches, %d drops, %d loads; want two batches a turn", ran, sink.drops.Load(), sink.loads)
	}
}
