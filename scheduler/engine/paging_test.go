package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Far more models than the GPUs have room for, GPUs and models that come and go, loads that fail, batches that are
// refused, requests with deadlines and of best effort: each is answered once, the pages add up, nothing is ordered that could not be
// done, and the log replays to the same grants, loans, loads, unloads and floors.
func TestPagedReplay(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, cfg := range map[string]Config{"1 loop": {}, "3 loops": {ModelLoops: 3}, "joined": {Placement: Placement{Joined: true}}, "3 loops joined": {ModelLoops: 3, Placement: Placement{Joined: true}}} {
		t.Run(name, func(t *testing.T) {
			const models = 20
			cfg.Record = NewRecording()
			d := newPagers(t, 7, 0.2)
			d.fails, d.misses = 0.05, 0.01
			e := startPaged(t, cfg, d, models, 3)
			stop := make(chan struct{})
			go disturb(d, models, stop)
			efforts := offerEffort(e, effortsFrom, models, 60)
			for d.ordered() < 3 || d.ran() == 0 { // before the others come, who want all pages
				time.Sleep(100 * time.Microsecond)
			}
			accepted := offer(e, models, 800, 1500*time.Millisecond)
			for rounds := 0; rounds < 20 && !shows(e); rounds++ { // a machine that stands still for seconds shows less at a time
				accepted += offerFrom(e, accepted, models, 800, 500*time.Millisecond)
			}
			efforts += offerEffort(e, effortsFrom+efforts, models, 60)
			close(stop)
			<-d.disturbed
			e.Hasten() // what waits of best effort would for a minute, until nobody counts on what is there
			d.quiet(t)
			stats := e.Stats().Paging
			e.Stop()
			d.checkOnce(t, accepted)
			d.checkEfforts(t, efforts)
			d.checkMemory(t, models)
			grants, batches, err := cfg.Record.Replay(e.cfg)
			if err != nil {
				t.Fatal(err)
			}
			loans := cfg.Record.loans()
			if grants < 50 || batches < 50 || loans == 0 || !shows(e) {
				t.Fatalf("only %d grants, %d loans and %d batches compared; %+v", grants, loans, batches, *stats)
			}
			t.Logf("%d requests, %d served, dropped %v, refused %v, %+v; %d grants, %d loans and %d batches equal", accepted, d.served, d.reasons, d.refuse, *stats, grants, loans, batches)
		})
	}
}

// shows tells whether enough has happened for a replay to compare.
func shows(e *Engine) bool {
	dispatches, all := uint64(0), e.Stats()
	for _, l := range all.Models {
		dispatches += l.Dispatches
	}
	s := all.Paging
	return dispatches > 200 && s.Cold >= 20 && s.Unloads >= 10 && s.Failed > 0 && s.Effort > 0
}

// loans counts whom GPUs were lent to.
func (r *Recording) loans() (n int) {
	for i := range r.ranks.records.len() {
		if rec := r.ranks.records.at(i); rec.step {
			n += len(rec.orders.Fills)
		}
	}
	return n
}

// disturb has GPUs and models go and come back until stop.
func disturb(d *pagers, models int, stop chan struct{}) {
	defer close(d.disturbed)
	r := rand.New(rand.NewPCG(3, 9))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(40 * time.Millisecond):
		}
		if i%2 == 0 {
			held := d.kill(1)
			time.Sleep(5 * time.Millisecond)
			d.add(1, held[:r.IntN(len(held)+1)]...) // what it still has when it is back
			continue
		}
		id := wire.ModelID(r.IntN(models))
		d.engine.RemoveModel(id, wire.ReasonUnavailable)
		d.serve(id)
	}
}

// A replay of a paged log that was tampered with must not pass.
func TestPagedReplaySeesADifference(t *testing.T) {
	cfg := Config{Record: NewRecording()}
	d := newPagers(t, 1, 0)
	e := startPaged(t, cfg, d, 8, 1)
	offer(e, 8, 300, 300*time.Millisecond)
	d.quiet(t)
	e.Stop()
	if _, _, err := cfg.Record.Replay(e.cfg); err != nil {
		t.Fatal(err)
	}
	n := 0
	for log, i := &cfg.Record.ranks.records, 0; i < log.len(); i++ {
		if rec := log.at(i); rec.ev.op == rankLoaded {
			later := *rec.ev.paging
			later.report.End = later.report.End.Add(30 * mono.Millisecond)
			rec.ev.paging = &later
			n++
		}
	}
	if _, _, err := cfg.Record.Replay(e.cfg); n == 0 || err == nil {
		t.Fatalf("%d later loads gave the same orders", n)
	}
}

