package shard

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// offer queues requests that are due at the same instant; their ids are their priorities.
func offer(s *Shard, out *Out, now, deadline mono.Time, priorities ...wire.Priority) {
	for _, p := range priorities {
		s.Submit(now, 0, batching.Request{ID: wire.RequestID(p), Deadline: deadline, Priority: p}, out)
	}
}

func idsOf(rs []batching.Request) (ids []wire.RequestID) {
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	return ids
}

// A priority goes where its request goes: into a batch, back into the queue when its GPU is lost, and
// on to the engine that serves the model next.
func TestPriorityStaysWithItsRequest(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	offer(s, out, 0, 90, 200, 1, 0, 100)
	out.Reset()
	s.Granted(1, grant(0, 1, 1), out)
	if got := idsOf(out.Dispatches[0].Requests); !slices.Equal(got, []wire.RequestID{1, 100, 0, 200}) {
		t.Fatalf("the batch has %v, want 1, 100, 0, 200", got)
	}
	out.Reset()
	offer(s, out, 2, 90, 50)
	s.Lost(3, 0, 1, out)
	out.Reset()
	s.Extract(0, out)
	if got := moved(out); !slices.Equal(got, []wire.RequestID{1, 50, 100, 0, 200}) {
		t.Errorf("%v move on, want 1, 50, 100, 0, 200", got)
	}
}
