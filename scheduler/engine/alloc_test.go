package engine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lastBatch is a Sink that remembers what was dispatched last.
type lastBatch struct {
	batch, until atomic.Int64
	drops        atomic.Int64
}

func (s *lastBatch) Drop(int, *batching.Drop)         { s.drops.Add(1) }
func (s *lastBatch) Flush(int)                        {}
func (s *lastBatch) Completed(int, *shard.Run, *Done) {}
func (s *lastBatch) Dispatch(_ int, d *shard.Dispatch) {
	s.until.Store(int64(d.Until))
	s.batch.Store(int64(d.Batch))
}

// From Submit through both loops to Dispatch and back by Done: nothing is
// allocated per request.
func TestSubmitToDispatchAllocatesNothing(t *testing.T) {
	for name, cfg := range map[string]Config{"apart": {}, "tuned": {TunerShare: 0.02}, "joined": {Placement: Placement{Joined: true}}} {
		t.Run(name, func(t *testing.T) { submitToDispatchAllocatesNothing(t, cfg, 0) })
	}
	// Nobody reads: the ring fills, and from then on events are missed. Neither may allocate.
	t.Run("watched", func(t *testing.T) { submitToDispatchAllocatesNothing(t, Config{}, 1<<20) })
	t.Run("riding", func(t *testing.T) {
		ts := NewThreads(Placement{Joined: true, ThreadsMax: 1})
		owner, _ := start(t, Config{Threads: ts}, newDevices(1, 0), 1, 1)
		defer owner.Stop()
		submitToDispatchAllocatesNothing(t, Config{Threads: ts, FirstLoop: 1}, 0)
	})
}

func submitToDispatchAllocatesNothing(t *testing.T, cfg Config, watched int) {
	sink := &lastBatch{}
	cfg.GPUsMax, cfg.RequestsMax = 16, 256
	cfg.Margin = margin
	e, err := New(cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	e.Watch(watched)
	e.Start()
	defer e.Stop()
	p, err := profile.Linear(1, 1, 1) // batches of one are full: they start at once
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AddModel(0, batching.Config{Profile: p, SLO: mono.Second, QueueMax: 16}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.AddGPU(0, mono.Now()); err != nil {
		t.Fatal(err)
	}
	request := func(id int) {
		before := sink.batch.Load()
		now := mono.Now()
		if !e.Submit(0, &batching.Request{ID: wire.RequestID(id), Arrival: now, Deadline: now.Add(mono.Second)}) {
			t.Fatal("refused")
		}
		for begin := time.Now(); sink.batch.Load() == before; runtime.Gosched() {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("request %d was not dispatched; %d drops", id, sink.drops.Load())
			}
		}
		end := mono.Now()
		e.Done(Done{Batch: wire.BatchID(sink.batch.Load()), Start: end - 1, End: end, Ran: 1})
	}
	warm := 300
	if cfg.TunerShare > 0 {
		warm = 2000 // its lists grow
	}
	for i := range warm {
		request(i)
	}
	// Once is enough: on a busy machine the tuner's thread comes late, and its lists grow later.
	const n, rounds = 2000, 5
	perRequest := 0.0
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range n {
			request(i)
		}
		runtime.ReadMemStats(&after)
		if perRequest = float64(after.Mallocs-before.Mallocs) / n; perRequest <= 0.05 { // the runtime's own goes in
			return
		}
	}
	t.Errorf("%.2f allocations a request, want 0", perRequest)
}
