package engine

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// slow is devices whose Sink stands still with a batch until its gate is closed.
type slow struct {
	*devices
	gate, stood chan struct{}
}

func (s *slow) Dispatch(loop int, d *shard.Dispatch) {
	select {
	case s.stood <- struct{}{}:
	default:
	}
	<-s.gate
	s.devices.Dispatch(loop, d)
}

// A fence is passed when the loop has carried out the end of the model, and not before: by
// HandOver, by RemoveModel, and where the engine stops.
func TestFence(t *testing.T) {
	for what, end := range map[string]func(e, to *Engine){
		"handed over": func(e, to *Engine) {
			if err := e.HandOver(0, to); err != nil {
				t.Error(err)
			}
		},
		"removed": func(e, _ *Engine) { e.RemoveModel(0, wire.ReasonUnavailable) },
	} {
		t.Run(what, func(t *testing.T) {
			d := newDevices(1, 0.2)
			k := &slow{d, make(chan struct{}), make(chan struct{}, 1)}
			d2 := newDevices(2, 0.2)
			to, _ := start(t, Config{ModelLoops: 1, GPUsMax: 4}, d2, 0, 1)
			defer to.Stop()
			e, err := New(Config{ModelLoops: 1, GPUsMax: 4, FirstLoop: 1}, k)
			if err != nil {
				t.Fatal(err)
			}
			d.engine = e
			e.Start()
			defer e.Stop()
			if !e.Fence(0).Passed() {
				t.Error("the fence of a model that never ended is not passed")
			}
			for _, x := range []*Engine{e, to} {
				if err := x.AddModel(0, batching.Config{Profile: line(t, 1, 4), SLO: 60 * mono.Millisecond, QueueMax: 64}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := e.AddGPU(0, mono.Now()); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "a batch", func() bool { // a busy machine loses some requests
				e.Submit(0, request(1, mono.Second))
				select {
				case <-k.stood:
					return true
				default:
					return false
				}
			})
			end(e, to)
			f := e.Fence(0)
			time.Sleep(20 * time.Millisecond)
			if f.Passed() {
				t.Error("it is passed while the loop stands still")
			}
			close(k.gate)
			waitFor(t, "the fence", f.Passed)
		})
	}
}
