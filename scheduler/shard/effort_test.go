package shard

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// effortOf hands in requests of best effort whose deadlines are their ids.
func effortOf(s *Shard, out *Out, now mono.Time, deadlines ...mono.Time) {
	for _, d := range deadlines {
		s.Submit(now, 0, batching.Request{ID: wire.RequestID(d), Deadline: d, Class: wire.ClassBestEffort}, out)
	}
}

func fill(s *Shard, out *Out, now mono.Time, gap mono.Dur) (ids []wire.RequestID, answer gaps.Answer) {
	out.Reset()
	s.Fill(now, gaps.Grant{GPU: 1, Life: 1, FreeAt: now, Until: now.Add(gap)}, out)
	for _, d := range out.Dispatches {
		for _, r := range d.Requests {
			ids = append(ids, r.ID)
		}
	}
	return ids, out.Fills[0]
}

// Best effort waits in a queue of its own: no candidate is made of it; a wish tells when it begins and ends to wait; and a
// gap gets what fits into it, in order.
func TestEffortFillsGaps(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 20, BatchesMax: 4})
	s.SetDelay(0, batching.Delay{Ctrl: 2}, out)
	out.Reset()
	effortOf(s, out, 0, 1003, 1001, 1002)
	if len(out.Candidates) != 0 || s.NextWake() != mono.Never || !slices.Equal(out.Wishes, []gaps.Wish{{Model: 0, Least: 2 + 6}}) {
		t.Fatalf("candidates %v, wishes %v, due at %v", out.Candidates, out.Wishes, s.NextWake())
	}
	if ids, a := fill(s, out, 10, 7); len(ids) > 0 || a.Batch != 0 || a.Least != 8 {
		t.Errorf("a gap that is too short has %v, %+v", ids, a)
	}
	ids, a := fill(s, out, 10, 9)
	if !slices.Equal(ids, []wire.RequestID{1001, 1002}) || a.Exec != 12 || a.Until != 19 || a.Least != 8 {
		t.Errorf("a gap of 9 has %v, %+v", ids, a)
	}
	ids, last := fill(s, out, 20, 100)
	if !slices.Equal(ids, []wire.RequestID{1003}) || last.Least != 0 || s.WaitingEffort(0) != 0 {
		t.Errorf("the last gap has %v, %+v", ids, last)
	}
	if run, ok := s.Completed(a.Batch); !ok || run.Size != 2 || s.Used() != 1 {
		t.Errorf("run %+v, %d slots used, want 1", run, s.Used())
	}
}

// The queue of best effort is bounded by itself, and leaves half of the slots to requests with deadlines.
func TestEffortIsBounded(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 100, BatchesMax: 4})
	effortOf(s, out, 0, 1001, 1002, 1003, 1004, 1005, 1006, 1007)
	expectDrops(t, out, 1, wire.ReasonFull) // QueueMax is 6
	submit(s, out, 0, 90, 91, 92, 93, 94, 95)
	expectDrops(t, out, 0, wire.ReasonFull)

	s, out = newShard(t, Config{RequestsMax: 6, BatchesMax: 4})
	effortOf(s, out, 0, 1001, 1002, 1003, 1004)
	expectDrops(t, out, 1, wire.ReasonFull)
	submit(s, out, 0, 90, 91, 92)
	expectDrops(t, out, 0, wire.ReasonFull)
}

// Whoever gave up is not run, and makes room.
func TestEffortExpires(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 100, BatchesMax: 4})
	effortOf(s, out, 0, 50, 51, 52, 53, 54, 1000)
	effortOf(s, out, 52, 1001)
	expectDrops(t, out, 3, wire.ReasonDeadline)
	ids, _ := fill(s, out, 60, 100)
	if !slices.Equal(ids, []wire.RequestID{1000, 1001}) {
		t.Errorf("a batch of %v", ids)
	}
	expectDrops(t, out, 2, wire.ReasonDeadline)
}

// Cancelled, drained, of a model that goes, without GPUs: each is told its reason, and the wish is taken back.
func TestEffortLeaves(t *testing.T) {
	for what, end := range map[wire.Reason]func(*Shard, *Out){
		wire.ReasonCancelled: func(s *Shard, out *Out) {
			for _, d := range []mono.Time{1002, 1001, 1002} {
				s.Cancel(5, 0, &batching.Request{ID: wire.RequestID(d), Deadline: d}, out)
			}
		},
		wire.ReasonDraining:     func(s *Shard, out *Out) { s.Hasten(5, out) },
		wire.ReasonUnavailable:  func(s *Shard, out *Out) { s.SetGPUs(5, 0, 0, out) },
		wire.ReasonUnknownModel: func(s *Shard, out *Out) { s.RemoveModel(0, wire.ReasonUnknownModel, out) },
	} {
		s, out := newShard(t, Config{RequestsMax: 100, BatchesMax: 4})
		effortOf(s, out, 0, 1001, 1002)
		out.Reset()
		end(s, out)
		if n := len(out.Wishes); n != 1 || out.Wishes[0] != (gaps.Wish{}) {
			t.Errorf("%v: wishes %v, want that it is taken back", what, out.Wishes)
		}
		expectDrops(t, out, 2, what)
		if s.Used() != 0 {
			t.Errorf("%v: %d slots are used", what, s.Used())
		}
	}
	s, out := newShard(t, Config{RequestsMax: 100, BatchesMax: 4})
	s.Hasten(0, out)
	effortOf(s, out, 0, 1001)
	expectDrops(t, out, 1, wire.ReasonDraining)
}

// A lost GPU's requests of best effort wait again, in their order; those of a model that is served elsewhere go there.
func TestEffortOfALostGPU(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 100, BatchesMax: 4})
	effortOf(s, out, 0, 1001, 1002)
	fill(s, out, 0, 100)
	effortOf(s, out, 0, 1003)
	out.Reset()
	s.Lost(5, 1, 1, out)
	if s.WaitingEffort(0) != 3 || len(out.Drops) > 0 {
		t.Fatalf("%d wait, drops %v", s.WaitingEffort(0), out.Drops)
	}
	s.Extract(0, out)
	if len(out.Moved) != 3 || out.Moved[0].Request.ID != 1001 || out.Moved[0].Request.Class != wire.ClassBestEffort || s.Used() != 0 {
		t.Errorf("moved %+v, %d slots used", out.Moved, s.Used())
	}
}
