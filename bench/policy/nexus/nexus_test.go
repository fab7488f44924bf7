package nexus

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// linear is a model from the tables of the paper.
func linear(t testing.TB, alpha, beta, slo float64, rate float64) policy.Model {
	t.Helper()
	return policy.Model{Profile: policytest.Linear(t, alpha, beta, 256), SLO: mono.FromMillis(slo), Rate: rate}
}

// cluster has the policy, for a look into it, and what drives it.
type cluster struct {
	*policytest.Cluster
	s *Scheduler
}

func newCluster(t testing.TB, cfg policy.Config, opts Options, models []policy.Model, gpus int) cluster {
	s := New(cfg, opts)
	return cluster{policytest.NewCluster(t, cfg, s, models, gpus), s}
}

func TestStory(t *testing.T) {
	models := []policy.Model{linear(t, 1, 5, 25, 1000), linear(t, 1, 3, 40, 60)}
	s := New(policy.Config{RequestsMax: 40, Seed: 1}, Options{})
	y := policytest.New(t, s, models, 2)
	const slo0, slo1 = 25 * mono.Millisecond, 40 * mono.Millisecond
	y.Submit(0, 0, 2, slo0)
	y.Submit(0, 1, 1, slo1)
	y.Submit(1, 0, 18, slo0)
	y.Submit(2, 1, 4, slo1)
	y.Submit(40, 0, 30, slo0)
	y.Submit(42, 1, 12, slo1)
	y.Advance(100)
	y.RemoveGPU(100, 1)
	y.Submit(101, 0, 4, slo0)
	y.Submit(101, 1, 2, slo1)
	y.Submit(102, 0, 9, slo0)
	y.Advance(200)
	y.Golden("story", `
Two GPUs; model 0: l(b) = b+5 ms, SLO 25, 1,000 r/s; model 1: b+3, SLO 40, 60 r/s.
The rates are scaled until the plan just fills the GPUs: GPU 0 runs model 0
alone in batches of 7, GPU 1 runs batches of 5 of it and of 1 of model 1.
To see: a free GPU takes what waits, at once, one request too (0.00). GPU 1
changes between its models in turn, and a batch has the planned size at most
(20 to 32). The oldest are shed when the window behind them can make its
deadline and they cannot (18). 40 requests are the limit (42). When GPU 1 is
lost the plan is made anew, and GPU 0 runs both models, in batches of 5 and 1.`)
}

// A GPU is lost with a batch of three, of which one has too little time left,
// and with four more that wait for it. The other GPU gets the rest.
func TestLostGPU(t *testing.T) {
	const ms = mono.Time(mono.Millisecond)
	s := New(policy.Config{RequestsMax: 100}, Options{})
	var out policy.Out
	s.AddModel(0, linear(t, 1, 5, 25, 1))
	for i := range 2 {
		s.AddGPU(0, wire.GPUID(i), &out)
	}
	for i := range 14 {
		at := mono.Time(0)
		if i >= 6 {
			at = ms
		}
		due := at.Add(25 * mono.Millisecond)
		if i < 2 {
			due = 9 * ms // the first request of each GPU
		}
		s.Submit(at, 0, batching.Request{ID: wire.RequestID(i), Deadline: due}, &out)
		if i == 5 {
			s.Step(0, &out)
		}
	}
	s.Step(ms, &out)
	if len(out.Dispatches) != 2 || len(out.Dispatches[0].Requests) != 3 || len(out.Drops) != 0 {
		t.Fatalf("%+v, %+v", out.Dispatches, out.Drops)
	}
	lost := out.Dispatches[1]
	id, gpu, first := lost.Batch, lost.GPU, lost.Requests[0].ID
	out.Reset()
	s.RemoveGPU(4*ms, gpu, &out)
	if len(out.Drops) != 1 || out.Drops[0].Reason != wire.ReasonBackendLost || out.Drops[0].Request.ID != first {
		t.Errorf("drops %+v, want request %d as backend_lost", out.Drops, first)
	}
	s.Done(5*ms, id, 5*ms, &out) // late news of a lost batch
	if got := s.gpus[1-gpu].slots[0].queue.Len(); got != 10 || s.requests != 13 {
		t.Errorf("%d wait for the GPU that is left, %d in all; want 10 of 13", got, s.requests)
	}
	s.RemoveGPU(5*ms, 1-gpu, &out)
	if len(out.Drops) != 14 || s.requests != 0 || s.NextWake() != mono.Never {
		t.Errorf("%d dropped, %d left when no GPU was", len(out.Drops), s.requests)
	}
	s.Submit(6*ms, 0, batching.Request{Deadline: 30 * ms}, &out)
	if last := out.Drops[len(out.Drops)-1]; last.Reason != wire.ReasonUnavailable {
		t.Errorf("dropped as %v without a GPU", last.Reason)
	}
}

