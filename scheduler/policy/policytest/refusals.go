package policytest

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Refusals checks the drops that deadlines do not cause, and their reasons: no
// GPU, no such model, no room, and the last GPU lost. Nothing is due
// afterwards.
func Refusals(t *testing.T, newScheduler func(policy.Config) policy.Scheduler) {
	t.Helper()
	var out policy.Out
	s := newScheduler(policy.Config{RequestsMax: 2})
	s.AddModel(0, policy.Model{Profile: Linear(t, 1, 5, 16), SLO: 100 * mono.Millisecond, Rate: 1})
	submit := func(model wire.ModelID) {
		s.Submit(0, model, batching.Request{Deadline: mono.Time(100 * mono.Millisecond)}, &out)
	}
	submit(0)
	s.AddGPU(0, 0, &out)
	s.AddGPU(0, 0, &out) // it is there already
	submit(3)
	submit(0)
	if s.NextWake() <= 0 {
		s.Step(0, &out)
	}
	submit(0)
	submit(0) // two wait or run
	want := []wire.Reason{wire.ReasonUnavailable, wire.ReasonUnknownModel, wire.ReasonFull}
	if got := reasons(&out); !slices.Equal(got, want) {
		t.Errorf("drops %v, want %v", got, want)
	}
	s.RemoveGPU(0, 0, &out)
	for _, d := range out.Dispatches {
		s.Done(0, d.Batch, 0, &out) // lost: ignored
	}
	got := reasons(&out)[len(want):]
	known := func(r wire.Reason) bool { return r == wire.ReasonBackendLost || r == wire.ReasonUnavailable }
	if len(got) != 2 || !known(got[0]) || !known(got[1]) || len(out.Dispatches) == 1 && !slices.Contains(got, wire.ReasonBackendLost) {
		t.Errorf("without a GPU the drops are %v, want one for each request, backend_lost for the batch that was lost", got)
	}
	if wake := s.NextWake(); wake != mono.Never {
		t.Errorf("NextWake is %v with nothing to do", wake)
	}
}

func reasons(out *policy.Out) []wire.Reason {
	var all []wire.Reason
	for _, d := range out.Drops {
		all = append(all, d.Reason)
	}
	return all
}
