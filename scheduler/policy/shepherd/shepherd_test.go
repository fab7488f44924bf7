package shepherd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

func linear(t testing.TB, alpha, beta float64, maxBatch int) *profile.Profile {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), maxBatch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// story has two models of l(b) = b + 5 ms.
func story(t *testing.T, opts Options, gpus int) *policytest.Story {
	models := []policy.Model{{Profile: linear(t, 1, 5, 16)}, {Profile: linear(t, 1, 5, 16)}}
	return policytest.New(t, New(policy.Config{RequestsMax: 100}, opts), models, gpus)
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

// The requests of a lost GPU wait again under their deadlines, or are dropped.
func TestLostGPU(t *testing.T) {
	models := []policy.Model{{Profile: linear(t, 1, 5, 16)}, {Profile: linear(t, 1, 5, 16)}}
	c := newCluster(t, New(policy.Config{RequestsMax: 100}, Options{}), models, 2)
	c.submit(0, 0, 4, 30*ms)
	c.submit(0, 1, 3, 9*ms)
	c.advance(mono.Time(3 * ms))
	if len(c.runs) != 2 {
		t.Fatalf("%d batches run, want one on each GPU", len(c.runs))
	}
	c.lose(c.runs[1].GPU) // three requests with 6 ms left: one is served when it comes back
	c.lose(c.runs[0].GPU) // four with time enough
	c.advance(mono.Time(100 * ms))
	if c.served != 5 || c.late != 0 || len(c.open) != 0 {
		t.Errorf("served %d, %d late, %d open; want 5, 0, 0", c.served, c.late, len(c.open))
	}
}

// One batch a GPU at a time, in time, each request once.
func TestRandom(t *testing.T) {
	preempted := 0
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			cfg := policy.Config{RequestsMax: 200, Delay: batching.Delay{Ctrl: mono.Dur(r.IntN(300)) * mono.Microsecond, Data: mono.Dur(r.IntN(20)) * mono.Microsecond}}
			var models []policy.Model
			for range 1 + r.IntN(5) {
				models = append(models, policy.Model{Profile: linear(t, 0.2+2*r.Float64(), 6*r.Float64(), 1+r.IntN(40))})
			}
			gpus := 1 + r.IntN(6)
			c := newCluster(t, New(cfg, Options{Preempt: int(seed % 4)}), models, gpus)
			if seed >= 8 {
				c.jitter = func() mono.Dur { return mono.FromMillis(r.NormFloat64() / 10) }
			}
			random(c, r, len(models), gpus)
			if len(c.open) != 0 || c.s.waiting != 0 || c.s.running != 0 || c.s.shrinks.Len() != 0 || c.s.idle.Len() != gpus {
				t.Errorf("at the end %d are open, %d wait, %d run, %d candidates are timed, %d GPUs are idle",
					len(c.open), c.s.waiting, c.s.running, c.s.shrinks.Len(), c.s.idle.Len())
			}
			if c.served < 500 || c.jitter == nil && c.late > 0 {
				t.Errorf("served %d requests, %d late", c.served, c.late)
			}
			if seed%4 < 2 && c.preempted > 0 {
				t.Errorf("%d batches were preempted, want none", c.preempted)
			}
			preempted += c.preempted
		})
	}
	if preempted < 100 {
		t.Errorf("only %d batches were preempted", preempted)
	}
}

// random submits for 2 s, with a spell of overload; GPUs are lost at times.
func random(c *cluster, r *rand.Rand, models, gpus int) {
	for at := 0.0; at < 2000; {
		gap := r.ExpFloat64()
		if at > 1000 && at < 1200 {
			gap /= 10
		}
		at += gap
		c.submit(mono.Time(mono.FromMillis(at)), wire.ModelID(r.IntN(models)), 1+r.IntN(3), mono.FromMillis(5+40*r.Float64()))
		if r.IntN(200) == 0 {
			c.lose(wire.GPUID(r.IntN(gpus)))
		}
	}
	c.advance(c.now.Add(mono.Second))
}

