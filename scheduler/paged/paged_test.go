package paged

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// holding is a matchmaker of GPUs with ten pages, free from these instants on (in ms); held are the models
// of 2 pages and a load time of 8 ms that each has.
func holding(free []mono.Time, held ...[]wire.ModelID) (*Paged, *Out) {
	p, out := New(Config{}), &Out{}
	for id := range wire.ModelID(4) {
		p.AddModel(id, residency.Model{Pages: 2, LoadTime: 8 * ms})
	}
	for id, at := range free {
		p.AddGPU(0, wire.GPUID(id), at*at1, 10, held[id], out)
	}
	return p, out
}

const at1 = mono.Time(ms)

func candidate(exec, latest mono.Time) batching.Candidate {
	return batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: exec * at1, Latest: latest * at1}
}

// expect steps at an instant in ms and checks the (model, GPU) pairs that are granted.
func expect(t *testing.T, p *Paged, out *Out, now mono.Time, want ...[2]int) {
	t.Helper()
	out.Grants = out.Grants[:0]
	p.Step(now*at1, out)
	var got [][2]int
	for _, g := range out.Grants {
		got = append(got, [2]int{int(g.Model), int(g.GPU)})
	}
	if !slices.Equal(got, want) {
		t.Fatalf("at %d ms: granted (model, GPU) %v, want %v", now, got, want)
	}
}

// Rule 1: the smallest holder that is free by exec, not the smallest GPU.
func TestSmallestHolder(t *testing.T) {
	p, out := holding([]mono.Time{0, 50, 20, 10}, nil, []wire.ModelID{0}, []wire.ModelID{0}, []wire.ModelID{0})
	p.SetCandidate(p.now, 0, candidate(30, 40))
	if p.NextWake() != 30*at1 {
		t.Fatalf("next wake %v, want 30 ms", p.NextWake())
	}
	expect(t, p, out, 29)
	expect(t, p, out, 30, [2]int{0, 2})
	if g := out.Grants[0]; g.FreeAt != 20*at1 || g.GPUs != 3 || g.Generation == 0 || !g.Idle {
		t.Errorf("%+v: want a GPU that is free from 20 ms on, one of three, with a generation", g)
	}
}

// Rule 1 where the lead puts exec into the past: of those that an order sent now finds free, the smallest, not
// the one that became free first.
func TestSmallestHolderAfterTheLead(t *testing.T) {
	p, out := holding([]mono.Time{0, 20, 0, 10}, []wire.ModelID{1}, []wire.ModelID{0}, nil, []wire.ModelID{0})
	p.leads.longest = 60 * ms
	p.SetCandidate(p.now, 0, candidate(30, 40)) // by its lead it was due at 0
	expect(t, p, out, 25, [2]int{0, 1})
	if g := out.Grants[0]; !g.Idle || g.FreeAt != 20*at1 {
		t.Errorf("%+v: want a GPU that was idle from 20 ms on", g)
	}
}

// Rule 1: with none by exec it is ready on all of its holders, and takes the first; the others forget it.
func TestReadyOnAllHolders(t *testing.T) {
	p, out := holding([]mono.Time{60, 50, 40}, []wire.ModelID{0, 1}, []wire.ModelID{0}, []wire.ModelID{1})
	p.SetCandidate(p.now, 0, candidate(10, 90))
	p.SetCandidate(p.now, 1, candidate(20, 90))
	expect(t, p, out, 20)
	if p.NextWake() != 40*at1 {
		t.Fatalf("next wake %v, want 40 ms", p.NextWake())
	}
	expect(t, p, out, 40, [2]int{1, 2})
	expect(t, p, out, 50, [2]int{0, 1})
	expect(t, p, out, 60)
	if p.NextWake() != mono.Never {
		t.Errorf("next wake %v with nothing left", p.NextWake())
	}
}

// Rule 2: of those ready on the GPU, the one due first that it can still serve in time.
func TestReadyDueFirst(t *testing.T) {
	p, out := holding([]mono.Time{50}, []wire.ModelID{0, 1, 2})
	p.SetCandidate(p.now, 0, candidate(10, 90))
	p.SetCandidate(p.now, 1, candidate(10, 80))
	p.SetCandidate(p.now, 2, candidate(10, 49))
	expect(t, p, out, 10)
	expect(t, p, out, 50, [2]int{1, 0})
}