// The rules of package policy; plans change often.
func TestRandom(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *Scheduler
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: undoneMax,
				New: func(cfg policy.Config) policy.Scheduler {
					s = New(cfg, Options{Epoch: 300 * mono.Millisecond})
					return s
				}})
			if s.requests != 0 {
				t.Errorf("%d requests are counted at the end", s.requests)
			}
		})
	}
}

// Two models on four GPUs of which some are lost for half a second, then all.
func TestFewerGPUs(t *testing.T) {
	const half = 500 * mono.Millisecond
	for seed := range uint64(12) {
		cfg := policy.Config{RequestsMax: 400, Frontends: 1 + 7*int(seed%2), Seed: seed,
			Delay: batching.Delay{Ctrl: mono.Dur(seed/2%3) * 300 * mono.Microsecond, Data: mono.Dur(seed%3) * 10 * mono.Microsecond}}
		models := []policy.Model{linear(t, 1, 5, 25, 500), linear(t, 2, 4, 60, 0)}
		c := newCluster(t, cfg, Options{Epoch: 300 * mono.Millisecond}, models, 4)
		load := 0.3 + 0.4*float64(seed%5)
		c.Poisson(half, 1000*load, 600*load)
		c.Lose(1)
		c.Lose(3)
		c.Poisson(half, 1500*load, 0)
		c.Return(3)
		c.Poisson(half, 200*load, 900*load)
		for _, i := range []wire.GPUID{0, 2, 3} {
			c.Lose(i)
		}
		c.Poisson(10*mono.Millisecond, 1000, 1000)
		for i := range wire.GPUID(4) {
			c.Return(i)
		}
		c.Poisson(half, 4000*load, 600*load)
		c.Drain()
		if c.Dropped[wire.ReasonUnavailable] == 0 || c.Served < c.Submitted/4 || c.s.requests != 0 {
			t.Errorf("seed %d: %v; %d are counted at the end", seed, &c.Tally, c.s.requests)
		}
	}
}

// After an epoch the plan follows the load: model 1, which nobody expected, has
// all of it, and then most of the GPUs' rate.
func TestEpochFollowsTheLoad(t *testing.T) {
	models := []policy.Model{linear(t, 1, 5, 25, 2000), linear(t, 1, 5, 25, 0)}
	c := newCluster(t, policy.Config{RequestsMax: 10000, Seed: 1}, Options{Epoch: mono.Second}, models, 4)
	c.Poisson(990*mono.Millisecond, 0, 1500)
	before := c.BadRate()
	c.Poisson(60*mono.Millisecond, 0, 1500) // the new plan is made
	submitted, served := c.Submitted, c.Served
	c.Poisson(900*mono.Millisecond, 0, 1500)
	after := 1 - float64(c.Served-served)/float64(c.Submitted-submitted)
	if before < 0.3 || after > 0.02 {
		t.Errorf("bad rate %.3f by the first plan, %.3f by the second", before, after)
	}
	if r := c.s.models[1].rate; r < 1350 || r > 1650 || len(c.s.models[1].routes) != 4 {
		t.Errorf("rate %v on %d GPUs, want about 1500 on 4", r, len(c.s.models[1].routes))
	}
}

// A new plan leaves requests where they wait when the GPU keeps their model.
func TestQueueStaysWithItsGPU(t *testing.T) {
	s := New(policy.Config{RequestsMax: 100}, Options{})
	var out policy.Out
	s.AddModel(0, linear(t, 1, 5, 25, 1))
	s.AddGPU(0, 0, &out)
	r := batching.Request{Deadline: mono.Time(25 * mono.Millisecond)}
	for range 8 {
		s.Submit(0, 0, r, &out)
	}
	s.AddGPU(0, 1, &out)
	s.Step(0, &out)
	if len(out.Dispatches) != 1 || out.Dispatches[0].GPU != 0 || s.gpus[0].slots[0].queue.Len() != 1 {
		t.Errorf("%+v", out.Dispatches)
	}
	s.Submit(0, 0, r, &out)
	s.Submit(0, 0, r, &out)
	if s.gpus[0].slots[0].queue.Len() != 2 || s.gpus[1].slots[0].queue.Len() != 1 {
		t.Error("new requests are not shared by both GPUs")
	}
}

