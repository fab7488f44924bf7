package shepherd

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// story has two models of l(b) = b + 5 ms.
func story(t *testing.T, opts Options, gpus int) *policytest.Story {
	return policytest.New(t, New(policy.Config{RequestsMax: 100}, opts), policytest.Two(t), gpus)
}

// Section 2.2: a GPU that becomes free takes the largest candidate.
func TestLargestFirst(t *testing.T) {
	y := story(t, Options{}, 1)
	y.Submit(0, 0, 5, 60*ms)
	y.Submit(1, 0, 2, 60*ms)
	y.Submit(2, 1, 3, 30*ms)
	y.Submit(3, 1, 4, 80*ms)
	y.Submit(3, 0, 5, 80*ms)
	y.Advance(100)
	y.Golden("largest_first", `
Two models of l(b) = b + 5 ms, one GPU, no preemption. At 10.00 each model has
seven requests: the earliest deadline breaks the tie. Model 1's is 32.00, model 0's
61.00.`)
}

// The candidate shrinks with the time that its head has left.
func TestCandidateShrinks(t *testing.T) {
	y := story(t, Options{}, 1)
	y.Submit(0, 0, 5, 60*ms)
	y.Submit(1, 0, 8, 17*ms)
	y.Submit(1, 1, 4, 40*ms)
	y.Advance(100)
	y.Golden("candidate_shrinks", `
Two models of l(b) = b + 5 ms, one GPU, no preemption. R6-R13 are due at 18.00: at
10.00 three of them can still be served together (8 ms), and the four of model
1 are the larger candidate. R6-R13 can make it alone until 12.00.`)
}

// Section 2.2: a candidate of three times the size preempts.
func TestPreemption(t *testing.T) {
	y := story(t, Options{Preempt: PreemptDefault}, 2)
	y.Submit(0, 0, 2, 40*ms)
	y.Submit(1, 0, 1, 40*ms)
	y.Submit(2, 1, 2, 40*ms)
	y.Submit(3, 1, 1, 40*ms)
	y.Submit(4, 1, 5, 40*ms)
	y.Submit(4.5, 0, 5, 40*ms)
	y.Advance(100)
	y.Golden("preemption", `
Two models of l(b) = b + 5 ms, two GPUs. At 3.00 model 1 has three requests: three
times R3 on GPU 1, not R1-R2. R3 waits again. At 4.50 model 0 has six, three times
R1-R2 on GPU 0. At 11.00 and 15.50 the GPUs are free.`)
}

// Equal sizes: the batch that has done least is the victim. What has no time
// left after that is dropped.
func TestVictim(t *testing.T) {
	y := story(t, Options{Preempt: PreemptDefault}, 3)
	y.Submit(0, 0, 1, 40*ms)
	y.Submit(1, 0, 1, 7*ms)
	y.Submit(1.5, 0, 2, 40*ms)
	y.Submit(3, 1, 3, 40*ms)
	y.Advance(100)
	y.Golden("victim", `
Three GPUs. At 3.00 R1 and R2 run alone on GPUs 0 and 1, R2 for less long: it makes
room for R5-R7. Due at 8.00, it cannot begin again.`)
}

// The three short ones: one is served when a GPU returns.
func TestLostGPU(t *testing.T) {
	policytest.LostGPU(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{}) }, 5)
}

// The rules of package policy, and one batch a GPU, with and without
// preemption.
func TestRandom(t *testing.T) {
	preempted := 0
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *Scheduler
			k := policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 8, HeldMax: 1,
				New: func(cfg policy.Config) policy.Scheduler {
					s = New(cfg, Options{Preempt: int(seed % 4)})
					return s
				}})
			if s.waiting != 0 || s.running != 0 || s.shrinks.Len() != 0 || s.idle.Len() != s.present {
				t.Errorf("at the end %d wait, %d run, %d candidates are timed, %d of %d GPUs are idle",
					s.waiting, s.running, s.shrinks.Len(), s.idle.Len(), s.present)
			}
			if seed%4 < 2 && k.Preempted > 0 {
				t.Errorf("%d batches were preempted, want none", k.Preempted)
			}
			preempted += k.Preempted
		})
	}
	if preempted < 100 {
		t.Errorf("only %d batches were preempted", preempted)
	}
}

// Table 2 and Figures 1 and 2: the goodput, the median batch, and the fall
// beyond the peak.
func TestTable2(t *testing.T) {
	resnet := policy.Model{Profile: policytest.Linear(t, 1.053, 5.072, 64), SLO: 25 * ms}
	inception := policy.Model{Profile: policytest.Linear(t, 5.090, 18.368, 64), SLO: 70 * ms}
	for _, k := range []policytest.Load{
		{Model: resnet, Rate: 4445, Low: 4400, High: 4500, Least: 8, Most: 10},
		{Model: inception, Rate: 778, Low: 765, High: 800, Least: 3, Most: 5},
		{Model: resnet, Rate: 8000, Low: 1250, High: 1500, Least: 1, Most: 1},
	} {
		k.GPUs, k.Seconds = 8, 4
		k.Check(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{Preempt: PreemptDefault}) })
	}
}

func TestRefusals(t *testing.T) {
	var s *Scheduler
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler {
		s = New(cfg, Options{})
		return s
	})
	if s.waiting+s.running+s.present+s.idle.Len() != 0 {
		t.Errorf("%d wait, %d run, %d GPUs, %d idle", s.waiting, s.running, s.present, s.idle.Len())
	}
}

// The keys order by size before instant, at the ends of both ranges.
func TestKeys(t *testing.T) {
	far := mono.Never
	inOrder := func(what string, keys ...int64) {
		for i := range keys[1:] {
			if keys[i] >= keys[i+1] {
				t.Errorf("%s: key %d is not below the next one: %v", what, i, keys)
			}
		}
	}
	inOrder("candidates", candidateKey(profile.BatchMax, 0), candidateKey(profile.BatchMax, far), candidateKey(2, 0), candidateKey(2, 4096), candidateKey(2, far), candidateKey(1, 0))
	inOrder("victims", victimKey(1, far), victimKey(1, 4096), victimKey(1, 0), victimKey(2, far), victimKey(profile.BatchMax, far), victimKey(profile.BatchMax, 0))
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := New(policy.Config{RequestsMax: 100}, Options{Preempt: PreemptDefault})
	s.AddModel(0, policy.Model{Profile: policytest.Linear(t, 1, 5, 16)})
	var out policy.Out
	s.AddGPU(0, 0, &out)
	now, preempted := mono.Time(0), 0
	submit := func(n int) {
		for range n {
			s.Submit(now, 0, batching.Request{Deadline: now.Add(30 * ms)}, &out)
		}
		s.Step(now, &out)
	}
	turn := func() {
		submit(1)
		now = now.Add(ms)
		submit(3) // preempts
		preempted += len(out.Preempts)
		now = out.Dispatches[1].Until
		s.Done(now, out.Dispatches[1].Batch, now, &out)
		s.Step(now, &out)
		now = out.Dispatches[2].Until
		s.Done(now, out.Dispatches[2].Batch, now, &out)
		out.Reset()
	}
	turn()
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
	if preempted < 1000 {
		t.Errorf("%d preemptions in 1,000 turns", preempted)
	}
}

func BenchmarkOverload(b *testing.B) {
	policytest.Overload(b, New(policy.Config{RequestsMax: 1 << 20}, Options{Preempt: PreemptDefault}))
}
