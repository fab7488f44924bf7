package frontend

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What was reserved for a model goes out under its id only while that is its id, whatever the
// changes between: never as a request for another model, nor for one with other tensors.
func TestReservedForAnIDThatIsAnothers(t *testing.T) {
	entry := func(id wire.ModelID, name string, elements int64) catalog.Served {
		return catalog.Served{ID: id, DeviceType: "e", Spec: catalog.ModelSpec{Name: name, Version: "1", SLO: 10e9, Inputs: vector(elements), Outputs: vector(1)}}
	}
	gpus := []catalog.PoolState{{DeviceType: "e", GPUs: 1}}
	slower := entry(1, "echo", 4)
	slower.Spec.SLO *= 2
	for _, c := range []struct {
		what  string
		steps []catalog.Changes
		again bool // the same scheduler admits the frontend once more
		sent  bool
	}{
		{what: "nothing", sent: true},
		{what: "another model comes", steps: []catalog.Changes{{Models: []catalog.Served{entry(2, "other", 4)}}}, sent: true},
		{what: "another SLO", steps: []catalog.Changes{{Models: []catalog.Served{slower}}}, sent: true},
		{what: "gone", steps: []catalog.Changes{{Gone: []wire.ModelID{1}}}},
		{what: "gone, and the id another's", steps: []catalog.Changes{{Gone: []wire.ModelID{1}}, {Models: []catalog.Served{entry(1, "other", 4)}}}},
		{what: "the id another's at once", steps: []catalog.Changes{{Models: []catalog.Served{entry(1, "other", 4)}}}},
		{what: "another SLO, then gone", steps: []catalog.Changes{{Models: []catalog.Served{slower}}, {Gone: []wire.ModelID{1}}, {Models: []catalog.Served{entry(1, "other", 4)}}}},
		{what: "gone and back under the id", steps: []catalog.Changes{{Gone: []wire.ModelID{1}}, {Models: []catalog.Served{entry(1, "echo", 4)}}}},
		{what: "other tensors", steps: []catalog.Changes{{Models: []catalog.Served{entry(1, "echo", 5)}}}},
		{what: "the id another's while the link was away", again: true, steps: []catalog.Changes{{Pools: gpus, Models: []catalog.Served{entry(1, "other", 4)}}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			client, l := alone(t, nil), &fakeLink{}
			client.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
			client.tell(l, wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1, Pools: gpus, Models: []catalog.Served{entry(1, "echo", 4)}})
			var r Reservation
			if err := client.Reserve(&r, "echo", ""); err != nil {
				t.Fatal(err)
			}
			serial := uint64(1)
			if c.again {
				client.lose(l)
				client.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
				serial = 0
			}
			for _, ch := range c.steps {
				ch.Epoch, ch.Since, ch.Serial = 1, serial, serial+1
				client.tell(l, wire.DocChanges, ch)
				serial++
			}
			if err := l.cause(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := client.InferReserved(context.Background(), &r, 0)
				done <- err
			}()
			if c.sent { // nobody answers it
				eventually(t, "the request", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.sent) == 1 })
				client.failAll(wire.ReasonCancelled)
			}
			if err := <-done; !c.sent && !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v", err)
			}
			if want := []wire.ModelID{1}; c.sent != slices.Equal(l.sent, want) || !c.sent && len(l.sent) > 0 {
				t.Errorf("requests for models %v went out", l.sent)
			}
			allFree(t, client)
		})
	}
}
