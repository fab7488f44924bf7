package shard

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// newShard serves model 0, l(b) = b + 5, on two GPUs.
func newShard(t *testing.T, cfg Config) (*Shard, *Out) {
	t.Helper()
	s, out := New(cfg), &Out{}
	s.AddModel(0, config(t))
	s.SetGPUs(0, 2, 2*batching.OneGPU, out)
	return s, out
}

func config(t *testing.T) ModelConfig {
	t.Helper()
	p, err := profile.Linear(1, 5, 8)
	if err != nil {
		t.Fatal(err)
	}
	return ModelConfig{Config: batching.Config{Profile: p, SLO: 100, QueueMax: 6}}
}

func submit(s *Shard, out *Out, now mono.Time, deadlines ...mono.Time) {
	for _, d := range deadlines {
		s.Submit(now, 0, batching.Request{ID: wire.RequestID(d), Deadline: d}, out)
	}
}

// reasons lists why requests were dropped, and empties the Out.
func reasons(out *Out) (list []wire.Reason) {
	for _, d := range out.Drops {
		list = append(list, d.Reason)
	}
	out.Reset()
	return list
}

func expectDrops(t *testing.T, out *Out, n int, reason wire.Reason) {
	t.Helper()
	got := reasons(out)
	for _, r := range got {
		if r != reason {
			t.Fatalf("dropped for %v, want %d for %v", got, n, reason)
		}
	}
	if len(got) != n {
		t.Fatalf("dropped for %v, want %d for %v", got, n, reason)
	}
}

func grant(gpu wire.GPUID, life rank.Life, free mono.Time) rank.Grant {
	return rank.Grant{GPU: gpu, Life: life, Offer: batching.Offer{FreeAt: free}}
}

// Figure 18, granted_gpu: the batch leaves, the answer says when the GPU is
// free, the next candidate is registered; in that order.
func TestGrantedGPU(t *testing.T) {
	s, out := newShard(t, Config{Index: 3, RequestsMax: 10, BatchesMax: 4})
	submit(s, out, 0, 12, 12, 12, 40)
	out.Reset()
	s.Granted(4, grant(1, 1, 2), out)
	if len(out.Dispatches) != 1 || len(out.Answers) != 1 || len(out.Candidates) != 1 {
		t.Fatalf("%d dispatches, %d answers, %d candidates, want one of each", len(out.Dispatches), len(out.Answers), len(out.Candidates))
	}
	d, a, c := out.Dispatches[0], out.Answers[0], out.Candidates[0]
	if len(d.Requests) != 3 || d.GPU != 1 || d.Exec != 4 || d.Until != 12 || ShardOf(d.Batch) != 3 {
		t.Errorf("dispatch %+v, want 3 requests on GPU 1 from 4 to 12", d)
	}
	if a.Batch != d.Batch || a.Until != 12 || a.Grant.GPU != 1 {
		t.Errorf("answer %+v", a)
	}
	if c.Candidate.Size != 1 || c.Candidate.Latest != 34 {
		t.Errorf("next candidate %+v, want the request due at 40", c)
	}
	run, ok := s.Completed(d.Batch)
	if !ok || run.Size != 3 || run.Until != 12 || s.Used() != 1 {
		t.Errorf("completed %+v %v, %d slots used, want 1", run, ok, s.Used())
	}
	if _, ok := s.Completed(d.Batch); ok {
		t.Error("a second report of a batch was taken")
	}
}

// A grant that comes when nothing waits is answered with the GPU unused.
func TestGrantForNothing(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	s.Granted(0, grant(0, 1, 0), out)
	if len(out.Dispatches) != 0 || len(out.Answers) != 1 || out.Answers[0].Batch != 0 {
		t.Fatalf("%+v", out)
	}
	s.Granted(0, rank.Grant{Model: 9}, out) // a model that has gone
	if len(out.Answers) != 2 || out.Answers[1].Batch != 0 {
		t.Fatalf("%+v", out)
	}
}

// Each way to be refused at the door has its reason.
func TestRefusedAtTheDoor(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 8, BatchesMax: 4})
	s.AddModel(1, config(t))
	s.Submit(0, 5, batching.Request{}, out)
	expectDrops(t, out, 1, wire.ReasonUnknownModel)
	submit(s, out, 0, 90, 91, 92, 93, 94, 95, 96)
	expectDrops(t, out, 1, wire.ReasonFull) // the model's queue
	for range 3 {
		s.Submit(0, 1, batching.Request{Deadline: 90}, out)
	}
	expectDrops(t, out, 1, wire.ReasonFull) // the shard's slots
	submit(s, out, 0, 5)
	expectDrops(t, out, 1, wire.ReasonFull)
	s.SetGPUs(0, 0, batching.OneGPU, out)
	expectDrops(t, out, 8, wire.ReasonUnavailable)
	submit(s, out, 0, 90)
	expectDrops(t, out, 1, wire.ReasonUnavailable)
	s.SetGPUs(0, 1, batching.OneGPU, out)
	submit(s, out, 0, 5) // less than l(1) = 6
	expectDrops(t, out, 1, wire.ReasonDeadline)
	if s.Used() != 0 || s.NextWake() != mono.Never {
		t.Fatalf("%d slots used, next wake %v", s.Used(), s.NextWake())
	}
}

