package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Thousands of models come at once, and go, while the rank loop does not get a turn: model loops never wait for room in its
// ring. Where they share its thread they would wait for ever.
func TestModelLoopsNeverWaitForTheRank(t *testing.T) {
	for _, c := range []struct{ loops, models int }{{1, 300}, {2, 620}, {8, 300}} {
		t.Run(fmt.Sprintf("%d loops, %d models", c.loops, c.models), func(t *testing.T) { neverWaits(t, c.loops, c.models) })
	}
}

func neverWaits(t *testing.T, loops, models int) {
	d := newPagers(t, 1, 0)
	e, err := New(Config{ModelLoops: loops, GPUsMax: 8, Paged: &paged.Config{}}, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.started = true // this test turns the loops
	var did atomic.Int64
	go func() {
		for id := range wire.ModelID(models) {
			d.serve(id)
			did.Add(1)
			now := mono.Now()
			e.Submit(id, &batching.Request{ID: wire.RequestID(id + 1), Model: id, Arrival: now, Deadline: now.Add(100 * mono.Second)}) // its mail
		}
		for id := range wire.ModelID(models) {
			e.RemoveModel(id, wire.ReasonUnavailable)
			did.Add(1)
		}
	}()
	var stuck atomic.Pointer[string]
	watch := func(what string, until time.Duration, f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { f(); close(done) }()
		select {
		case <-done:
		case <-time.After(until):
			stuck.Store(&what)
			e.rank.stop.Store(true) // lets who waits go
			<-done
			t.Fatalf("%s after %d changes: the rank's ring has %d of %d", what, did.Load(), e.rank.events.Len(), e.rank.events.Cap())
		}
	}
	for did.Load() < 2*int64(models) {
		for last := int64(-1); last != did.Load(); time.Sleep(time.Millisecond) { // until who orders waits
			last = did.Load()
		}
		watch("a model loop waits for room in the rank's ring", 20*time.Second, func() {
			for _, l := range e.loops {
				for now := mono.Now(); l.turn(now); {
				}
			}
		})
		e.rank.turn(mono.Now())
	}
	if n := e.changing.Load(); n > changesMax {
		t.Errorf("%d changes are under way, at most %d", n, changesMax)
	}
	for range 2 {
		for _, l := range e.loops {
			for now := mono.Now(); l.turn(now); {
			}
		}
		for now := mono.Now(); e.rank.turn(now); {
		}
	}
	if n := e.changing.Load(); n != 0 {
		t.Errorf("%d changes are left", n)
	}
}

// The same where all loops of two engines share one thread: all are served afterwards.
func TestThousandsOfModelsOnOneThread(t *testing.T) {
	models := 2100
	if invariants.Enabled { // each beginning is told to all models
		models = 700
	}
	threads := NewThreads(Placement{Joined: true, ThreadsMax: 1})
	d, other := newPagers(t, 1, 0), newPagers(t, 2, 0)
	first := startPaged(t, Config{Threads: threads, ModelLoops: 1}, other, 1, 1)
	defer first.Stop()
	e, err := New(Config{Threads: threads, ModelLoops: 2, FirstLoop: 1, GPUsMax: 8, Margin: margin, Paged: &paged.Config{}}, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.Start()
	defer e.Stop()
	p := line(t, 0.5, 2)
	for round := range 2 {
		for id := range wire.ModelID(models / (1 + 9*round)) {
			if err := e.AddPagedModel(id, batching.Config{Profile: p, SLO: mono.Second, QueueMax: 64}, residency.Model{Pages: modelPages, LoadTime: loadTime}); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			for id := range wire.ModelID(models / 10) {
				e.RemoveModel(id, wire.ReasonUnavailable)
			}
		}
	}
	d.add(0)
	e.Hasten()
	now := mono.Now()
	for i, m := range []wire.ModelID{0, wire.ModelID(models / 2), wire.ModelID(models - 1)} {
		e.Submit(m, &batching.Request{ID: wire.RequestID(i + 1), Model: m, Arrival: now, Deadline: now.Add(5 * mono.Second)})
	}
	d.quiet(t)
	d.checkOnce(t, 3)
	if d.served != 3 {
		t.Errorf("served %d of 3, dropped %v, refused %v", d.served, d.reasons, d.refuse)
	}
}
