package clockwork

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// everywhere is a Paged whose GPUs join with all models: package policytest, which knows
// no loads, can drive it.
type everywhere struct {
	*Paged
	t      testing.TB
	models []wire.ModelID
}

func newEverywhere(t testing.TB, cfg policy.Config, opts PagedOptions) *everywhere {
	cfg.Pages = 100
	return &everywhere{Paged: NewPaged(cfg, opts), t: t}
}

func (e *everywhere) AddModel(id wire.ModelID, m policy.Model) {
	m.Pages, m.LoadTime = 1, ms
	e.models = append(e.models, id)
	e.Paged.AddModel(id, m)
}

func (e *everywhere) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	e.AddGPUWith(now, id, e.models, out)
}

func (e *everywhere) Step(now mono.Time, out *policy.Out) {
	e.Paged.Step(now, out)
	if len(out.Loads)+len(out.Unloads) > 0 {
		e.t.Errorf("at %v: loads %v, unloads %v where every model is on every GPU", now, out.Loads, out.Unloads)
	}
}

// resident has the paper's reading without the reserve, which stories do not need.
func resident(t testing.TB, cfg policy.Config, sizes BatchSizes, heads Heads) *everywhere {
	opts := Whole()
	opts.BatchSizes, opts.Heads, opts.Reserve = sizes, heads, 0
	return newEverywhere(t, cfg, opts)
}

// Where everything is resident it decides as the resident form: the same stories.
func TestPagedAsResident(t *testing.T) {
	dueFirst(policytest.New(t, resident(t, policy.Config{RequestsMax: 100}, Arbitrary, OldestRequest), policytest.Two(t), 1))
	y := policytest.New(t, resident(t, policy.Config{RequestsMax: 100}, Arbitrary, EveryRequest), policytest.Two(t), 1)
	overload(y)
	y.Golden("every_request", `
The arrivals of oldest_request.txt. At 1.00 the six requests R8-R13 can form a
larger batch than R2-R7, which have time for two: those are shed.`)
}

// The rules of package policy, and never more than the lookahead.
func TestPagedRandom(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *everywhere
			exact := seed < 8
			policytest.Walk(t, policytest.WalkConfig{Seed: seed, Exact: exact,
				New: func(cfg policy.Config) policy.Scheduler {
					s = resident(t, cfg, BatchSizes(seed%2), Heads(seed/2%2))
					return s
				},
				Check: func(c *policytest.Cluster, r *policytest.Run) {
					if _, until := c.Held(r.GPU); exact && until > c.Now.Add(lookahead) {
						t.Fatalf("at %v: GPU %d gets a batch and has work until %v", c.Now, r.GPU, until)
					}
				}})
			if s.waiting != 0 || s.running != 0 || s.chances.Len() != 0 || s.free.Len() != 0 {
				t.Errorf("at the end %d wait, %d run, %d heads are timed, %d GPUs look for work", s.waiting, s.running, s.chances.Len(), s.free.Len())
			}
			for i := range s.models {
				if d, n := s.memory.Demand(wire.ModelID(i)); d != 0 || n != 0 {
					t.Errorf("at the end model %d has a demand of %v by %d requests", i, d, n)
				}
			}
		})
	}
}

func TestPagedRefusals(t *testing.T) {
	policytest.Refusals(t, func(cfg policy.Config) policy.Scheduler { return resident(t, cfg, Arbitrary, OldestRequest) })
}

func TestPagedLostGPU(t *testing.T) {
	policytest.LostGPU(t, func(cfg policy.Config) policy.Scheduler { return resident(t, cfg, Arbitrary, OldestRequest) }, 6)
}

// small is one GPU of 10 pages and three models of 5 that take 8 ms to load, l(b) = b + 5 ms.
func small(t *testing.T, opts PagedOptions) (*Paged, *policy.Out) {
	t.Helper()
	s, out := NewPaged(policy.Config{RequestsMax: 100, Pages: 10}, opts), &policy.Out{}
	for m := range wire.ModelID(3) {
		s.AddModel(m, policy.Model{Profile: policytest.Linear(t, 1, 5, 16), SLO: 100 * ms, Pages: 5, LoadTime: 8 * ms})
	}
	s.AddGPU(0, 0, out)
	return s, out
}

func at(x float64) mono.Time { return mono.Time(mono.FromMillis(x)) }

func (s *Paged) submit(now mono.Time, m wire.ModelID, slo mono.Dur, out *policy.Out) {
	s.Submit(now, m, batching.Request{Arrival: now, Deadline: now.Add(slo)}, out)
	s.Step(now, out)
}

