package frontend

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reservedCase is what happens between a reservation and its request.
type reservedCase struct {
	what    string
	steps   []catalog.Changes
	again   bool   // the same scheduler admits the frontend once more
	version string // that is asked for
	sent    wire.ModelID
}

func reservedCases() []reservedCase {
	entry := reservedEntry
	gpus := []catalog.PoolState{{DeviceType: "e", GPUs: 1}}
	slower := entry(1, "echo", 4)
	slower.Spec.SLO *= 2
	moved, second := entry(1, "echo", 4), entry(2, "echo", 4)
	moved.SubCluster, second.Spec.Version = "elsewhere", "2"
	wider := second
	wider.Spec.Inputs = vector(5)
	const one, two, three = 1, 2, 3 // ids
	return []reservedCase{
		{what: "nothing", sent: one},
		{what: "its version asked for", version: "1", sent: one},
		{what: "another sub-cluster", steps: []catalog.Changes{{Models: []catalog.Served{moved}}}, sent: one},
		{what: "another sub-cluster, without devices", steps: []catalog.Changes{{Models: []catalog.Served{moved}, Pools: []catalog.PoolState{{DeviceType: "e"}}}}, sent: one},
		{what: "another version comes, then it goes", steps: []catalog.Changes{{Models: []catalog.Served{second}}, {Gone: []wire.ModelID{1}}}, sent: two},
		{what: "the same, with its version asked for", version: "1", steps: []catalog.Changes{{Models: []catalog.Served{second}}, {Gone: []wire.ModelID{1}}}},
		{what: "the same, with other tensors", steps: []catalog.Changes{{Models: []catalog.Served{wider}}, {Gone: []wire.ModelID{1}}}},
		{what: "the same, with no device", steps: []catalog.Changes{{Models: []catalog.Served{{ID: 2, DeviceType: "none", Spec: second.Spec}}}, {Gone: []wire.ModelID{1}}}},
		{what: "another model comes", steps: []catalog.Changes{{Models: []catalog.Served{entry(three, "other", 4)}}}, sent: one},
		{what: "another SLO", steps: []catalog.Changes{{Models: []catalog.Served{slower}}}, sent: one},
		{what: "gone", steps: []catalog.Changes{{Gone: []wire.ModelID{1}}}},
		{what: "gone, and the id another's", steps: []catalog.Changes{{Gone: []wire.ModelID{1}}, {Models: []catalog.Served{entry(1, "other", 4)}}}},
		{what: "the id another's at once", steps: []catalog.Changes{{Models: []catalog.Served{entry(1, "other", 4)}}}},
		{what: "another SLO, then gone", steps: []catalog.Changes{{Models: []catalog.Served{slower}}, {Gone: []wire.ModelID{1}}, {Models: []catalog.Served{entry(1, "other", 4)}}}},
		{what: "gone and back under the id", steps: []catalog.Changes{{Gone: []wire.ModelID{1}}, {Models: []catalog.Served{entry(1, "echo", 4)}}}, sent: one},
		{what: "other tensors", steps: []catalog.Changes{{Models: []catalog.Served{entry(1, "echo", 5)}}}},
		{what: "the id another's while the link was away", again: true, steps: []catalog.Changes{{Pools: gpus, Models: []catalog.Served{entry(1, "other", 4)}}}},
	}
}

func reservedEntry(id wire.ModelID, name string, elements int64) catalog.Served {
	return catalog.Served{ID: id, DeviceType: "e", Spec: catalog.ModelSpec{Name: name, Version: "1", SLO: 10e9, Inputs: vector(elements), Outputs: vector(1)}}
}

// What was reserved for a model goes out under an id of a version of it, whatever the changes
// between: never as a request for another model, nor for one with other tensors, nor for
// another version than one that was asked for.
func TestReservedForAnIDThatIsAnothers(t *testing.T) {
	gpus := []catalog.PoolState{{DeviceType: "e", GPUs: 1}}
	for _, c := range reservedCases() {
		t.Run(c.what, func(t *testing.T) {
			client, l := alone(t, nil), &fakeLink{}
			client.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
			client.tell(l, wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1, Pools: gpus, Models: []catalog.Served{reservedEntry(1, "echo", 4)}})
			var r Reservation
			if err := client.Reserve(&r, "echo", c.version); err != nil {
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
			if c.sent > 0 { // nobody answers it
				eventually(t, "the request", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.sent) == 1 })
				client.failAll(wire.ReasonCancelled)
			}
			if err := <-done; c.sent == 0 && !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v", err)
			}
			if want := []wire.ModelID{c.sent}; c.sent > 0 && !slices.Equal(l.sent, want) || c.sent == 0 && len(l.sent) > 0 {
				t.Errorf("requests for models %v went out, want %d", l.sent, c.sent)
			}
			allFree(t, client)
		})
	}
}