// A lost GPU's requests are queued again while their deadlines allow.
func TestLostGPU(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	submit(s, out, 0, 20, 20, 30)
	out.Reset()
	s.Granted(0, grant(0, 4, 0), out)
	batch := out.Dispatches[0].Batch
	out.Reset()
	s.Lost(1, 1, 9, out) // another GPU
	s.Lost(1, 0, 3, out) // an earlier life
	if s.Queued(0) != 0 {
		t.Fatal("requests of a living GPU were queued again")
	}
	s.Lost(20, 0, 4, out)
	expectDrops(t, out, 2, wire.ReasonBackendLost)
	if s.Queued(0) != 1 {
		t.Fatalf("%d queued again, want the one due at 30", s.Queued(0))
	}
	if _, ok := s.Completed(batch); ok {
		t.Fatal("the lost GPU's report was taken")
	}
	s.Granted(20, grant(0, 4, 0), out) // was under way when the GPU died
	if len(out.Dispatches) != 0 || out.Answers[0].Batch != 0 {
		t.Fatal("a batch was sent to a GPU that is known to be dead")
	}
	out.Reset()
	s.Granted(20, grant(0, 5, 20), out)
	if len(out.Dispatches) != 1 || out.Dispatches[0].Batch == batch {
		t.Fatalf("%+v, want a batch with another id in the GPU's next life", out.Dispatches)
	}
}

// The delay counts when a lost batch's requests are judged.
func TestLostGPUWithDelay(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	s.SetDelay(0, batching.Delay{Ctrl: 3}, out)
	submit(s, out, 0, 30)
	s.Granted(0, grant(0, 1, 0), out)
	s.Lost(22, 0, 1, out) // 8 are left, 9 are needed
	expectDrops(t, out, 1, wire.ReasonBackendLost)
}

// Batches are bounded: no record left, the GPU stays unused.
func TestBatchesBounded(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 1})
	submit(s, out, 0, 50)
	s.Granted(0, grant(0, 1, 0), out)
	submit(s, out, 0, 60)
	s.Granted(0, grant(1, 1, 0), out)
	if len(out.Dispatches) != 1 || s.Queued(0) != 1 {
		t.Fatalf("%d batches, %d queued, want 1 and 1", len(out.Dispatches), s.Queued(0))
	}
}

// A removed model's requests are dropped; one that is added again begins anew,
// with the shard's delay; one that is added while served keeps its queue.
func TestRemoveAndAddModel(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	s.SetDelay(0, batching.Delay{Ctrl: 2}, out)
	submit(s, out, 0, 50, 50)
	out.Reset()
	s.RemoveModel(0, wire.ReasonUnavailable, out)
	if len(out.Candidates) != 1 || out.Candidates[0].Candidate.Size != 0 {
		t.Fatalf("candidates %+v, want it taken away", out.Candidates)
	}
	expectDrops(t, out, 2, wire.ReasonUnavailable)
	s.AddModel(0, config(t))
	submit(s, out, 0, 50)
	if d := out.Candidates[0].Candidate.Delay; d != 2 {
		t.Fatalf("delay %v, want the shard's, 2", d)
	}
	s.AddModel(0, config(t))
	if s.Queued(0) != 1 {
		t.Fatal("a new configuration lost the queue")
	}
	s.DropAll(0, wire.ReasonDraining, out)
	expectDrops(t, out, 1, wire.ReasonDraining)
}

// The margin is taken off deadlines for planning; the request keeps its own.
func TestMargin(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	s.SetMargin(0, 4)
	submit(s, out, 0, 20)
	if got := out.Candidates[0].Candidate.Latest; got != 10 {
		t.Fatalf("latest %v, want 20 - 4 - l(1) = 10", got)
	}
	s.Granted(0, grant(0, 1, 0), out)
	if got := out.Dispatches[0].Requests[0].Deadline; got != 20 {
		t.Fatalf("deadline %v sent on, want 20", got)
	}
}

// By its Latest all of a batch's requests can be in time: where the margin has fallen the first of them is not the one that is due
// first. Without weights of a generation there is none.
func TestLatestOfABatch(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	s.SetMargin(0, 4)
	submit(s, out, 0, 50)
	s.SetMargin(0, 0)
	submit(s, out, 0, 48)
	g := grant(0, 1, 0)
	g.Generation = 3
	s.Granted(35, g, out)
	if d := out.Dispatches[0]; len(d.Requests) != 2 || d.Requests[0].Deadline != 50 || d.Latest != 48-7 || d.Generation != 3 {
		t.Errorf("%+v, want both requests, and 48 - l(2) = 41 as the latest start", d)
	}
	submit(s, out, 36, 90)
	s.Granted(80, grant(1, 1, 0), out)
	if d := out.Dispatches[1]; d.Latest != mono.Never || d.Generation != 0 {
		t.Errorf("%+v, want no latest start", d)
	}
}

// A GPU that is free too late for what waits is given back, and the rank, which
// forgot the candidate when it granted, is told of it again.
func TestGrantTooLate(t *testing.T) {
	s, out := newShard(t, Config{RequestsMax: 10, BatchesMax: 4})
	submit(s, out, 0, 12)
	before := out.Candidates[0]
	out.Reset()
	s.Granted(0, grant(0, 1, 7), out)
	if len(out.Dispatches) != 0 || len(out.Answers) != 1 || out.Answers[0].Batch != 0 {
		t.Fatalf("%+v, want the GPU unused", out)
	}
	if len(out.Candidates) != 1 || out.Candidates[0] != before {
		t.Fatalf("candidates %+v, want %+v again", out.Candidates, before)
	}
}
