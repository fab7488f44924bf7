package engine

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// overrunning devices take longer than was planned.
type overrunning struct{ *devices }

func (d overrunning) Dispatch(loop int, b *shard.Dispatch) {
	batch, gpu, now := b.Batch, b.GPU, mono.Now()
	ids := make([]wire.RequestID, len(b.Requests))
	for i, r := range b.Requests {
		ids[i] = r.ID
	}
	end := max(now, b.Until).Add(8 * mono.Millisecond)
	d.mu.Lock()
	d.running++
	d.mu.Unlock()
	time.AfterFunc(end.Sub(now).Std(), func() {
		d.finish(batch, gpu, ids, end)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running--
	})
}

// How much later than planned batches end is of their profile: with another one it is learnt again, with the same one
// it stays. The log replays.
func TestMarginIsOfAProfile(t *testing.T) {
	cfg := Config{Margin: margin, Record: NewRecording(), GPUsMax: 64, RequestsMax: 1 << 12, Placement: Placement{Joined: true}}
	d := overrunning{newDevices(3, 0)}
	e, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.Start()
	fill(t, e, 1, 8)
	accepted := offer(e, 1, 300, 1500*time.Millisecond)
	d.wait()
	same := batching.Config{Profile: line(t, 1, 4), SLO: 70 * mono.Millisecond, QueueMax: 1 << 14}
	e.SetModel(0, same)
	same.Profile = line(t, 1, 12)
	e.SetModel(0, same)
	e.Stop()
	d.checkOnce(t, accepted)
	var learnt mono.Dur
	sets, after := 0, []mono.Dur{}
	for log, i := &cfg.Record.models[0].inputs, 0; i < log.len(); i++ {
		switch in := &log.at(i).in; {
		case in.op == opSetModel:
			sets++
		case in.op == opSetMargin && sets == 0:
			learnt = in.margin
		case in.op == opSetMargin:
			after = append(after, in.margin)
		}
	}
	if learnt < 5*mono.Millisecond {
		t.Errorf("a margin of %v was learnt, and batches end 8 ms late", learnt)
	}
	if sets != 2 || len(after) != 1 || after[0] != margin {
		t.Errorf("after %d changes, one of them of the profile, the margin was set to %v; want %v, once", sets, after, margin)
	}
	if _, _, err := cfg.Record.Replay(cfg); err != nil {
		t.Error(err)
	}
}