func TestRefusals(t *testing.T) {
	var s *Scheduler
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler {
		s = New(cfg, Options{})
		return s
	})
	if s.requests != 0 {
		t.Errorf("%d requests are counted at the end", s.requests)
	}
}

// An order leaves so early that it arrives when the GPU is free, and a GPU
// that does not report gets one batch more and then nothing.
func TestOrderedAhead(t *testing.T) {
	const ms = mono.Time(mono.Millisecond)
	s := New(policy.Config{RequestsMax: 100, Delay: batching.Delay{Ctrl: mono.Millisecond}}, Options{})
	var out policy.Out
	s.AddModel(0, linear(t, 0, 10, 100, 1))
	s.AddGPU(0, 0, &out)
	submit := func(at mono.Time) {
		s.Submit(at, 0, batching.Request{Deadline: at.Add(100 * mono.Millisecond)}, &out)
		s.Step(at, &out)
	}
	submit(0)
	if len(out.Dispatches) != 1 || out.Dispatches[0].Exec != ms {
		t.Fatalf("%+v", out.Dispatches)
	}
	submit(2 * ms)
	if w := s.NextWake(); w != 10*ms {
		t.Fatalf("due at %v, want 10ms: the first batch ends at 11ms", w)
	}
	s.Step(10*ms, &out)
	if len(out.Dispatches) != 2 || out.Dispatches[1].Exec != 11*ms {
		t.Fatalf("%+v", out.Dispatches)
	}
	submit(11 * ms)
	if len(out.Dispatches) != 2 || s.NextWake() != mono.Never {
		t.Fatalf("a third batch for a GPU that has two undone, or due at %v", s.NextWake())
	}
	s.Done(13*ms, out.Dispatches[0].Batch, 13*ms, &out) // 2 ms late: the second ends at 23
	if w := s.NextWake(); w != 22*ms {
		t.Errorf("due at %v, want 22ms", w)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := New(policy.Config{RequestsMax: 1000}, Options{})
	var out policy.Out
	s.AddModel(0, linear(t, 1, 5, 25, 1))
	for i := range 4 {
		s.AddGPU(0, wire.GPUID(i), &out)
	}
	now := mono.Time(0)
	step := func() {
		now = now.Add(mono.Millisecond)
		out.Reset()
		for range 5 {
			s.Submit(now, 0, batching.Request{Deadline: now.Add(25 * mono.Millisecond)}, &out)
		}
		s.Step(now, &out)
		for _, d := range out.Dispatches {
			s.Done(now, d.Batch, d.Until, &out)
		}
	}
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations a step, want 0", n)
	}
}

func BenchmarkSubmit(b *testing.B) {
	s := New(policy.Config{RequestsMax: 1 << 20}, Options{})
	var out policy.Out
	s.AddModel(0, linear(b, 1, 5, 25, 1))
	for i := range 512 {
		s.AddGPU(0, wire.GPUID(i), &out)
	}
	now := mono.Time(0)
	for b.Loop() {
		now = now.Add(4 * mono.Microsecond)
		out.Reset()
		s.Submit(now, 0, batching.Request{Deadline: now.Add(25 * mono.Millisecond)}, &out)
		s.Step(now, &out)
		for _, d := range out.Dispatches {
			s.Done(now, d.Batch, d.Until, &out)
		}
	}
}

// A plan for 100 models and 512 GPUs, which is made once an epoch.
func BenchmarkPlan(b *testing.B) {
	s := New(policy.Config{}, Options{})
	var out policy.Out
	for i := range 100 {
		s.AddModel(wire.ModelID(i), linear(b, 1, 5, 25+float64(i), 50*float64(i)))
	}
	for i := range 512 {
		s.AddGPU(0, wire.GPUID(i), &out)
	}
	for b.Loop() {
		s.plan()
	}
}
