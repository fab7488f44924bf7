package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// quick is a Sink whose GPUs are as fast as they are asked: a batch ends when
// the submitter next looks.
type quick struct {
	mu      sync.Mutex
	runs    []Done // guarded by mu
	spare   []Done // the submitter's
	settled atomic.Int64
}

func (q *quick) Drop(int, *batching.Drop)         { q.settled.Add(1) }
func (q *quick) Flush(int)                        {}
func (q *quick) Completed(int, *shard.Run, *Done) {}
func (q *quick) Dispatch(_ int, d *shard.Dispatch) {
	q.mu.Lock()
	q.runs = append(q.runs, Done{Batch: d.Batch, Start: d.Exec, Ran: len(d.Requests)})
	q.mu.Unlock()
	q.settled.Add(int64(len(d.Requests)))
}

// end reports the batches that were sent since the last look.
func (q *quick) end(e *Engine) {
	q.mu.Lock()
	q.runs, q.spare = q.spare[:0], q.runs
	q.mu.Unlock()
	now := mono.Now()
	for i := range q.spare {
		q.spare[i].End = now
		e.Done(q.spare[i])
	}
}

// BenchmarkEngine is a request's whole way through the live engine, in a closed
// loop with 4,096 open: ring, candidate, mailbox, rank, grant, batch, report.
func BenchmarkEngine(b *testing.B) { benchmarkEngine(b, false) }

// BenchmarkEngineWatched is the same while somebody looks: what it is told is read each 100 ms.
func BenchmarkEngineWatched(b *testing.B) { benchmarkEngine(b, true) }

func benchmarkEngine(b *testing.B, watched bool) {
	const models, gpus, open = 20, 64, 4096
	sink := &quick{}
	e, err := New(Config{Margin: margin, GPUsMax: gpus, RequestsMax: 4 * open}, sink)
	if err != nil {
		b.Fatal(err)
	}
	e.Start()
	defer e.Stop()
	if watched {
		e.Watch(1 << 20)
		stop, ended := make(chan struct{}), make(chan struct{})
		defer func() { close(stop); <-ended }()
		go readWatched(e, stop, ended)
	}
	p, err := profile.Linear(mono.Microsecond, 10*mono.Microsecond, 32)
	if err != nil {
		b.Fatal(err)
	}
	for m := range models {
		if err := e.AddModel(wire.ModelID(m), batching.Config{Profile: p, SLO: 20 * mono.Millisecond, QueueMax: open}); err != nil {
			b.Fatal(err)
		}
	}
	for g := range gpus {
		if _, err := e.AddGPU(wire.GPUID(g), mono.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	sent := int64(0)
	for range b.N {
		for sent-sink.settled.Load() >= open {
			sink.end(e)
			runtime.Gosched()
		}
		now := mono.Now()
		for !e.Submit(wire.ModelID(sent%models), &batching.Request{ID: wire.RequestID(sent + 1), Arrival: now, Deadline: now.Add(20 * mono.Millisecond)}) {
			sink.end(e)
		}
		if sent++; sent%64 == 0 {
			sink.end(e)
		}
	}
	for sink.settled.Load() < sent {
		sink.end(e)
		runtime.Gosched()
	}
}

// readWatched reads as who watches does.
func readWatched(e *Engine, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	var told watch.Told
	for t := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-stop:
			t.Stop()
			return
		case <-t.C:
			told.Reset()
			e.Watched(0, 1<<10, &told)
		}
	}
}
