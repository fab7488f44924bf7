package engine

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Best effort beside requests with deadlines, on loops of several threads: each is answered once, a GPU that is lost
// brings its requests back, draining refuses what waits, and the run replays.
func TestBestEffort(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, cfg := range map[string]Config{"1 loop": {}, "3 loops": {ModelLoops: 3}} {
		t.Run(name, func(t *testing.T) {
			cfg.Record, cfg.GPUsMax, cfg.RequestsMax = NewRecording(), 64, 1<<12
			d := newDevices(3, 0)
			e, _ := start(t, cfg, d, 0, 2)
			for m := range wire.ModelID(4) {
				if err := e.AddModel(m, batching.Config{Profile: line(t, 1, 2), SLO: 60 * mono.Millisecond, QueueMax: 300}); err != nil {
					t.Fatal(err)
				}
			}
			next := wire.RequestID(0)
			submit := func(model wire.ModelID, class wire.Class) {
				next++
				now := mono.Now()
				r := batching.Request{ID: next, Arrival: now, Deadline: now.Add(60 * mono.Millisecond), Class: class}
				if class == wire.ClassBestEffort {
					r.Deadline = now.Add(3600 * mono.Second)
				}
				if !e.Submit(model, &r) {
					t.Fatal("refused")
				}
			}
			for i := range 100 {
				submit(wire.ModelID(i%2), wire.ClassLatency)
				for k := range 3 {
					submit(wire.ModelID(1+(i+k)%3), wire.ClassBestEffort)
				}
				time.Sleep(time.Millisecond)
			}
			waitFor(t, "an answer to each", func() bool { return d.answered() == int(next) })
			before := d.served
			for range 200 { // more than runs before the drain begins
				submit(3, wire.ClassBestEffort)
			}
			e.Hasten()
			submit(3, wire.ClassBestEffort)
			waitFor(t, "an answer to each when draining", func() bool { return d.answered() == int(next) })
			d.wait()
			e.Stop()
			d.checkOnce(t, int(next))
			if n := d.reasons[wire.ReasonDraining]; n == 0 || before < 250 {
				t.Errorf("%d served before, %d refused for draining: %v", before, n, d.reasons)
			}
			grants, batches, err := cfg.Record.Replay(cfg)
			if err != nil || batches <= grants {
				t.Errorf("%d grants and %d batches are equal: %v; want more batches", grants, batches, err)
			}
		})
	}
}

// answered is how many requests have an answer.
func (d *devices) answered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.answers)
}