// A candidate that grows while it is ready keeps its place by its new latest, one that is to wait again leaves.
func TestReadyCandidateChanges(t *testing.T) {
	p, out := holding([]mono.Time{50}, []wire.ModelID{0, 1, 2})
	for id := range wire.ModelID(3) {
		p.SetCandidate(p.now, id, candidate(10, 90+mono.Time(id)))
	}
	expect(t, p, out, 10)
	p.SetCandidate(p.now, 1, candidate(20, 70)) // due at 20
	p.SetCandidate(p.now, 0, candidate(5, 80))  // due at once
	expect(t, p, out, 20)
	p.SetCandidate(p.now, 1, candidate(60, 100)) // not before 60
	expect(t, p, out, 50, [2]int{0, 0})
	p.SetCandidate(p.now, 2, batching.Candidate{})
	p.Answer(50*at1, devices.Answer{Grant: out.Grants[0]}, 0)
	expect(t, p, out, 55)
	expect(t, p, out, 60, [2]int{1, 0})
}

// Rule 3 and the walk of section 5.7: a cold request has its weights loaded, waits for them under a floor, and
// is granted an order's way before they are there.
func TestColdRequest(t *testing.T) {
	p, out := holding([]mono.Time{0}, nil)
	p.Arrive(at1, 0, 3*ms, 90*at1)
	c := candidate(1, 90)
	c.Delay = ms
	p.SetCandidate(p.now, 0, c)
	expect(t, p, out, 1)
	if len(out.Loads) != 1 || len(out.Floors) != 1 {
		t.Fatalf("loads %+v, floors %+v: want one each", out.Loads, out.Floors)
	}
	l, from := out.Loads[0], out.Floors[0].Until
	if l.Until != 9*at1 || from < l.Until || from > 20*at1 {
		t.Fatalf("load %+v, floor %v", l, from)
	}
	c.Exec = from // as batching has it
	p.SetCandidate(p.now, 0, c)
	if wake := p.NextWake(); wake != from.Add(-ms) {
		t.Fatalf("next wake %v, want an order's way before the weights, %v", wake, from)
	}
	p.Step(from.Add(-ms), out)
	if len(out.Grants) != 1 || out.Grants[0].FreeAt != from || out.Grants[0].Generation != uint32(l.Generation) || !out.Grants[0].Idle {
		t.Fatalf("grants %+v, want one from %v on of generation %d", out.Grants, from, l.Generation)
	}
}

// A load that ends early lowers the floor, one that fails takes the holder back: what waits is not granted, and
// the weights are loaded again.
func TestLoadEndsEarlyOrFails(t *testing.T) {
	for _, ok := range []bool{true, false} {
		p, out := holding([]mono.Time{0}, nil)
		p.Arrive(at1, 0, 3*ms, 90*at1)
		p.SetCandidate(p.now, 0, candidate(9, 90))
		expect(t, p, out, 1)
		l := out.Loads[0]
		out.Reset()
		if !p.Loaded(5*at1, residency.Report{ID: l.ID, Start: l.Start, End: 5 * at1, OK: ok}, out) {
			t.Fatal("the report is not known")
		}
		if ok {
			if len(out.Floors) != 1 || out.Floors[0].Until != 5*at1 {
				t.Errorf("floors %+v, want 5 ms", out.Floors)
			}
			expect(t, p, out, 9, [2]int{0, 0})
			continue
		}
		expect(t, p, out, 9)
		if len(out.Loads) != 1 || out.Loads[0].Generation == l.Generation {
			t.Errorf("loads %+v, want another one than %+v", out.Loads, l)
		}
	}
}

// Rule 4: what is granted or runs is not unloaded, however much another model wants the room; when it has
// ended, it is.
func TestUsedModelsStay(t *testing.T) {
	p, out := New(Config{}), &Out{}
	for id := range wire.ModelID(2) {
		p.AddModel(id, residency.Model{Pages: 8, LoadTime: 8 * ms})
	}
	life, _ := p.AddGPU(0, 0, 0, 10, []wire.ModelID{0}, out)
	p.Arrive(0, 0, 3*ms, 90*at1)
	p.SetCandidate(p.now, 0, candidate(1, 90))
	expect(t, p, out, 1, [2]int{0, 0})
	granted := out.Grants[0]
	p.Arrive(at1, 1, 3*ms, 90*at1)
	expect(t, p, out, 2)
	p.Answer(2*at1, devices.Answer{Grant: granted, Batch: 7, Exec: 2 * at1, Until: 9 * at1}, 1)
	expect(t, p, out, 3)
	if len(out.Unloads)+len(out.Loads) > 0 {
		t.Fatalf("unloads %+v, loads %+v while the GPU runs the model", out.Unloads, out.Loads)
	}
	p.Done(9*at1, 0, life, 7, 9*at1)
	expect(t, p, out, 9)
	if len(out.Unloads) != 1 || len(out.Loads) != 1 || out.Loads[0].Model != 1 {
		t.Errorf("unloads %+v, loads %+v, want model 0 to make room for model 1", out.Unloads, out.Loads)
	}
}

