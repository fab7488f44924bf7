package policytest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Overload measures a request in a large and busy cluster: 37 models, 64 GPUs,
// a request each microsecond. It checks nothing, so that the time is the
// scheduler's.
func Overload(b *testing.B, s policy.Scheduler) {
	const models, gpus = 37, 64
	const slo = 30 * mono.Millisecond
	for i := range wire.ModelID(models) {
		s.AddModel(i, policy.Model{Profile: Linear(b, 0.5, 2, 64), SLO: slo, Rate: 1})
	}
	var out policy.Out
	for i := range wire.GPUID(gpus) {
		s.AddGPU(0, i, &out)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var runs [gpus][]policy.Dispatch // in their order
	now := mono.Time(0)
	b.ReportAllocs()
	for i := range b.N {
		now = now.Add(mono.Microsecond)
		for g := range runs {
			for len(runs[g]) > 0 && runs[g][0].Until <= now {
				s.Done(now, runs[g][0].Batch, runs[g][0].Until, &out)
				runs[g] = append(runs[g][:0], runs[g][1:]...)
			}
		}
		s.Submit(now, wire.ModelID(r.IntN(models)), batching.Request{ID: wire.RequestID(i), Arrival: now, Deadline: now.Add(slo)}, &out)
		if s.NextWake() <= now {
			s.Step(now, &out)
		}
		for _, p := range out.Preempts {
			runs[p.GPU] = slices.DeleteFunc(runs[p.GPU], func(d policy.Dispatch) bool { return d.Batch == p.Batch })
		}
		for _, d := range out.Dispatches {
			d.Requests = nil
			runs[d.GPU] = append(runs[d.GPU], d)
		}
		out.Reset()
	}
}
