package rank

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// grantOne lets the model run a batch of that length now, and returns the grant.
func grantOne(t *testing.T, r *Rank, now mono.Time, id wire.ModelID, length mono.Dur) Grant {
	t.Helper()
	var out Out
	r.SetCandidate(id, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now.Add(mono.Second)})
	r.Step(now, &out)
	if len(out.Grants) != 1 || out.Grants[0].Model != id {
		t.Fatalf("grants %+v, want one to model %d", out.Grants, id)
	}
	g := out.Grants[0]
	r.Answer(Answer{Grant: g, Batch: wire.BatchID(now) + 1, Exec: now, Until: now.Add(length)})
	r.Done(g.GPU, g.Life, wire.BatchID(now)+1, now)
	return g
}

// A grant tells the model's share of the GPUs by the GPU time it took lately.
func TestShareFollowsGPUTime(t *testing.T) {
	r := New(Config{})
	for id := range wire.GPUID(4) {
		r.AddGPU(id, 0)
	}
	if g := grantOne(t, r, 1, 0, 30*mono.Millisecond); g.Share != 0 || g.GPUs != 4 {
		t.Fatalf("%+v: nothing ran yet, the share is not known", g)
	}
	now := mono.Time(mono.Millisecond)
	for range 40 {
		grantOne(t, r, now, 0, 30*mono.Millisecond)
		now = now.Add(10 * mono.Millisecond)
		grantOne(t, r, now, 1, 10*mono.Millisecond)
		now = now.Add(10 * mono.Millisecond)
	}
	g := grantOne(t, r, now, 0, mono.Millisecond)
	if want := 3 * batching.OneGPU; g.Share < want-20 || g.Share > want+20 {
		t.Errorf("three quarters of the time on 4 GPUs: share %d, want about %d", g.Share, want)
	}
	// Two spans later model 1 has the GPUs to itself.
	for range 250 {
		grantOne(t, r, now, 1, 10*mono.Millisecond)
		now = now.Add(10 * mono.Millisecond)
	}
	if g := grantOne(t, r, now, 1, mono.Millisecond); g.Share != 4*batching.OneGPU {
		t.Errorf("alone on 4 GPUs: share %d", g.Share)
	}
}

// What a model loses counts as wanted: shedding must not cost it its share.
func TestShareCountsWhatWasForgone(t *testing.T) {
	r := New(Config{})
	for id := range wire.GPUID(4) {
		r.AddGPU(id, 0)
	}
	now := mono.Time(1)
	var out Out
	for id := range wire.ModelID(2) { // both want 30 ms, model 0 gets 10 of them
		out.Grants = nil
		r.SetCandidate(id, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now.Add(mono.Second)})
		r.Step(now, &out)
		a := Answer{Grant: out.Grants[0], Batch: wire.BatchID(id) + 1, Exec: now, Until: now.Add(30 * mono.Millisecond)}
		if id == 0 {
			a.Until, a.Forgone = now.Add(10*mono.Millisecond), 20*mono.Millisecond
		}
		r.Answer(a)
	}
	if g := grantOne(t, r, now.Add(1), 0, 1); g.Share < 2*batching.OneGPU-5 || g.Share > 2*batching.OneGPU+5 {
		t.Errorf("share %d, want two of the four GPUs", g.Share)
	}
}

// A grant tells whether others were granted since the model's last one.
func TestRivals(t *testing.T) {
	r := New(Config{})
	r.AddGPU(0, 0)
	for i, c := range []struct {
		model  wire.ModelID
		rivals bool
	}{{1, true}, {1, false}, {2, true}, {1, true}, {1, false}} {
		if g := grantOne(t, r, mono.Time(i+1), c.model, 1); g.Rivals != c.rivals {
			t.Errorf("grant %d, to model %d: rivals %v", i, c.model, g.Rivals)
		}
	}
}

// A grant tells how many other GPUs have nothing to do: one that another grant of the same turn takes is none of them.
func TestOthers(t *testing.T) {
	r := New(Config{})
	for id := range wire.GPUID(3) {
		r.AddGPU(id, 0)
	}
	var out Out
	for id := range wire.ModelID(2) {
		r.SetCandidate(id, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 1, Latest: mono.Time(mono.Second)})
	}
	r.Step(1, &out)
	if len(out.Grants) != 2 || out.Grants[0].Others != 2 || out.Grants[1].Others != 1 {
		t.Errorf("%+v, want grants beside two and one others", out.Grants)
	}
}

// A grant tells whether the GPU was idle when the window opened, or was awaited.
func TestIdle(t *testing.T) {
	r := New(Config{})
	r.AddGPU(0, 0)
	if g := grantOne(t, r, 1, 0, 1); !g.Idle {
		t.Error("a GPU that was free: not idle")
	}
	r.AddGPU(0, mono.Time(mono.Millisecond))
	var out Out
	r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: 2, Latest: mono.Time(mono.Second)})
	r.Step(2, &out)
	r.Step(mono.Time(mono.Millisecond), &out)
	if len(out.Grants) != 1 || out.Grants[0].Idle {
		t.Errorf("a GPU that was awaited: grants %+v", out.Grants)
	}
}