// Rule 6: a GPU that is lost loses what it holds; one that returns has what its backend tells. What refers to
// the earlier life is ignored.
func TestLostGPU(t *testing.T) {
	p, out := holding([]mono.Time{0}, []wire.ModelID{0})
	p.Arrive(0, 0, 3*ms, 90*at1)
	p.SetCandidate(p.now, 0, candidate(1, 90))
	expect(t, p, out, 1, [2]int{0, 0})
	g := out.Grants[0]
	p.RemoveGPU(2*at1, 0, out)
	p.Answer(2*at1, devices.Answer{Grant: g, Batch: 7, Exec: 2 * at1, Until: 9 * at1}, 1)
	if _, n := p.Residency().Demand(0); n != 0 {
		t.Errorf("%d requests wait, want none: their batch was sent", n)
	}
	p.Arrive(2*at1, 0, 3*ms, 90*at1) // it is lost, and queued again
	p.SetCandidate(p.now, 0, candidate(3, 90))
	expect(t, p, out, 3)
	p.AddGPU(4*at1, 0, 4*at1, 10, []wire.ModelID{1}, out)
	p.Done(4*at1, 0, g.Life, 7, 4*at1)
	expect(t, p, out, 4)
	if len(out.Loads) != 1 || out.Loads[0].Model != 0 {
		t.Fatalf("loads %+v, want model 0: the GPU came back without it", out.Loads)
	}
	p.RemoveGPU(5*at1, 0, out)
	p.AddGPU(6*at1, 0, 6*at1, 10, []wire.ModelID{0}, out)
	expect(t, p, out, 6, [2]int{0, 0})
}

// A model that is removed while a grant to it is under way goes with the answer.
func TestRemoveModel(t *testing.T) {
	p, out := holding([]mono.Time{0}, []wire.ModelID{0})
	p.SetCandidate(p.now, 0, candidate(1, 90))
	expect(t, p, out, 1, [2]int{0, 0})
	p.RemoveModel(at1, 0, out)
	p.RemoveModel(at1, 0, out)
	p.RemoveModel(at1, 9, out) // never there
	p.SetCandidate(p.now, 9, candidate(1, 90))
	if p.models[0] == nil {
		t.Fatal("the model is forgotten before its grant is answered")
	}
	p.Answer(2*at1, devices.Answer{Grant: out.Grants[0]}, 0)
	expect(t, p, out, 2)
	if p.models[0] != nil || len(out.Unloads) != 1 {
		t.Errorf("model %+v, unloads %+v: want none, and one", p.models[0], out.Unloads)
	}
	if free, all := p.Residency().Pages(0); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
}

// A model is due earlier by the longest wait for one of as many holders; by the longest batch's part of each
// holder as long as nothing waited.
func TestLead(t *testing.T) {
	for _, none := range []bool{false, true} {
		p, out := holding([]mono.Time{0, 0, 0, 0}, []wire.ModelID{0, 1, 2}, []wire.ModelID{1}, []wire.ModelID{1}, []wire.ModelID{1})
		p.cfg.NoLead = none
		lead := func(d mono.Time) mono.Time {
			if none {
				return 0
			}
			return d
		}
		p.SetCandidate(p.now, 0, candidate(0, 90))
		expect(t, p, out, 0, [2]int{0, 0})
		p.Answer(0, devices.Answer{Grant: out.Grants[0], Batch: 1, Exec: 0, Until: 12 * at1}, 1)
		p.SetCandidate(p.now, 0, candidate(80, 90))
		if want := (80 - lead(12)) * at1; p.NextWake() != want {
			t.Errorf("no lead %v: next wake %v, want %v", none, p.NextWake(), want)
		}
		p.SetCandidate(p.now, 0, batching.Candidate{})
		p.SetCandidate(p.now, 1, candidate(80, 90))
		if want := (80 - lead(12/4)) * at1; p.NextWake() != want {
			t.Errorf("no lead %v: next wake %v, want %v: four GPUs hold the model", none, p.NextWake(), want)
		}
		p.SetCandidate(p.now, 1, batching.Candidate{})
		p.SetCandidate(p.now, 2, candidate(20, 90)) // due at 10, and the GPU is free at 50
		p.Done(10*at1, 0, 1, 1, 50*at1)
		p.Step(10*at1, out)
		p.Step(20*at1, out)
		expect(t, p, out, 50, [2]int{2, 0})
		p.Answer(50*at1, devices.Answer{Grant: out.Grants[0]}, 0)
		p.SetCandidate(p.now, 0, candidate(80, 90))
		if want := (80 - lead(40+20)) * at1; p.NextWake() != want {
			t.Errorf("no lead %v: next wake %v, want %v", none, p.NextWake(), want)
		}
	}
}