// Table 2 and Figures 1 and 2: the goodput, the median batch, and the fall
// beyond the peak.
func TestTable2(t *testing.T) {
	const gpus, seconds = 8, 4
	for _, k := range []struct {
		alpha, beta, slo float64
		rate, low, high  float64 // offered; served at least and at most: requests/s
		least, most      int     // median batch
	}{
		{1.053, 5.072, 25, 4445, 4400, 4500, 8, 10},
		{5.090, 18.368, 70, 778, 765, 800, 3, 5},
		{1.053, 5.072, 25, 8000, 1250, 1500, 1, 1},
	} {
		m := policy.Model{Profile: linear(t, k.alpha, k.beta, 64), SLO: mono.FromMillis(k.slo)}
		c := newCluster(t, New(policy.Config{RequestsMax: 1 << 16}, Options{Preempt: PreemptDefault}), []policy.Model{m}, gpus)
		r := rand.New(rand.NewPCG(1, 2))
		for at := 0.0; at < seconds; at += r.ExpFloat64() / k.rate {
			c.submit(mono.Time(mono.FromSeconds(at)), 0, 1, m.SLO)
		}
		c.advance(mono.Time((seconds + 1) * mono.Second))
		slices.Sort(c.sizes)
		served, median := float64(c.served)/seconds, c.sizes[len(c.sizes)/2]
		t.Logf("SLO %.0f ms, offered %.0f r/s: served %.0f, median batch %d, preempted %d", k.slo, k.rate, served, median, c.preempted)
		if served < k.low || served > k.high || median < k.least || median > k.most {
			t.Errorf("SLO %.0f ms, offered %.0f r/s: served %.0f in batches of %d; want %.0f to %.0f in %d to %d",
				k.slo, k.rate, served, median, k.low, k.high, k.least, k.most)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := New(policy.Config{RequestsMax: 2}, Options{})
	s.AddModel(0, policy.Model{Profile: linear(t, 1, 5, 16)})
	var out policy.Out
	submit := func(model wire.ModelID) { s.Submit(0, model, batching.Request{Deadline: 100 * mono.Time(ms)}, &out) }
	submit(0)
	s.AddGPU(0, 0, &out)
	s.AddGPU(0, 0, &out) // a new life of the same GPU
	submit(3)
	submit(0)
	s.Step(0, &out)
	submit(0)
	submit(0) // one runs, one waits
	s.RemoveGPU(0, 0, &out)
	s.Done(0, out.Dispatches[0].Batch, 0, &out) // it is lost: ignored
	var got []wire.Reason
	for _, d := range out.Drops {
		got = append(got, d.Reason)
	}
	want := []wire.Reason{wire.ReasonUnavailable, wire.ReasonUnknownModel, wire.ReasonFull, wire.ReasonBackendLost, wire.ReasonUnavailable}
	if !slices.Equal(got, want) {
		t.Errorf("drops %v, want %v", got, want)
	}
	if s.waiting+s.running+s.present+s.idle.Len() != 0 || s.NextWake() != mono.Never {
		t.Errorf("%d wait, %d run, %d GPUs, %d idle, next wake %v", s.waiting, s.running, s.present, s.idle.Len(), s.NextWake())
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
	s.AddModel(0, policy.Model{Profile: linear(t, 1, 5, 16)})
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

// Many models and GPUs, all busy: the cost of an arrival and of a batch.
func BenchmarkOverload(b *testing.B) {
	const models, gpus = 37, 64
	s := New(policy.Config{RequestsMax: 1 << 20}, Options{Preempt: PreemptDefault})
	for i := range wire.ModelID(models) {
		s.AddModel(i, policy.Model{Profile: linear(b, 0.5, 2, 64)})
	}
	var out policy.Out
	for i := range wire.GPUID(gpus) {
		s.AddGPU(0, i, &out)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var ends [gpus]policy.Dispatch
	now := mono.Time(0)
	b.ReportAllocs()
	for i := range b.N {
		now = now.Add(mono.Microsecond)
		for g := range ends {
			if d := &ends[g]; d.Batch != 0 && d.Until <= now {
				s.Done(now, d.Batch, d.Until, &out)
				d.Batch = 0
			}
		}
		s.Submit(now, wire.ModelID(r.IntN(models)), batching.Request{ID: wire.RequestID(i), Deadline: now.Add(30 * ms)}, &out)
		if s.NextWake() <= now {
			s.Step(now, &out)
		}
		for _, d := range out.Dispatches {
			d.Requests = nil
			ends[d.GPU] = d
		}
		out.Reset()
	}
}
