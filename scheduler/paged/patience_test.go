package paged

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Who is eager does not wait for its exec: the smallest idle holder takes it; and its grant was due when it was told.
func TestEagerStartsAtOnce(t *testing.T) {
	p, out := holding([]mono.Time{0, 50, 0}, []wire.ModelID{1}, []wire.ModelID{0, 1}, []wire.ModelID{0})
	p.cfg.Eager = true
	p.SetCandidate(3*at1, 0, candidate(30, 90))
	if p.NextWake() > 3*at1 {
		t.Fatalf("next wake %v, want at once", p.NextWake())
	}
	expect(t, p, out, 4, [2]int{0, 2})
	if g := out.Grants[0]; !g.Idle || g.Due != 3*at1 {
		t.Errorf("%+v: want one of an idle GPU, due at 3 ms", g)
	}
	p.SetCandidate(5*at1, 1, candidate(30, 90)) // beside a busy GPU, an idle one
	expect(t, p, out, 5, [2]int{1, 0})
}

// A busy holder goes to who is due first, eager or not, and nothing is learnt of leads from starts that deferral would have
// had later.
func TestEagerWaitsForABusyHolder(t *testing.T) {
	p, out := holding([]mono.Time{20}, []wire.ModelID{0, 1, 2})
	p.cfg.Eager = true
	for id, latest := range []mono.Time{90, 70, 80} {
		p.SetCandidate(0, wire.ModelID(id), candidate(30, latest))
	}
	expect(t, p, out, 0)
	expect(t, p, out, 20, [2]int{1, 0})
	if p.leads.of(1) != 0 || p.leads.mean != 20*ms/meanMemory {
		t.Errorf("lead %v, mean wait %v: want none, and the 20 ms that it waited", p.leads.of(1), p.leads.mean)
	}
}

// While best effort waits, the whole deferral is spent.
func TestBestEffortWaitsSoNobodyIsEager(t *testing.T) {
	p, out := holding([]mono.Time{0}, []wire.ModelID{0})
	p.cfg.Eager = true
	p.SetWish(0, gaps.Wish{Model: 1, Least: 3 * ms}) // on no GPU
	p.SetCandidate(0, 0, candidate(30, 90))
	expect(t, p, out, 29)
	expect(t, p, out, 30, [2]int{0, 0})
	p.Answer(30*at1, devices.Answer{Grant: out.Grants[0]}, 0)
	p.SetWish(30*at1, gaps.Wish{Model: 1})
	p.SetCandidate(30*at1, 0, candidate(60, 90))
	expect(t, p, out, 30, [2]int{0, 0})
}

// While pages are short nothing is deferred: what waits starts, and makes room. A while later it is as before.
func TestShortOfPagesNothingIsDeferred(t *testing.T) {
	p, out := New(Config{}), &Out{}
	for id := range wire.ModelID(2) {
		p.AddModel(id, residency.Model{Pages: 8, LoadTime: 8 * ms})
	}
	life, _ := p.AddGPU(0, 0, 0, 10, []wire.ModelID{0}, out)
	p.Arrive(0, 0, 3*ms, 400*at1)
	p.SetCandidate(0, 0, candidate(390, 400))
	expect(t, p, out, 0)
	p.Arrive(at1, 1, 3*ms, 401*at1)
	expect(t, p, out, 1, [2]int{0, 0})
	p.Answer(at1, devices.Answer{Grant: out.Grants[0], Batch: 7, Exec: at1, Until: 4 * at1}, 1)
	p.SetCandidate(at1, 0, batching.Candidate{})
	p.Done(4*at1, 0, life, 7, 4*at1)
	expect(t, p, out, 4)
	if len(out.Unloads) != 1 || len(out.Loads) != 1 || out.Loads[0].Model != 1 {
		t.Fatalf("unloads %+v, loads %+v, want model 0 to make room for model 1", out.Unloads, out.Loads)
	}
	later := 2 * mono.Time(shortFor) / at1
	p.SetCandidate(later*at1, 1, candidate(390, 401))
	expect(t, p, out, later)
}

// That is so also of what was deferred while best effort waited, which waits no more.
func TestShortOfPagesAfterBestEffort(t *testing.T) {
	p, out := New(Config{Eager: true}), &Out{}
	for id := range wire.ModelID(3) {
		p.AddModel(id, residency.Model{Pages: 8, LoadTime: 8 * ms})
	}
	p.AddGPU(0, 0, 0, 10, []wire.ModelID{0}, out)
	p.SetWish(0, gaps.Wish{Model: 2, Least: 3 * ms})
	p.Arrive(0, 0, 3*ms, 400*at1)
	p.SetCandidate(0, 0, candidate(390, 400))
	p.SetWish(0, gaps.Wish{Model: 2})
	expect(t, p, out, 0)
	p.Arrive(at1, 1, 3*ms, 401*at1)
	expect(t, p, out, 1, [2]int{0, 0})
}

// A pinned model that nobody waits for has all the time there is: its load says nothing of how long others may keep a loader.
func TestPinnedLoadsLeaveTimeForBestEffort(t *testing.T) {
	p, out := New(Config{}), &Out{}
	p.AddModel(0, residency.Model{Pages: 2, LoadTime: 8 * ms, Pinned: true})
	p.AddModel(1, residency.Model{Pages: 2, LoadTime: 8 * ms})
	p.AddGPU(0, 0, 0, 10, nil, out)
	expect(t, p, out, 0)
	p.Loaded(8*at1, residency.Report{ID: out.Loads[0].ID, End: 8 * at1, OK: true}, out)
	p.SetWish(8*at1, gaps.Wish{Model: 1, Least: 3 * ms})
	expect(t, p, out, 8)
	if len(out.Loads) != 2 || !out.Loads[1].Spare {
		t.Errorf("%+v: want that of best effort, too", out.Loads)
	}
}
