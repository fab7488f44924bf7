package engine

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Requests that wait for a deadline an hour away run when the deferral ends, and so do
// later ones, on any GPU and of models that come or change later; and the run replays.
func TestHastenRunsWhatWaits(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, cfg := range map[string]Config{"1 loop": {}, "no headroom, 3 loops": {ModelLoops: 3, Headroom: rank.Headroom{Limited: true}}} {
		t.Run(name, func(t *testing.T) {
			cfg.Record, cfg.GPUsMax, cfg.RequestsMax = NewRecording(), 64, 1<<12
			d := newDevices(3, 0)
			e, _ := start(t, cfg, d, 0, 2)
			add := func(id wire.ModelID) {
				if err := e.AddModel(id, batching.Config{Profile: line(t, 1, 4), SLO: 3600 * mono.Second, QueueMax: 100}); err != nil {
					t.Fatal(err)
				}
			}
			submit := func(id wire.RequestID, model wire.ModelID) {
				now := mono.Now()
				if !e.Submit(model, &batching.Request{ID: id, Arrival: now, Deadline: now.Add(3600 * mono.Second)}) {
					t.Fatal("refused")
				}
			}
			answered := func(want int) bool {
				d.mu.Lock()
				defer d.mu.Unlock()
				return d.served == want
			}
			await := func(what string, want int) {
				t.Helper()
				for end := time.Now().Add(20 * time.Second); !answered(want); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%s: not within 20 s", what)
					}
				}
			}
			for m := range wire.ModelID(3) {
				add(m)
				submit(wire.RequestID(m+1), m)
			}
			time.Sleep(50 * time.Millisecond)
			if !answered(0) {
				t.Fatal("requests were not deferred")
			}
			e.Hasten()
			await("what waited", 3)
			submit(4, 1)
			await("what came later", 4)
			add(3)
			add(0) // again, with a new configuration
			submit(5, 3)
			submit(6, 0)
			await("later models", 6)
			e.SetModel(1, batching.Config{Profile: line(t, 1, 5), SLO: 3600 * mono.Second, QueueMax: 100})
			submit(7, 1)
			await("a model that has changed", 7)
			d.wait()
			e.Stop()
			if _, batches, err := cfg.Record.Replay(cfg); err != nil || batches < 4 {
				t.Errorf("replay of %d batches: %v", batches, err)
			}
		})
	}
}
