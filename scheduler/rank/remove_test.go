package rank

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A model that is removed while a grant is under way goes with the answer, its GPU is free for others,
// and nothing of it is left; one that is back by then stays.
func TestRemoveModel(t *testing.T) {
	for _, back := range []bool{false, true} {
		r, out := New(Config{}), Out{}
		r.AddGPU(0, 0)
		c := batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 10, Latest: 90}
		r.SetCandidate(9000, c)
		r.Step(10, &out)
		if len(out.Grants) != 1 {
			t.Fatalf("grants %+v, want one", out.Grants)
		}
		r.RemoveModel(9000)
		r.SetCandidate(3, c)
		if r.Step(20, &out); len(out.Grants) != 1 {
			t.Fatalf("the GPU of a grant under way was granted again: %+v", out.Grants)
		}
		if back {
			r.SetCandidate(9000, c)
		}
		r.Answer(Answer{Grant: out.Grants[0], Batch: 7, Exec: 20, Until: 30, Need: 2.5})
		if known := r.models[9000] != nil; known != back {
			t.Errorf("back %v: known %v", back, known)
		}
		if want := map[bool]float64{true: 2.5}[back]; r.Need(20) != want {
			t.Errorf("back %v: need %v, want %v", back, r.Need(20), want)
		}
		r.Done(0, 1, 7, 30)
		if r.Step(30, &out); len(out.Grants) != 2 || out.Grants[1].Model != 3 {
			t.Errorf("back %v: grants %+v, want the other model's", back, out.Grants)
		}
		r.RemoveModel(3) // granting
		r.RemoveModel(4) // never seen
		r.Answer(Answer{Grant: out.Grants[1]})
		if r.models[3] != nil || r.gpus.Soonest() == mono.Never {
			t.Error("the model stays, or its GPU is not free again")
		}
	}
}
