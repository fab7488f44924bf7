package clockwork

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// story has two models of l(b) = b + 5 ms.
func story(t *testing.T, opts Options, gpus int) *policytest.Story {
	return policytest.New(t, New(policy.Config{RequestsMax: 100}, opts), policytest.Two(t), gpus)
}

// Appendix B: 5 ms of work before each GPU; the strategy due first.
func TestDueFirst(t *testing.T) {
	dueFirst(story(t, Options{}, 1))
}

// dueFirst is the story of one GPU, which the form with pages tells likewise.
func dueFirst(y *policytest.Story) {
	y.Submit(0, 0, 1, 40*ms)
	y.Submit(0.5, 0, 3, 40*ms)
	y.Submit(0.6, 1, 2, 38.5*1e6)
	y.Submit(0.7, 0, 1, 40*ms)
	y.Submit(14.5, 1, 2, 40*ms)
	y.Advance(100)
	y.Golden("due_first", `
Two models of l(b) = b + 5 ms, one GPU. R1 runs at once. At 1.00 the GPU has 5 ms
of work left and takes more. Model 0 has R2-R4 and R7, due at 40.50: four must
start by 31.50. Model 1 has R5-R6, due at 39.10: two must start by 32.10. That is
later, although the deadline is earlier. At 10.00 and 17.00 the GPU has 5 ms
left again.`)
}

// The oldest request decides the size, however many wait behind it.
func TestOldestHeads(t *testing.T) {
	y := story(t, Options{}, 1)
	overload(y)
	y.Golden("oldest_request", `
One GPU, l(b) = b + 5 ms. R2-R7 have time for two at 1.00, when R8-R13 wait as
well: a batch of two, and the other four cannot make it. R8-R13 then run.`)
}

// Appendix B: the larger batch is chosen, the earlier requests are dropped.
func TestEveryRequestHeads(t *testing.T) {
	y := story(t, Options{Heads: EveryRequest}, 1)
	overload(y)
	y.Golden("every_request", `
The arrivals of oldest_request.txt. At 1.00 the six requests R8-R13 can form a
larger batch than R2-R7, which have time for two: those are shed.`)
}

func overload(y *policytest.Story) {
	y.Submit(0, 0, 1, 40*ms)
	y.Submit(0.2, 0, 6, 13*ms)
	y.Submit(0.9, 0, 6, 30*ms)
	y.Advance(100)
}

func TestPowersOfTwo(t *testing.T) {
	y := story(t, Options{BatchSizes: PowersOfTwo}, 1)
	y.Submit(0, 0, 7, 60*ms)
	y.Submit(30, 0, 9, 15*ms)
	y.Advance(100)
	y.Golden("powers_of_two", `
One GPU, l(b) = b + 5 ms. Seven requests run as 4, 2 and 1. Of the nine that
come at 30.00 eight fit (l(8) = 13). The GPU looks again at 38.00: the last one
cannot make it after them.`)
}

// The three short ones: each GPU that returns serves one.
func TestLostGPU(t *testing.T) {
	policytest.LostGPU(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{}) }, 6)
}

// The rules of package policy, and never more than the lookahead: for all
// readings.
func TestRandom(t *testing.T) {
	for seed := range uint64(16) {
		opts := Options{BatchSizes: BatchSizes(seed % 2), Heads: Heads(seed / 2 % 2)}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *Scheduler
			exact := seed < 8
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: exact,
				New: func(cfg policy.Config) policy.Scheduler {
					s = New(cfg, opts)
					return s
				},
				Check: func(c *policytest.Cluster, r *policytest.Run) {
					if _, until := c.Held(r.GPU); exact && until > c.Now.Add(lookahead) {
						t.Fatalf("at %v: GPU %d gets a batch and has work until %v", c.Now, r.GPU, until)
					}
				}})
			if s.waiting != 0 || s.running != 0 || s.chances.Len() != 0 {
				t.Errorf("at the end %d wait, %d run, %d heads are timed", s.waiting, s.running, s.chances.Len())
			}
		})
	}
}

