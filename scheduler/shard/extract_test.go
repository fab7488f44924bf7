package shard

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// moved lists the requests in Moved, and empties the Out.
func moved(out *Out) (ids []wire.RequestID) {
	for _, m := range out.Moved {
		ids = append(ids, m.Request.ID)
	}
	out.Reset()
	return ids
}

// What waits leaves by deadline, whole; the candidate is taken back; the slots are free; what
// comes later goes after it, until the model is back.
func TestExtract(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	r := batching.Request{ID: 7, Frontend: 3, Arrival: 1, Deadline: 50, Input: wire.SlabRef{Handle: 9, Length: 4}}
	s.Enqueue(5, 2, 0, &r, out)
	s.Settle(5, out)
	submit(s, out, 6, 80, 40)
	out.Reset()
	s.Extract(0, out)
	if len(out.Moved) != 3 || out.Moved[1] != (Moved{Model: 0, Came: 2, Request: r}) {
		t.Fatalf("moved %+v, want request 7 as it came between those due at 40 and 80", out.Moved)
	}
	if len(out.Candidates) != 1 || out.Candidates[0] != (Candidate{Model: 0}) || len(out.Drops) != 0 {
		t.Errorf("candidates %+v and drops %+v, want the candidate taken back and no drop", out.Candidates, out.Drops)
	}
	if ids := moved(out); !slices.Equal(ids, []wire.RequestID{40, 7, 80}) {
		t.Errorf("moved %v, want 40, 7, 80", ids)
	}
	if s.Used() != 0 || s.NextWake() != mono.Never {
		t.Errorf("%d slots are used, next wake %v, want none and never", s.Used(), s.NextWake())
	}
	submit(s, out, 9, 60)
	if ids := moved(out); !slices.Equal(ids, []wire.RequestID{60}) {
		t.Errorf("moved %v of what came later, want 60", ids)
	}
	s.Extract(0, out) // again: nothing waits, nothing is served
	s.AddModel(0, config(t))
	submit(s, out, 10, 90)
	if len(out.Moved) != 0 || s.Queued(0) != 1 {
		t.Errorf("moved %v and %d queued after the model is back, want none and one", moved(out), s.Queued(0))
	}
	s.Extract(0, out)
	s.RemoveModel(0, wire.ReasonUnknownModel, out)
	out.Reset()
	submit(s, out, 11, 70)
	expectDrops(t, out, 1, wire.ReasonUnknownModel)
}

// A grant that was under way gives its GPU back; a batch that runs ends here; one whose GPU is lost
// sends its requests on, once.
func TestExtractAmongGrantsAndBatches(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	submit(s, out, 0, 40, 41)
	out.Reset()
	s.Granted(1, grant(0, 1, 1), out)
	first := out.Dispatches[0].Batch
	out.Reset()
	submit(s, out, 2, 50)
	out.Reset()
	s.Granted(3, grant(1, 1, 3), out)
	second := out.Dispatches[0].Batch
	submit(s, out, 4, 60)
	out.Reset()
	s.Extract(0, out)
	if ids := moved(out); !slices.Equal(ids, []wire.RequestID{60}) {
		t.Fatalf("moved %v, want what waits: 60", ids)
	}
	s.Granted(5, grant(0, 1, 20), out)
	if len(out.Answers) != 1 || out.Answers[0].Batch != 0 || out.Answers[0].Grant.GPU != 0 || len(out.Dispatches) != 0 {
		t.Fatalf("answers %+v, want the GPU back", out.Answers)
	}
	out.Reset()
	if run, ok := s.Completed(first); !ok || run.Size != 2 {
		t.Errorf("the batch that ran is not found: %+v", run)
	}
	s.Lost(6, 1, 1, out)
	if len(out.Moved) != 1 || out.Moved[0].Request.ID != 50 || out.Moved[0].Came != 6 || len(out.Drops) != 0 {
		t.Errorf("moved %+v, drops %+v of the lost batch, want request 50 from now on", out.Moved, out.Drops)
	}
	out.Reset()
	if _, ok := s.Completed(second); ok || s.Used() != 0 {
		t.Errorf("a late report finds the lost batch, or %d slots are still used", s.Used())
	}
}
