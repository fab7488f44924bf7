package engine

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// sleepy is devices whose loop stands still for a moment now and then: in Flush,
// which the loop's own thread calls.
type sleepy struct {
	*devices
	next time.Time
}

func (s *sleepy) Flush(int) {
	if now := time.Now(); now.After(s.next) {
		s.next = now.Add(200 * time.Millisecond)
		time.Sleep(8 * time.Millisecond)
	}
}

// A loop that stands still again and again plans with it, of its own accord and
// whatever delay is set; its log replays.
func TestLatenessIsPlannedWith(t *testing.T) {
	cfg := Config{Margin: margin, Record: NewRecording(), GPUsMax: 64, RequestsMax: 1 << 12}
	d := &sleepy{devices: newDevices(3, 0)}
	e, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.Start()
	fill(t, e, 3, 8)
	accepted := offer(e, 3, 500, 2500*time.Millisecond)
	e.SetDelay(batching.Delay{Ctrl: 50 * mono.Microsecond})
	time.Sleep(150 * time.Millisecond)
	d.wait()
	reckoned := e.Stats().Models[0].Reckoned
	e.Stop()
	if reckoned < 4*mono.Millisecond {
		t.Errorf("plans with %v, and stood still for 8 ms every 200 ms", reckoned)
	}
	d.checkOnce(t, accepted)
	told := false
	for log, i := &cfg.Record.models[0].inputs, 0; i < log.len(); i++ {
		in := &log.at(i).in
		told = told || in.op == opSetDelay && in.delay.Ctrl > 0 && in.delay.Late >= 4*mono.Millisecond
	}
	if !told {
		t.Error("a delay that was set made the loop forget what it measured")
	}
	if _, _, err := cfg.Record.Replay(cfg); err != nil {
		t.Error(err)
	}
}