// Table 2 and Figure 2: beyond its peak the goodput falls to that of batches of
// one, and EveryRequest's does not.
func TestCollapse(t *testing.T) {
	resnet := policy.Model{Profile: policytest.Linear(t, 1.053, 5.072, 64), SLO: 25 * ms}
	for _, k := range []struct {
		heads Heads
		load  policytest.Load
	}{
		{OldestRequest, policytest.Load{Rate: 4000, Low: 3900, High: 4100, Least: 4, Most: 6}},
		{OldestRequest, policytest.Load{Rate: 8000, Low: 1300, High: 1450, Least: 1, Most: 1}},
		{EveryRequest, policytest.Load{Rate: 8000, Low: 4800, High: 5600, Least: 10, Most: 14}},
	} {
		k.load.Model, k.load.GPUs, k.load.Seconds = resnet, 8, 2
		k.load.Check(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{Heads: k.heads}) })
	}
}

// What a report changes: the free time of its GPU, and that of the batch behind.
func TestDone(t *testing.T) {
	s := New(policy.Config{RequestsMax: 10}, Options{})
	s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16)})
	var out policy.Out
	s.AddGPU(0, 0, &out)
	at := func(x float64) mono.Time { return mono.Time(mono.FromMillis(x)) }
	submit := func(x float64) {
		s.Submit(at(x), 0, batching.Request{Deadline: at(x).Add(60 * ms)}, &out)
		s.Step(at(x), &out)
	}
	submit(0)
	submit(1)
	if len(out.Dispatches) != 2 || out.Dispatches[1].Exec != at(6) {
		t.Fatalf("two batches were expected, from 0 and from 6 ms: %+v", out.Dispatches)
	}
	s.Done(at(8), out.Dispatches[0].Batch, at(7.5), &out) // late by 1.5 ms
	if free := s.gpus[0].free; free != at(13.5) {
		t.Errorf("free at %v, want 13.5 ms: the batch behind a late one moves", free)
	}
	s.Done(at(8.1), out.Dispatches[0].Batch, at(8.1), &out) // again: ignored
	submit(13.6)
	if n := len(out.Dispatches); n != 2 {
		t.Fatalf("%d batches: a GPU that is overdue got one", n)
	}
	if wake := s.NextWake(); wake <= at(13.6) {
		t.Fatalf("NextWake %v while only an overdue GPU is there", wake)
	}
	s.Done(at(14), out.Dispatches[1].Batch, at(14), &out)
	if wake := s.NextWake(); wake > at(14) {
		t.Fatalf("NextWake %v: the report makes Step due", wake)
	}
	s.Step(at(14), &out)
	if n := len(out.Dispatches); n != 3 || out.Dispatches[2].Exec != at(14) {
		t.Fatalf("the request did not run after the report: %+v", out.Dispatches)
	}
}

func TestRefusals(t *testing.T) {
	var s *Scheduler
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler {
		s = New(cfg, Options{})
		return s
	})
	if s.waiting+s.running+s.present != 0 {
		t.Errorf("%d wait, %d run, %d GPUs", s.waiting, s.running, s.present)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, heads := range []Heads{OldestRequest, EveryRequest} {
		s := New(policy.Config{RequestsMax: 100}, Options{Heads: heads})
		s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16)})
		var out policy.Out
		s.AddGPU(0, 0, &out)
		now := mono.Time(0)
		turn := func() {
			for range 3 {
				s.Submit(now, 0, batching.Request{Deadline: now.Add(30 * ms)}, &out)
			}
			s.Step(now, &out)
			now = out.Dispatches[0].Until
			s.Done(now, out.Dispatches[0].Batch, now, &out)
			out.Reset()
		}
		turn()
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("heads %d: %v allocations a batch, want 0", heads, n)
		}
	}
}

func BenchmarkOverload(b *testing.B) {
	policytest.Overload(b, New(policy.Config{RequestsMax: 1 << 20}, Options{}))
}
