package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lateParts are GPUs whose batches end late, and say that they ran in parts, or not.
type lateParts struct {
	*devices
	parts   bool
	reports atomic.Int64
}

func (s *lateParts) Dispatch(_ int, b *shard.Dispatch) {
	d := Done{Batch: b.Batch, Start: b.Exec, End: b.Until.Add(4 * mono.Millisecond), Ran: len(b.Requests), Parts: s.parts}
	time.AfterFunc(d.End.Sub(mono.Now()).Std(), func() {
		s.engine.Done(d)
		s.reports.Add(1)
	})
}

// A batch that ran in parts says nothing of how long batches take: no margin is learnt from how late it ends.
func TestPartsTeachNoOverrun(t *testing.T) {
	for _, parts := range []bool{false, true} {
		cfg := Config{Margin: margin, Record: NewRecording(), GPUsMax: 64, RequestsMax: 1 << 12}
		s := &lateParts{devices: newDevices(2, 0), parts: parts}
		e, err := New(cfg, s)
		if err != nil {
			t.Fatal(err)
		}
		s.engine = e
		e.Start()
		fill(t, e, 1, 8)
		offer(e, 1, 600, 1500*time.Millisecond)
		e.SetDelay(batching.Delay{Ctrl: 50 * mono.Microsecond})
		for limit := time.Now().Add(30 * time.Second); s.reports.Load() < 20; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("in parts: %v; %d batches were reported in 30 s, want 20", parts, s.reports.Load())
			}
		}
		e.Stop() // after it no report counts
		most := mono.Dur(0)
		for log, i := &cfg.Record.models[0].inputs, 0; i < log.len(); i++ {
			if in := &log.at(i).in; in.op == opSetMargin && in.model == wire.ModelID(0) {
				most = max(most, in.margin)
			}
		}
		if learnt := most > margin; learnt == parts {
			t.Errorf("in parts: %v; a margin of %v was learnt", parts, most)
		}
	}
}
