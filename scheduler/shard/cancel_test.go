package shard

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cancel cancels the request that submit made with this deadline.
func cancel(s *Shard, out *Out, now mono.Time, deadline mono.Time) {
	s.Cancel(now, 0, &batching.Request{ID: wire.RequestID(deadline), Deadline: deadline}, out)
	s.Settle(now, out)
}

// What is cancelled leaves as cancelled, once; the batch that follows lacks it; with the last one the
// candidate goes.
func TestCancel(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	submit(s, out, 0, 40, 41, 42, 43)
	out.Reset()
	cancel(s, out, 1, 40) // the head, by which the candidate was formed
	if len(out.Candidates) != 1 || out.Candidates[0].Candidate.Size != 3 || out.Candidates[0].Candidate.Latest != 41-8 {
		t.Errorf("candidates %+v, want one of 3 for the deadline 41", out.Candidates)
	}
	expectDrops(t, out, 1, wire.ReasonCancelled)
	cancel(s, out, 1, 40) // again: it is gone
	cancel(s, out, 1, 39) // never was there
	expectDrops(t, out, 0, wire.ReasonCancelled)
	cancel(s, out, 2, 42)
	expectDrops(t, out, 1, wire.ReasonCancelled)
	s.Granted(3, grant(0, 1, 3), out)
	var ids []wire.RequestID
	for _, r := range out.Dispatches[0].Requests {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []wire.RequestID{41, 43}) {
		t.Fatalf("the batch has %v, want 41 and 43", ids)
	}
	out.Reset()
	cancel(s, out, 4, 43) // it runs: nothing happens
	expectDrops(t, out, 0, wire.ReasonCancelled)
	if s.Used() != 2 {
		t.Errorf("%d slots are used, want the batch's 2", s.Used())
	}
	submit(s, out, 5, 80)
	out.Reset()
	cancel(s, out, 6, 80)
	if len(out.Candidates) != 1 || out.Candidates[0].Candidate.Size != 0 || s.NextWake() != mono.Never {
		t.Errorf("candidates %+v, next wake %v; want the candidate taken back, and never", out.Candidates, s.NextWake())
	}
}

// Which one it is the id and the frontend say, of all whose deadlines are near: the clock may have been
// corrected, and the margin changed, since it was submitted.
func TestCancelFindsTheOne(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	for i, deadline := range []mono.Time{90, 90, 91, 90} {
		s.Submit(0, 0, batching.Request{ID: 7, Frontend: wire.FrontendID(i), Deadline: deadline}, out)
	}
	out.Reset()
	s.SetMargin(0, 20)
	for i, deadline := range []mono.Time{95, 88, 90, 90} {
		s.Cancel(1, 0, &batching.Request{ID: 7, Frontend: wire.FrontendID(i), Deadline: deadline}, out)
		s.Settle(1, out)
		if len(out.Drops) != 1 || out.Drops[0].Request.Frontend != wire.FrontendID(i) {
			t.Errorf("cancelled %+v, want that of frontend %d", out.Drops, i)
		}
		out.Reset()
	}
	s.Cancel(1, 3, &batching.Request{ID: 7}, out) // of a model that is not served
	if len(out.Drops)+len(out.Moved) > 0 || s.Used() != 0 {
		t.Errorf("%+v, %d slots used", out, s.Used())
	}
}

// A cancellation follows a model that was handed over.
func TestCancelGoesOn(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	s.Extract(0, out)
	cancel(s, out, 1, 40)
	if len(out.Moved) != 1 || !out.Moved[0].Cancel || out.Moved[0].Request.ID != 40 {
		t.Errorf("moved %+v, want the cancellation of 40", out.Moved)
	}
}

// Each of many requests leaves by exactly one way, whatever is cancelled when; and no step allocates.
func TestCancelAtRandom(t *testing.T) {
	const seed, requests = 5, 4000
	rng := rand.New(rand.NewPCG(seed, 0))
	s, out := New(Config{RequestsMax: 64, BatchesMax: 64}), &Out{}
	cfg := config(t)
	cfg.QueueMax = 64
	s.AddModel(0, cfg)
	s.SetGPUs(0, 2, 2*batching.OneGPU, out)
	left := map[wire.RequestID]int{}
	deadlines := make([]mono.Time, requests)
	for i := range requests {
		now := mono.Time(i * 3)
		deadlines[i] = now.Add(mono.Dur(30 + rng.IntN(60)))
		s.Submit(now, 0, batching.Request{ID: wire.RequestID(i), Deadline: deadlines[i]}, out)
		if k := i - rng.IntN(30); k >= 0 && rng.IntN(2) == 0 {
			s.Cancel(now, 0, &batching.Request{ID: wire.RequestID(k), Deadline: deadlines[k].Add(mono.Dur(rng.IntN(5) - 2))}, out)
			s.Settle(now, out)
		}
		s.Wake(now, out)
		if i%7 == 0 {
			s.Granted(now, grant(0, 1, now), out)
		}
		for _, d := range out.Drops {
			left[d.Request.ID]++
		}
		for _, d := range out.Dispatches {
			for _, r := range d.Requests {
				left[r.ID]++
			}
			s.Completed(d.Batch)
		}
		out.Reset()
	}
	s.DropAll(requests*3, wire.ReasonDraining, out)
	for _, d := range out.Drops {
		left[d.Request.ID]++
	}
	for i := range requests {
		if left[wire.RequestID(i)] != 1 {
			t.Fatalf("seed %d: request %d left %d times, want once", seed, i, left[wire.RequestID(i)])
		}
	}
	if s.Used() != 0 {
		t.Errorf("%d slots are used", s.Used())
	}
}

func TestCancelAllocatesNothing(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	now := mono.Time(0)
	step := func() {
		now += 5
		r := batching.Request{ID: wire.RequestID(now), Deadline: now + 50}
		s.Enqueue(now, now, 0, &r, out)
		s.Cancel(now, 0, &r, out)
		s.Settle(now, out)
		out.Reset()
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Fatalf("%v allocations a cancelled request, want 0", n)
	}
}