// A request that is dropped while its model is ready on a holder has waited, too; one that waited for a load
// has not.
func TestLeadOfTheLost(t *testing.T) {
	p, out := holding([]mono.Time{90}, []wire.ModelID{0})
	p.Arrive(0, 0, 3*ms, 40*at1)
	p.SetCandidate(p.now, 0, candidate(30, 40))
	expect(t, p, out, 30)
	p.Doomed(41*at1, 0, 1)
	if got := p.leads.of(1); got != 16*ms+ms/2 {
		t.Errorf("lead %v, want the 11 ms that it waited, and half of them", got)
	}
	p, out = holding([]mono.Time{90}, nil)
	p.Arrive(0, 0, 3*ms, 40*at1)
	p.SetCandidate(p.now, 0, candidate(1, 40))
	expect(t, p, out, 1)
	p.Doomed(2*at1, 0, 1)
	if got := p.leads.of(1); got != 0 {
		t.Errorf("lead %v, want none: no GPU had the weights", got)
	}
}

// A model that takes longer to load and run than its requests have is loaded all the same, for those that come
// after them: so long a load counts as one that helps.
func TestLoadsOfThoseWithTightSLOs(t *testing.T) {
	for _, none := range []bool{false, true} {
		p, out := holding([]mono.Time{0}, nil)
		p.cfg.NoLead = none
		p.Arrive(0, 0, 3*ms, 2*at1) // a load takes 8 ms
		p.Step(0, out)
		if len(out.Loads) != 1 || out.Loads[0].Model != 0 {
			t.Errorf("no lead %v: loads %+v, want one", none, out.Loads)
		}
	}
}

// loading is a matchmaker of one GPU that loads model 1 until 30 ms, and where waits of late were long. Model
// 0 takes 8 ms to load.
func loading() (*Paged, *Out) {
	p, out := New(Config{}), &Out{}
	p.AddModel(0, residency.Model{Pages: 2, LoadTime: 8 * ms})
	p.AddModel(1, residency.Model{Pages: 2, LoadTime: 30 * ms})
	p.AddGPU(0, 0, 0, 10, nil, out)
	p.Arrive(0, 1, 3*ms, 900*at1)
	p.Step(0, out)
	out.Reset()
	p.leads.mean = 100 * ms
	return p, out
}

// Where candidates wait for their holders a load must end before the latest start by that much, and by no
// more than half of the time that is left; who is too late for that is told so as soon as that is sure, by the floor.
func TestLoadsLeaveTimeForTheQueue(t *testing.T) {
	for _, none := range []bool{false, true} {
		p, out := loading()
		p.cfg.NoLead = none
		p.Arrive(0, 0, 3*ms, 50*at1) // a load ends at 38 ms, and half of 50 is left
		p.Step(18*at1, out)
		if floor := len(out.Floors) > 0 && out.Floors[len(out.Floors)-1].Until > 50*at1; floor == none {
			t.Errorf("no lead %v: floors %+v, want one behind the latest start unless there is no lead", none, out.Floors)
		}
		out.Reset()
		p.Step(26*at1, out)
		if load := len(out.Loads) == 1; load != none {
			t.Errorf("no lead %v: loads %+v, want one only if it ends in time", none, out.Loads)
		}
	}
}

// The floor that is told for one that is too late leaves the time of the request that waits least, not that of the
// last one: those that a load saves are not dropped.
func TestFloorLeavesTheLeastTime(t *testing.T) {
	p, out := loading()
	p.Arrive(0, 0, 3*ms, 40*at1)  // 20 ms for the queue
	p.Arrive(0, 0, 3*ms, 400*at1) // 200 ms
	p.Step(13*at1, out)
	if len(out.Floors) != 1 || out.Floors[0].Until != 58*at1 {
		t.Errorf("floors %+v, want the load's end, 38 ms, and 20", out.Floors)
	}
	out.Reset()
	p.Doomed(13*at1, 0, 2)
	p.Arrive(13*at1, 0, 3*ms, 413*at1) // on its own
	if m := p.models[0]; m.queue != 200*ms {
		t.Errorf("%v for the queue, want 200 ms: nobody else waits", m.queue)
	}
}
