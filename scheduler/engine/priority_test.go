package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// mixing are devices that look at the priorities within each batch.
type mixing struct {
	*devices
	mixed int // batches with two priorities for one deadline. Owned by the model loop.
}

func (o *mixing) Dispatch(loop int, b *shard.Dispatch) {
	for i := 1; i < len(b.Requests); i++ {
		if p, q := &b.Requests[i-1], &b.Requests[i]; p.Deadline == q.Deadline && p.Priority != q.Priority {
			o.mixed++
			break
		}
	}
	o.devices.Dispatch(loop, b)
}

// A live run with priorities and shared deadlines: its log replays on bare cores to the same batches, and with
// other priorities it does not.
func TestPriorities(t *testing.T) {
	cfg := Config{Record: NewRecording(), GPUsMax: 8, Margin: margin}
	o := &mixing{devices: newDevices(5, 0.2)}
	e, err := New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	o.engine = e
	e.Start()
	fill(t, e, 1, 2)
	r := rand.New(rand.NewPCG(7, 7))
	accepted := 0
	for range 100 {
		deadline := mono.Now().Add(80 * mono.Millisecond)
		for range 12 {
			accepted++
			q := batching.Request{ID: wire.RequestID(accepted), Arrival: mono.Now(), Deadline: deadline, Priority: wire.Priority(r.IntN(256))}
			for !e.Submit(0, &q) {
				time.Sleep(100 * time.Microsecond)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	waitFor(t, "an answer to each", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.answers) == accepted
	})
	e.Stop()
	o.checkOnce(t, accepted)
	if o.mixed == 0 {
		t.Error("no batch has two priorities")
	}
	if _, batches, err := cfg.Record.Replay(cfg); err != nil || batches == 0 {
		t.Errorf("%d batches are equal: %v", batches, err)
	}
	for log, i := &cfg.Record.models[0].submissions, 0; i < log.len(); i++ {
		log.at(i).Request.Priority = 0
	}
	if _, _, err := cfg.Record.Replay(cfg); err == nil {
		t.Error("other priorities gave the same batches")
	}
}
