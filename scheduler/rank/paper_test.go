package rank

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func withGPUs(free ...mono.Time) *Rank {
	r := New(Config{})
	for id, at := range free {
		r.AddGPU(wire.GPUID(id), at)
	}
	return r
}

func candidate(exec, latest mono.Time) batching.Candidate {
	return batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: exec, Latest: latest}
}

// step returns the (model, GPU) pairs granted at now.
func step(r *Rank, now mono.Time) (pairs [][2]int) {
	var out Out
	r.Step(now, &out)
	for _, g := range out.Grants {
		pairs = append(pairs, [2]int{int(g.Model), int(g.GPU)})
	}
	return pairs
}

func expect(t *testing.T, r *Rank, now mono.Time, want ...[2]int) {
	t.Helper()
	if got := step(r, now); !slices.Equal(got, want) {
		t.Fatalf("at %d: granted (model, GPU) %v, want %v", now, got, want)
	}
}

// grantOf makes the grant value that an answer refers to.
func grantOf(r *Rank, model, gpu int) Grant {
	return Grant{Model: wire.ModelID(model), GPU: wire.GPUID(gpu), Life: r.gpus.Life(wire.GPUID(gpu))}
}

// Algorithm 1, ONMODELTIMER: at exec, the free GPU with the smallest id; not
// before exec, although GPUs are free.
func TestModelTimerSmallestID(t *testing.T) {
	r := withGPUs(50, 10, 20)
	r.SetCandidate(0, candidate(30, 40))
	if r.NextWake() != 30 {
		t.Fatalf("next wake %v, want 30", r.NextWake())
	}
	expect(t, r, 29)
	expect(t, r, 30, [2]int{0, 1}) // GPU 0 is not free by 30; 1 and 2 are
}

// Figure 18: free_at <= exec_at suffices, also when the GPU is not free yet.
func TestGPUFreeExactlyAtExec(t *testing.T) {
	r := withGPUs(30)
	r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 30, Latest: 40, Delay: 5})
	expect(t, r, 24)
	expect(t, r, 25, [2]int{0, 0}) // the order leaves at exec - delay
}

// Algorithm 1, ONGPUTIMER: a GPU that becomes free takes, of the candidates
// that are ready and valid, the one whose latest is closest.
func TestGPUTimerLeastLatest(t *testing.T) {
	r := withGPUs(100)
	r.SetCandidate(0, candidate(10, 200))
	r.SetCandidate(1, candidate(20, 150))
	r.SetCandidate(2, candidate(30, 99))   // too late for this GPU
	r.SetCandidate(3, candidate(120, 130)) // not ready at 100
	expect(t, r, 30)
	if r.NextWake() != 100 {
		t.Fatalf("next wake %v, want 100, when the GPU is free", r.NextWake())
	}
	expect(t, r, 100, [2]int{1, 0})
}

// Figure 18: the GPU timer fires at free - delay(b), so that the order is there
// when the GPU is free.
func TestGPUTimerLeavesRoomForTheOrder(t *testing.T) {
	r := withGPUs(100)
	r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 50, Latest: 200, Delay: 7})
	expect(t, r, 92)
	expect(t, r, 93, [2]int{0, 0})
}

// Section 4.2: a granted GPU is unavailable until the model has told when it
// will be free; a model with a grant under way is not granted again.
func TestGrantUnderWay(t *testing.T) {
	r := withGPUs(0)
	r.SetCandidate(0, candidate(10, 20))
	expect(t, r, 10, [2]int{0, 0})
	r.SetCandidate(0, candidate(11, 20)) // formed before the model knew of the grant: void
	r.SetCandidate(1, candidate(11, 20))
	r.AddGPU(1, 100)
	expect(t, r, 15)
	r.Answer(Answer{Grant: grantOf(r, 0, 0), Batch: 7, Exec: 10, Until: 18})
	expect(t, r, 17)
	expect(t, r, 18, [2]int{1, 0})
}

// An unused grant gives the GPU back at once.
func TestUnusedGrant(t *testing.T) {
	r := withGPUs(0)
	r.SetCandidate(0, candidate(10, 20))
	expect(t, r, 10, [2]int{0, 0})
	r.Answer(Answer{Grant: grantOf(r, 0, 0)})
	r.SetCandidate(1, candidate(10, 20))
	expect(t, r, 11, [2]int{1, 0})
}

