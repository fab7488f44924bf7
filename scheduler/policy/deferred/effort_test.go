package deferred

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

// three is a model with deadlines and two whose requests are of best effort; l(b) = b + 5 ms of all.
func three(t testing.TB) []policy.Model {
	models := append(policytest.Two(t), policytest.Two(t)[0])
	for i := range models {
		models[i].SLO = 40 * ms
	}
	return models
}

func story(t *testing.T, gpus int) *policytest.Story {
	return policytest.New(t, New(policy.Config{RequestsMax: 100}, Options{}), three(t), gpus)
}

func TestGapsAreFilled(t *testing.T) {
	y := story(t, 1)
	y.SubmitEffort(0, 1, 4)
	y.Submit(20, 0, 2, 40*ms)
	y.SubmitEffort(59.5, 1, 20)
	y.SubmitEffort(60, 2, 3)
	y.Submit(70, 0, 1, 40*ms)
	y.SubmitEffort(90, 2, 9)
	y.SubmitEffort(90, 1, 2)
	y.Advance(400)
	y.Golden("gaps", `
Model 0 has deadlines, models 1 and 2 have none; l(b) = b + 5 ms. R1-R4 run at once: nobody has a deadline. Once model 0 ran, batches of best effort
take 17 ms at most, half of its slack of 34 ms, and end by 103.00, when its next candidate is due. Models 1 and 2 are served by the GPU time that they
had since they both wait.`)
}

func TestHighestGPUFirst(t *testing.T) {
	y := story(t, 3)
	y.Submit(0, 0, 1, 40*ms)
	y.SubmitEffort(1, 1, 3)
	y.SubmitEffort(2, 2, 2)
	y.Submit(3, 0, 1, 40*ms)
	y.Advance(400)
	y.Golden("highest_first", `
Three GPUs: best effort takes the one with the highest id that is idle, and leaves GPU 0 to the candidate of model 0.`)
}

func TestEffortIsLost(t *testing.T) {
	y := story(t, 2)
	y.SubmitEffort(0, 1, 2)
	y.RemoveGPU(3, 1)
	y.Advance(100)
	y.Golden("lost", `
GPU 1 is lost with a batch of best effort, which waits again and runs on GPU 0.`)
}

// A request that has the GPUs to itself but for best effort is served in time, whatever comes of that: its model ran before, so
// that its slack is known.
func TestAloneBesideBestEffort(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		models, gpus := three(t), rapid.IntRange(1, 4).Draw(r, "GPUs")
		slo := mono.Dur(rapid.IntRange(7, 80).Draw(r, "SLO")) * ms
		models[0].SLO = slo
		models[2].Profile = policytest.Linear(t, rapid.Float64Range(0.1, 3).Draw(r, "alpha"), rapid.Float64Range(0, 30).Draw(r, "beta"), 40)
		cfg := policy.Config{RequestsMax: 1 << 16, Delay: batching.Delay{Ctrl: mono.Dur(rapid.IntRange(0, 300).Draw(r, "delay")) * mono.Microsecond}}
		set := rapid.SampledFrom([]batching.Setting{{}, {Haste: batching.HasteAll}}).Draw(r, "setting")
		c := policytest.NewCluster(t, cfg, New(cfg, Options{Setting: set}), models, gpus)
		c.Submit(0, 1, slo)
		c.Advance(mono.Time(slo))
		for range 30 {
			for range rapid.IntRange(0, 3).Draw(r, "efforts") {
				c.SubmitEffort(wire.ModelID(rapid.IntRange(1, 2).Draw(r, "model")), rapid.IntRange(1, 30).Draw(r, "requests"))
				c.Advance(c.Now.Add(mono.Dur(rapid.IntRange(0, 20).Draw(r, "gap")) * ms))
			}
			c.Submit(0, 1, slo)
			c.Advance(c.Now.Add(slo))
		}
		c.Advance(c.Now.Add(300 * mono.Second))
		if c.Late > 0 || c.Served != c.Submitted {
			r.Fatalf("%v", &c.Tally)
		}
	})
}