// A request for a model that no GPU holds: it is loaded at once, and served.
func TestColdRequestIsServed(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 1, 2)
	e.Hasten() // else it starts at the last moment, which a busy machine misses
	now := mono.Now()
	e.Submit(0, &batching.Request{ID: 1, Arrival: now, Deadline: now.Add(2 * mono.Second)})
	d.quiet(t)
	e.Stop()
	d.checkOnce(t, 1)
	if d.served != 1 || len(d.orders) != 1 || d.orders[0].Copies != 1 || d.refuse[wire.ReasonCold] > 0 {
		t.Fatalf("served %d, dropped %v, refused %v, orders %+v; want one load, and the request served by it", d.served, d.reasons, d.refuse, d.orders)
	}
}

// A request whose deadline no load can keep is told so at once, as cold.
func TestColdRequestThatNoLoadSaves(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 0, 1)
	d.serveIn(0, 10*mono.Second)
	now := mono.Now()
	e.Submit(0, &batching.Request{ID: 1, Arrival: now, Deadline: now.Add(2 * mono.Second)})
	d.quiet(t)
	e.Stop()
	d.checkOnce(t, 1)
	if d.reasons[wire.ReasonCold] != 1 {
		t.Fatalf("served %d, dropped %v, want one cold", d.served, d.reasons)
	}
}

// A scheduler that takes over counts on what its backends still hold: nothing is loaded again, and the loads that
// follow have generations beyond those.
func TestTakeoverStartsFromWhatIsHeld(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 5, 0)
	d.add(0, residency.Weights{Model: 3, Generation: 40}, residency.Weights{Model: 1, Generation: 7})
	e.Hasten() // else all would start at the last moment, at once
	now := mono.Now()
	for i, m := range []wire.ModelID{1, 3, 1, 3} {
		e.Submit(m, &batching.Request{ID: wire.RequestID(i + 1), Model: m, Arrival: now, Deadline: now.Add(2 * mono.Second)})
	}
	d.quiet(t)
	if len(d.orders) > 0 {
		t.Errorf("%+v was ordered of a GPU that holds what is asked for", d.orders)
	}
	now = mono.Now()
	e.Submit(2, &batching.Request{ID: 5, Model: 2, Arrival: now, Deadline: now.Add(2 * mono.Second)})
	d.quiet(t)
	e.Stop()
	d.checkOnce(t, 5)
	d.checkMemory(t, 5)
	if len(d.orders) != 1 || d.orders[0].Generation <= 40 {
		t.Errorf("orders %+v, want one load of a generation beyond 40", d.orders)
	}
	if d.served != 5 {
		t.Errorf("served %d of 5, dropped %v, refused %v", d.served, d.reasons, d.refuse)
	}
}

// What a GPU is said to hold and is not served, or does not fit, is ordered to go.
func TestHeldThatIsNotServedGoes(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 2, 0)
	d.add(0, residency.Weights{Model: 9, Generation: 4}, residency.Weights{Model: 1, Generation: 5})
	d.quiet(t)
	e.Stop()
	d.checkMemory(t, 10)
	if len(d.orders) != 1 || d.orders[0].ID != 0 || d.orders[0].Model != 9 || d.orders[0].Generation != 4 {
		t.Errorf("orders %+v, want model 9 of generation 4 unloaded", d.orders)
	}
}

