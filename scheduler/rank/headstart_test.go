package rank

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// losing is a rank of one GPU on which models 0 and 1 ran 100 batches of 1 ms
// each, of which model 1 lost lostOne and model 0 lostZero for each.
func losing(cfg Config, lostZero, lostOne mono.Dur) (*Rank, mono.Time) {
	r, now, out := New(cfg), mono.Time(1), Out{}
	r.AddGPU(0, 0)
	for i := range 200 {
		id, lost := wire.ModelID(i%2), lostZero
		if id == 1 {
			lost = lostOne
		}
		out.Grants = out.Grants[:0]
		r.SetCandidate(id, batching.Candidate{Size: 1, Exec: now, Latest: now.Add(mono.Second)})
		r.Step(now, &out)
		r.Answer(Answer{Grant: out.Grants[0], Batch: wire.BatchID(i + 1), Exec: now, Until: now.Add(mono.Millisecond), Forgone: lost})
		now = now.Add(mono.Millisecond)
		r.Done(0, out.Grants[0].Life, wire.BatchID(i+1), now)
	}
	return r, now
}

// next is the model that gets the GPU when it becomes free, where model 1 is due
// behind later than model 0.
func next(r *Rank, now mono.Time, behind mono.Dur) wire.ModelID {
	r.AddGPU(0, now.Add(mono.Millisecond)) // busy until then
	var out Out
	r.SetCandidate(0, batching.Candidate{Size: 1, Exec: now, Latest: now.Add(20 * mono.Millisecond)})
	r.SetCandidate(1, batching.Candidate{Size: 1, Exec: now, Latest: now.Add(20 * mono.Millisecond).Add(behind)})
	r.Step(now, &out)
	r.Step(now.Add(mono.Millisecond), &out)
	return out.Grants[0].Model
}

// A model that lost more goes before one that is due a little earlier: losses
// even out. GPU time comes free each millisecond here, so a head start has at
// most headStartMost of them.
func TestHeadStart(t *testing.T) {
	const us = mono.Microsecond
	for _, c := range []struct {
		what     string
		cfg      Config
		zero, in mono.Dur // lost with each batch of 1 ms, of models 0 and 1
		behind   mono.Dur
		want     wire.ModelID
	}{
		{"none lost, the one due first", Config{}, 0, 0, us, 0},
		{"one loses a little", Config{}, 0, 6 * us, us, 1},
		{"one loses a little, far behind", Config{}, 0, 6 * us, headStartMost * mono.Millisecond, 0},
		{"one loses less than the other", Config{}, 6 * us, 0, -us, 0},
		{"both lose alike", Config{}, 6 * us, 6 * us, us, 0},
		{"overload: no head starts", Config{}, 0, 30 * us, us, 0},
		{"by latest", Config{ByLatest: true}, 0, 6 * us, us, 0},
	} {
		r, now := losing(c.cfg, c.zero, c.in)
		if got := next(r, now, c.behind); got != c.want {
			t.Errorf("%s: model %d got the GPU, want %d", c.what, got, c.want)
		}
	}
}

// A head start may not serve a candidate that can no longer be served, nor lose
// one that can: what the GPU cannot serve in time leaves.
func TestHeadStartKeepsLatest(t *testing.T) {
	r, now := losing(Config{}, 0, 6*mono.Microsecond)
	r.AddGPU(0, now.Add(mono.Millisecond))
	var out Out
	r.SetCandidate(1, batching.Candidate{Size: 1, Exec: now, Latest: now.Add(mono.Millisecond - 1)}) // too early by 1 ns
	r.SetCandidate(0, batching.Candidate{Size: 1, Exec: now, Latest: now.Add(mono.Millisecond)})
	r.Step(now, &out)
	r.Step(now.Add(mono.Millisecond), &out)
	if len(out.Grants) != 1 || out.Grants[0].Model != 0 {
		t.Errorf("grants %+v, want one to model 0", out.Grants)
	}
}