// Beside best effort, no more requests with deadlines are lost than alone with SLOs that are shorter by what best effort may
// take, over many draws.
func TestBesideBestEffort(t *testing.T) {
	bad := func(seed uint64, effort bool, less mono.Dur) (lost int) {
		models := three(t)
		for i := range models[:2] {
			models[i].SLO -= less
		}
		cfg := policy.Config{RequestsMax: 10_000, Seed: seed}
		c := policytest.NewCluster(t, cfg, New(cfg, Options{}), models, 1+int(seed)%3)
		c.Observe.Drop = func(d *batching.Drop) { lost++ }
		c.Submit(0, 1, models[0].SLO)
		c.Submit(1, 1, models[1].SLO)
		c.Advance(mono.Time(100 * ms))
		for range 400 {
			if effort && c.Open() < 300 {
				c.SubmitEffort(2, 40)
			}
			rate := 30 + 30*float64(seed%5)
			c.Poisson(10*ms, rate*float64(1+seed%3), rate*float64(1+seed%3))
		}
		c.Advance(c.Now.Add(1000 * mono.Second))
		if c.Late > 0 {
			t.Fatalf("seed %d: %v", seed, &c.Tally)
		}
		return lost
	}
	beside, alone, tight, all := 0, 0, 0, 0
	for seed := range uint64(30) {
		beside, alone, tight, all = beside+bad(seed, true, 0), alone+bad(seed, false, 0), tight+bad(seed, false, 17*ms), all+1
	}
	t.Logf("lost in %d draws: %d beside best effort, %d alone, %d alone with 17 ms less", all, beside, alone, tight)
	if beside > tight || tight == 0 {
		t.Errorf("%d requests are lost beside best effort, %d alone with SLOs that are 17 ms shorter (%d with their own)", beside, tight, alone)
	}
}

// The rules of package policy, with best effort: what waits for a gap that never comes is served when the others are silent.
func TestRandomWithEffort(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: seed < 12, HeldMax: 2, Effort: true, Settle: 300 * mono.Second,
				New: func(cfg policy.Config) policy.Scheduler {
					return New(cfg, Options{Setting: batching.Setting{Room: seed%2 == 0}})
				}})
		})
	}
}

// Where GPUs are idle nobody waits for ever: not even for those whose batches are longer than anybody's slack, once enough GPUs are
// left.
func TestLongBatchesRunWhereGPUsAreEnough(t *testing.T) {
	models := three(t)
	models[2].Profile = policytest.Linear(t, 10, 200, 4)
	cfg := policy.Config{RequestsMax: 1000}
	c := policytest.NewCluster(t, cfg, New(cfg, Options{}), models, 4)
	c.Submit(0, 1, 40*ms)
	c.Advance(mono.Time(50 * ms))
	c.SubmitEffort(2, 3)
	c.Advance(mono.Time(5 * mono.Second)) // by then it is known how many GPUs model 0 needs
	if c.Open() > 0 || c.Served != 4 {
		t.Errorf("%d requests wait on 4 idle GPUs", c.Open())
	}
}

// Steady state allocates nothing with best effort, either.
func TestEffortAllocatesNothing(t *testing.T) {
	s, out := New(policy.Config{RequestsMax: 1000}, Options{}), &policy.Out{}
	for i, m := range three(t) {
		s.AddModel(wire.ModelID(i), m)
	}
	for id := range wire.GPUID(3) {
		s.AddGPU(0, id, out)
	}
	now, id := mono.Time(0), wire.RequestID(0)
	var runs []policy.Dispatch
	turn := func() {
		for k := range wire.ModelID(3) {
			id++
			r := batching.Request{ID: id, Arrival: now, Deadline: now.Add(40 * ms)}
			if k > 0 {
				r.Class, r.Deadline = wire.ClassBestEffort, now.Add(3600*mono.Second)
			}
			s.Submit(now, k, r, out)
		}
		for range 20 {
			if s.NextWake() <= now {
				s.Step(now, out)
			}
			for _, d := range out.Dispatches {
				d.Requests = nil
				runs = append(runs, d)
			}
			out.Reset()
			now = now.Add(ms)
			for i := 0; i < len(runs); i++ {
				if runs[i].Until <= now {
					s.Done(now, runs[i].Batch, runs[i].Until, out)
					runs[i] = runs[len(runs)-1]
					runs, i = runs[:len(runs)-1], i-1
				}
			}
		}
	}
	for range 200 {
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
}