// A device that comes from another engine during a load reports that one here: it ends no load of this engine, whose numbers,
// generations and models may be the same, and its weights are ordered away.
func TestReportOfAnotherEnginesLoad(t *testing.T) {
	w := newPagedWorld(1)
	a, b := w.sides[0], w.sides[1]
	g := w.gpus[2]
	orders := func(side *worldSide, model wire.ModelID) worldLoad {
		t.Helper()
		w.next++
		side.e.Submit(model, &batching.Request{ID: w.next, Model: model, Arrival: w.now, Deadline: w.now.Add(200 * mono.Millisecond)})
		w.turn()
		if n := len(g.loads); n == 0 || g.loads[n-1].Model != model {
			t.Fatalf("%+v is under way, want a load of model %d", g.loads, model)
		}
		return g.loads[len(g.loads)-1]
	}
	for i, side := range w.sides { // they have no other device
		if other := w.gpus[i]; other.side != nil {
			side.e.RemoveGPU(other.life)
			other.side = nil
		}
	}
	w.seat(2, a)
	first := orders(a, 3)
	a.e.RemoveGPU(g.life)
	w.seat(2, b)
	second := orders(b, 4)
	if first.ID == second.ID {
		t.Errorf("both engines have load %d", first.ID)
	}
	r := LoadReport{residency.Report{ID: first.ID, Start: w.now, End: w.now, OK: true}, g.life, first.Model, first.Generation}
	forged := r
	forged.ID = second.ID
	g.missing[first.Generation] = true // this test reports what the device has not
	for _, report := range []LoadReport{r, forged} {
		unloads := w.unloads
		b.e.Loaded(report)
		w.turn()
		if h, ok := b.e.rank.paging.match.Residency().Held(4, g.life.ID); !ok || !h.Loading {
			t.Fatalf("after the report of another's load the own one is %+v (%v), want it under way", h, ok)
		}
		if w.unloads != unloads+1 {
			t.Errorf("%d orders to unload what came, want one", w.unloads-unloads)
		}
	}
	w.finish()
	if w.err != nil {
		t.Error(w.err)
	}
}

// GPUs lose all that is loading: the requests wait for another one.
func TestGPULostWhileItLoads(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 4, 2)
	e.Hasten() // else all would start at the last moment, at once
	now := mono.Now()
	for m := range wire.ModelID(4) {
		e.Submit(m, &batching.Request{ID: wire.RequestID(m + 1), Model: m, Arrival: now, Deadline: now.Add(2 * mono.Second)})
	}
	for { // until one loads there
		d.mu.Lock()
		i := slices.IndexFunc(d.orders, func(o LoadOrder) bool { return o.GPU == 0 })
		d.mu.Unlock()
		if i >= 0 {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	d.kill(0)
	d.quiet(t)
	e.Stop()
	d.checkOnce(t, 4)
	d.checkMemory(t, 4)
	if d.served != 4 {
		t.Errorf("served %d of 4, dropped %v, refused %v, orders %+v", d.served, d.reasons, d.refuse, d.orders)
	}
}

// Weights that a device has lost are loaded again, once it has said so.
func TestWeightsThatAreMissingAreLoadedAgain(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 1, 0)
	d.add(0, residency.Weights{Model: 0, Generation: 3})
	d.mu.Lock()
	delete(d.memory[0].held, 0)
	d.memory[0].free += modelPages
	d.mu.Unlock()
	e.Hasten() // else it would be told at the last moment
	now := mono.Now()
	e.Submit(0, &batching.Request{ID: 1, Arrival: now, Deadline: now.Add(2 * mono.Second)})
	d.quiet(t)
	e.Stop()
	d.checkOnce(t, 1)
	d.checkMemory(t, 1)
	if d.served != 1 || d.refuse[wire.ReasonCold] != 1 || len(d.orders) != 2 {
		t.Errorf("served %d, dropped %v, refused %v, orders %+v; want one refusal, an order to forget, one load, and the request served", d.served, d.reasons, d.refuse, d.orders)
	}
}

// What is of one kind of engine is not taken by the other.
func TestKindsOfEngines(t *testing.T) {
	d := newPagers(t, 1, 0)
	e := startPaged(t, Config{}, d, 0, 0)
	defer e.Stop()
	if err := e.AddModel(0, batching.Config{Profile: line(t, 1, 1), SLO: mono.Second, QueueMax: 1}); err == nil {
		t.Error("a paged engine takes a model without pages")
	}
	if _, err := e.AddGPU(0, mono.Now()); err == nil {
		t.Error("a paged engine takes a GPU without pages")
	}
	if _, err := e.AddPagedGPU(0, mono.Now(), 0, nil); err == nil {
		t.Error("a paged engine takes a GPU with no pages")
	}
	if err := e.AddPagedModel(0, batching.Config{Profile: line(t, 1, 1), SLO: mono.Second, QueueMax: 1}, residency.Model{Pages: 1}); err == nil {
		t.Error("a paged engine takes a model that loads in no time")
	}
	other, err := New(Config{}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	if err := other.AddPagedModel(0, batching.Config{Profile: line(t, 1, 1), SLO: mono.Second, QueueMax: 1}, residency.Model{Pages: 1, LoadTime: 1}); err == nil {
		t.Error("a resident engine takes a model with pages")
	}
	if _, err := New(Config{Paged: e.cfg.Paged}, &lastBatch{}); err == nil {
		t.Error("a paged engine takes a sink that cannot load")
	}
}