// busy makes GPU 0 run batches 1 and 2, 10 long each, planned from 0 on.
func busy(t *testing.T) *Rank {
	t.Helper()
	r := withGPUs(0)
	for i, exec := range []mono.Time{0, 10} {
		r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: exec, Latest: 50, Delay: 10})
		expect(t, r, exec, [2]int{0, 0})
		r.Answer(Answer{Grant: grantOf(r, 0, 0), Batch: wire.BatchID(i + 1), Exec: exec, Until: exec + 10})
	}
	return r
}

// A GPU has at most two undone batches: one that hangs is not buried.
func TestHungGPU(t *testing.T) {
	r := busy(t)
	r.SetCandidate(1, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 20, Latest: 1000})
	expect(t, r, 900)
	if r.NextWake() != mono.Never {
		t.Fatalf("a timer at %v for a GPU that hangs", r.NextWake())
	}
	r.Done(0, 1, 1, 905)
	expect(t, r, 914)
	expect(t, r, 915, [2]int{1, 0}) // batch 2 runs until 915
}

// A report corrects the free time, of a batch queued behind it too.
func TestEarlyAndLateReports(t *testing.T) {
	for _, c := range []struct{ first, free mono.Time }{{5, 20}, {10, 20}, {14, 24}} {
		r := busy(t)
		r.Done(0, 1, 1, c.first)
		if free := r.gpus.Soonest(); free != c.free {
			t.Errorf("batch 1 ends at %d: GPU free at %d, want %d (batch 2 is planned for 10)", c.first, free, c.free)
		}
		r.Done(0, 1, 2, 17)
		if free := r.gpus.Soonest(); free != 17 {
			t.Errorf("batch 2 ends at 17: GPU free at %d", free)
		}
	}
	r := busy(t)
	r.Done(0, 1, 2, 19) // out of order: batch 1 still runs, by plan until 10
	if free := r.gpus.Soonest(); free != 19 {
		t.Errorf("GPU free at %d, want 19", free)
	}
	r.Done(0, 1, 99, 500) // no such batch
	if free := r.gpus.Soonest(); free != 19 {
		t.Errorf("an unknown batch moved the free time to %d", free)
	}
}

// A report that crosses a grant: the answer's plan moves back with it.
func TestLateReportDuringGrant(t *testing.T) {
	r := withGPUs(0)
	r.SetCandidate(0, candidate(0, 50))
	expect(t, r, 0, [2]int{0, 0})
	r.Answer(Answer{Grant: grantOf(r, 0, 0), Batch: 1, Exec: 0, Until: 10})
	r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 10, Latest: 50, Delay: 2})
	expect(t, r, 8, [2]int{0, 0})
	r.Done(0, 1, 1, 13)
	r.Answer(Answer{Grant: grantOf(r, 0, 0), Batch: 2, Exec: 10, Until: 20})
	if free := r.gpus.Soonest(); free != 23 {
		t.Fatalf("GPU free at %d, want 23: batch 2 could only start at 13", free)
	}
}

// GPUs that leave: nothing of an earlier life counts in the next.
func TestGPULives(t *testing.T) {
	r := withGPUs(0)
	r.SetCandidate(0, candidate(0, 50))
	expect(t, r, 0, [2]int{0, 0})
	old := grantOf(r, 0, 0)
	r.RemoveGPU(0)
	if r.GPUs() != 0 {
		t.Fatalf("%d GPUs, want 0", r.GPUs())
	}
	if life := r.AddGPU(0, 5); life != old.Life+1 {
		t.Fatalf("life %d, want %d", life, old.Life+1)
	}
	r.Answer(Answer{Grant: old, Batch: 1, Exec: 0, Until: 1000})
	r.Done(0, old.Life, 1, 2000)
	r.SetCandidate(0, candidate(5, 50)) // the answer has freed the model
	expect(t, r, 5, [2]int{0, 0})
	r.RemoveGPU(7) // never there
}

// A candidate that is taken away is not granted, ready or not.
func TestCandidateWithdrawn(t *testing.T) {
	r := withGPUs(100)
	r.SetCandidate(0, candidate(10, 200))
	r.SetCandidate(1, candidate(300, 400))
	expect(t, r, 20)
	r.SetCandidate(0, batching.Candidate{})
	r.SetCandidate(1, batching.Candidate{})
	expect(t, r, 500)
	if r.NextWake() != mono.Never {
		t.Fatalf("a timer at %v without candidates", r.NextWake())
	}
}