// A cold request: its load, then its batch, on the report and not before. For a third
// model the one that was used least recently makes room.
func TestPagedLoads(t *testing.T) {
	s, out := small(t, Whole())
	load := func(now float64, m wire.ModelID) {
		t.Helper()
		s.submit(at(now), m, 100*ms, out)
		if len(out.Loads) != 1 || out.Loads[0].Model != m || len(out.Dispatches) != 0 {
			t.Fatalf("at %v ms: loads %v, dispatches %v: one load was expected", now, out.Loads, out.Dispatches)
		}
		k := out.Loads[0]
		out.Reset()
		s.Loaded(k.Until, policy.LoadReport{ID: k.ID, Start: k.Until.Add(-8 * ms), End: k.Until, OK: true}, out)
		s.Step(k.Until, out)
		if len(out.Dispatches) != 1 || out.Dispatches[0].Model != m || out.Dispatches[0].Exec != k.Until {
			t.Fatalf("at %v ms: dispatches %v after the load", now, out.Dispatches)
		}
		end := out.Dispatches[0].Until
		batch := out.Dispatches[0].Batch
		out.Reset()
		s.Done(end, batch, end, out)
		s.Step(end, out)
	}
	load(0, 0)
	load(20, 1)
	s.submit(at(40), 0, 100*ms, out) // warm: used more recently than model 1
	if len(out.Loads) != 0 || len(out.Dispatches) != 1 {
		t.Fatalf("a warm request: loads %v, dispatches %v", out.Loads, out.Dispatches)
	}
	s.Done(at(46), out.Dispatches[0].Batch, at(46), out)
	out.Reset()
	s.submit(at(60), 2, 100*ms, out)
	if len(out.Unloads) != 1 || out.Unloads[0].Model != 1 || len(out.Loads) != 1 || out.Loads[0].Model != 2 {
		t.Fatalf("unloads %v, loads %v: model 1 was to make room for model 2", out.Unloads, out.Loads)
	}
}

// A model is loaded though its SLO is shorter than a load and a run: for the requests to come. What a request counts
// as is scaled by the time that it has.
func TestPagedTightSLO(t *testing.T) {
	s, out := small(t, Whole())
	s.submit(0, 0, 11*ms, out) // 10 ms of them count, and it takes 6
	if len(out.Loads) != 1 || out.Loads[0].Model != 0 {
		t.Errorf("loads %v, want model 0", out.Loads)
	}
	if d, n := s.memory.Demand(0); d != 60*ms || n != 1 {
		t.Errorf("a demand of %v by %d requests, want 6 ms * 100 / 10 by one", d, n)
	}
}

// A load that fails is tried again; what no load can save is dropped.
func TestPagedFailedLoad(t *testing.T) {
	s, out := small(t, Whole())
	s.submit(0, 0, 100*ms, out)
	id := out.Loads[0].ID
	out.Reset()
	s.Loaded(at(1), policy.LoadReport{ID: id, Start: at(1), End: at(1)}, out)
	for now := at(1); now <= at(100) && len(out.Drops) == 0; now = s.NextWake() {
		s.Step(now, out)
		if len(out.Dispatches) != 0 {
			t.Fatalf("a batch on a GPU without the model: %v", out.Dispatches)
		}
	}
	if len(out.Drops) != 1 || out.Drops[0].Reason != wire.ReasonDeadline {
		t.Errorf("drops %v: the request was to be dropped when it could not be in time", out.Drops)
	}
}

// Took: what runs longer is planned longer, and no other size or model is.
func TestPagedLearns(t *testing.T) {
	s, out := small(t, Whole())
	out.Reset()
	s.RemoveGPU(0, 0, out)
	s.AddGPUWith(0, 0, []wire.ModelID{0, 1}, out)
	for i := range 30 {
		now := at(float64(20 * i))
		s.submit(now, 0, 100*ms, out)
		if len(out.Dispatches) != 1 {
			t.Fatalf("turn %d: %v", i, out.Dispatches)
		}
		d := out.Dispatches[0]
		out.Reset()
		s.Took(d.Batch, 9*ms)
		s.Done(now.Add(9*ms), d.Batch, now.Add(9*ms), out)
	}
	if s.models[0].took[0] != 9*ms || s.models[0].took[1] != 7*ms || s.models[1].took[0] != 6*ms {
		t.Errorf("planned %v and %v, another model %v; want 9, 7 and 6 ms", s.models[0].took[0], s.models[0].took[1], s.models[1].took[0])
	}
}

// The reserve comes off the SLO, but not below the lookahead and itself.
func TestPagedReserve(t *testing.T) {
	for _, k := range []struct{ slo, want mono.Dur }{{100 * ms, 95 * ms}, {12 * ms, 10 * ms}, {8 * ms, 8 * ms}} {
		s, out := small(t, Whole())
		s.Submit(0, 0, batching.Request{Deadline: mono.Time(k.slo)}, out)
		if d := s.models[0].queue.Deadline(0); d != mono.Time(k.want) {
			t.Errorf("SLO %v: deadline %v, want %v", k.slo, d, k.want)
		}
	}
}

func TestPagedSteadyStateAllocatesNothing(t *testing.T) {
	s, out := small(t, Whole())
	now, m := mono.Time(0), wire.ModelID(0)
	turn := func() { // each model by turns: always one that is not there
		m = (m + 1) % 3
		s.submit(now, m, 100*ms, out)
		k := out.Loads[0]
		now = k.Until
		out.Reset()
		s.Loaded(now, policy.LoadReport{ID: k.ID, Start: now.Add(-8 * ms), End: now, OK: true}, out)
		s.Step(now, out)
		d := out.Dispatches[0]
		now = d.Until
		s.Took(d.Batch, d.Until.Sub(d.Exec))
		s.Done(now, d.Batch, now, out)
		s.Step(now, out)
		out.Reset()
		now = now.Add(50 * ms)
	}
	for range 100 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n != 0 {
		t.Errorf("%v allocations a load and a batch, want 0", n)
	}
}
