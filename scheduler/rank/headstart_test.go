package rank

import (
	"math"
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
		r.SetCandidate(id, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now.Add(mono.Second)})
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
	r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now.Add(20 * mono.Millisecond)})
	r.SetCandidate(1, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now.Add(20 * mono.Millisecond).Add(behind)})
	r.Step(now, &out)
	r.Step(now.Add(mono.Millisecond), &out)
	return out.Grants[0].Model
}

// A model that lost more goes before one that is due a little earlier: losses
// even out.
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
		{"one goes ahead and one lets it pass", Config{}, 0, 6 * us, 2 * mono.Millisecond, 1},
		{"far behind", Config{}, 0, 6 * us, 3 * mono.Millisecond, 0},
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

// The head start in numbers: intervals of 1 ms on one GPU, of 0.5 ms on two.
func TestHeadStartGrowsAndFades(t *testing.T) {
	const us = mono.Microsecond
	for _, c := range []struct {
		what string
		lost mono.Dur // of model 1, with each batch of 1 ms
		gpus int
		want float64 // in ms
	}{
		{"0.2 % against 0.1 %", 2 * us, 1, 6 * 0.1 * 0.9},
		{"0.6 % against 0.3 %", 6 * us, 1, 6 * 0.3 * 0.7},
		{"the same on two GPUs", 6 * us, 2, 6 * 0.3 * 0.7 / 2},
		{"1.6 % against 0.8 %", 16 * us, 1, 6 * 0.8 * 0.2},
		{"2.2 % against 1.1 %", 22 * us, 1, 0},
	} {
		r, now := losing(Config{}, 0, c.lost)
		if c.gpus == 2 {
			r.AddGPU(1, 0)
		}
		for id, want := range []float64{-c.want, c.want} {
			if got := r.gpus.HeadStart(&r.models[id].usage, now).Millis(); math.Abs(got-want) > 0.05 {
				t.Errorf("%s: head start of model %d %.3f ms, want %.3f", c.what, id, got, want)
			}
		}
	}
	r, now := losing(Config{}, 0, 6*us)
	r.SetCandidate(2, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: now.Add(mono.Second)})
	if got := r.gpus.HeadStart(&r.model(2).usage, now); got != 0 {
		t.Errorf("a model that ran nothing lately: head start %v, want none", got)
	}
}

// A head start changes who goes first, not who can be served in time.
func TestHeadStartKeepsLatest(t *testing.T) {
	for _, c := range []struct{ zero, one mono.Dur }{{-1, 0}, {0, -1}} { // latest, after the GPU is free
		r, now := losing(Config{}, 0, 6*mono.Microsecond)
		free := now.Add(mono.Millisecond)
		r.AddGPU(0, free)
		var out Out
		r.SetCandidate(0, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: free.Add(c.zero)})
		r.SetCandidate(1, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: now, Latest: free.Add(c.one)})
		r.Step(now, &out)
		r.Step(free, &out)
		want := wire.ModelID(0)
		if c.zero < 0 {
			want = 1
		}
		if len(out.Grants) != 1 || out.Grants[0].Model != want {
			t.Errorf("latest %v and %v after the GPU is free: grants %+v, want one to model %d", c.zero, c.one, out.Grants, want)
		}
	}
}
