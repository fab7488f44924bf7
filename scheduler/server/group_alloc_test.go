package server

import (
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// still is a link that nothing is sent over.
type still struct{ transport.Link }

func (still) Shift() mono.Dur   { return 0 }
func (still) Send([]byte) error { return nil }

// A request takes no memory on its way to the engine: of a group, too, and beside batches that run for the
// leader before.
func TestSubmitTakesNoMemory(t *testing.T) {
	s := newScene(t, 1, 1, 1, single("m", mono.Millisecond))
	server := s.settled().current.Load()
	mine := &frontend{server: server, id: 999, instance: 99}
	mine.admitted.Store(true)
	now := mono.Now()
	body := (&wire.Submit{Request: 1, Model: s.front.known[0]["m"], Arrival: now, Deadline: now.Add(mono.Millisecond)}).Append(nil)[wire.HeaderSize:]
	submit := func() { mine.onSubmit(still{}, body) }
	for range 2000 { // what waits at once has its place by then
		submit()
	}
	if n := testing.AllocsPerRun(200, submit); n >= 1 {
		t.Errorf("%v allocations a request", n)
	}
	server.held.runs(now, 7, &wire.Running{Epoch: 1, Batch: 2, Until: now.Add(30 * mono.Second), Items: []wire.RunningItem{{Instance: 98, Request: 1}}}, func([]heldSubmit) {})
	if n := testing.AllocsPerRun(200, submit); n >= 1 {
		t.Errorf("%v allocations a request, while others run for the leader before", n)
	}
}
