package engine

import (
	"errors"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An engine takes what its models and GPUs take, not what it could hold: a scheduler has up to 256.
func TestIdleEngineIsSmall(t *testing.T) {
	defer goleak.VerifyNone(t)
	const engines, models = 32, 16
	for name, cfg := range map[string]Config{"plain": {}, "tuned": {TunerShare: 0.02}} {
		before := heap()
		var es []*Engine
		for i := range engines {
			cfg.FirstLoop, cfg.Placement = i, Placement{Joined: true}
			e, _ := start(t, cfg, newDevices(1, 0), 0, 8)
			for m := range models {
				id := wire.ModelID(m*engines+i) * 31 // as a cluster's models are spread
				if err := e.AddModel(id, batching.Config{Profile: line(t, 1, 4), SLO: 60 * mono.Millisecond, QueueMax: 1 << 14}); err != nil {
					t.Fatal(err)
				}
			}
			es = append(es, e)
		}
		each := (heap() - before) / engines
		for _, e := range es {
			e.Stop()
		}
		t.Logf("%s: %d KB for each idle engine of %d models and 8 GPUs", name, each>>10, models)
		if each > 1<<20 {
			t.Errorf("%s: an idle engine takes %d KB", name, each>>10)
		}
	}
}

// Ids are the cluster's; what counts is how many models there are.
func TestModelLimits(t *testing.T) {
	d := newDevices(1, 0)
	e, _ := start(t, Config{ModelLoops: 3}, d, 0, 2)
	defer e.Stop()
	cfg := batching.Config{Profile: line(t, 1, 4), SLO: 60 * mono.Millisecond, QueueMax: 4}
	for n := range ModelsMax {
		if err := e.AddModel(wire.ModelID(ModelIDsMax-1-3*n), cfg); err != nil {
			t.Fatalf("model %d: %v", n, err)
		}
	}
	for _, id := range []wire.ModelID{0, ModelIDsMax} {
		if err := e.AddModel(id, cfg); !errors.Is(err, ErrLimit) {
			t.Errorf("model %d: %v, want the limit", id, err)
		}
	}
	e.RemoveModel(ModelIDsMax-1, wire.ReasonUnknownModel)
	if err := e.AddModel(0, cfg); err != nil {
		t.Errorf("a model in the place of another: %v", err)
	}
	for i, id := range []wire.ModelID{0, ModelIDsMax - 4, 1} { // seconds: each of these models was told of each of them
		if !e.Submit(id, request(i+1, mono.Second)) {
			t.Fatal("refused")
		}
	}
	waitFor(t, "two of models that are there, and one of a model that is not, answered", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.served+d.reasons[wire.ReasonDeadline] == 2 && d.reasons[wire.ReasonUnknownModel] == 1
	})
}
