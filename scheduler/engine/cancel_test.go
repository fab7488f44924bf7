package engine

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Of requests that wait, those that are cancelled get no batch, each has one answer, and the log replays.
// A Cancel right behind its Submit finds it.
func TestCancel(t *testing.T) {
	d := newDevices(3, 0)
	cfg := Config{Record: NewRecording(), Outstanding: 1}
	e, _ := start(t, cfg, d, 1, 1)
	const requests = 2000
	for id := 1; id <= requests; id++ {
		r := request(id, 2*mono.Second)
		if !e.Submit(0, r) {
			t.Fatalf("request %d was refused", id)
		}
		if id%2 == 0 {
			e.Cancel(0, &batching.Request{ID: r.ID, Deadline: r.Deadline})
		}
	}
	e.Cancel(0, &batching.Request{ID: requests + 1, Deadline: mono.Now()}) // never was there
	waitFor(t, "an answer to each", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.answers) == requests
	})
	e.Stop()
	checkOnceAmong(t, requests, d)
	d.mu.Lock()
	cancelled := d.reasons[wire.ReasonCancelled]
	d.mu.Unlock()
	// Some may have been in a batch before they were cancelled: of one GPU a few batches at most.
	if cancelled < requests/4 || cancelled > requests/2 {
		t.Errorf("%d of %d requests left as cancelled, %d were to", cancelled, requests, requests/2)
	}
	if _, _, err := cfg.Record.Replay(cfg); err != nil {
		t.Error(err)
	}
}
