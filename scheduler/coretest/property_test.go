package coretest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const walks = 120 // seeds per property

func identity(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// Each request is answered once, no deadline is missed, no GPU runs two
// batches at a time, nothing spins; GPUs and models come and go.
func TestWalksExact(t *testing.T) {
	served, reasons := 0, map[wire.Reason]int{}
	for seed := range uint64(walks) {
		w := draw(seed, 1500, seed%2 == 0)
		l := w.play(t, identity(len(w.models)), nil)
		served += l.served
		for reason, n := range l.reasons {
			reasons[reason] += n
		}
	}
	t.Logf("%d served; dropped %v", served, reasons)
	for _, reason := range []wire.Reason{wire.ReasonDeadline, wire.ReasonShed, wire.ReasonFull, wire.ReasonUnavailable, wire.ReasonBackendLost} {
		if reasons[reason] == 0 {
			t.Errorf("the walks never dropped for %v: they test less than they should", reason)
		}
	}
}

// GPUs that end early or late: still one answer each, still no plan beyond a
// deadline, and never more than two undone batches on a GPU.
func TestWalksJitter(t *testing.T) {
	for seed := range uint64(walks) {
		w := draw(seed, 1500, seed%2 == 0)
		r := rand.New(rand.NewPCG(seed, 9))
		w.play(t, identity(len(w.models)), func(run Run) mono.Dur {
			return mono.Dur(float64(run.Until.Sub(run.Exec)) * (0.5 + r.Float64()))
		})
	}
}

// Other model ids, the same schedule, under the paper's rules. (What our own
// learn from the past follows each tie that falls the other way.)
func TestPermutedModels(t *testing.T) {
	for seed := range uint64(walks) {
		w := draw(seed, 1000, false)
		w.paper = true
		ids := rand.New(rand.NewPCG(seed, 3)).Perm(len(w.models))
		a, b := w.play(t, identity(len(w.models)), nil), w.play(t, ids, nil)
		sameRuns(t, a, b, 1, func(m wire.ModelID) wire.ModelID { return wire.ModelID(ids[m]) })
	}
}

// All times tripled, the same schedule three times as long, under the paper's
// rules. (Ours count GPU time by the second.)
func TestScaledTimes(t *testing.T) {
	for seed := range uint64(walks) {
		w := draw(seed, 1000, false)
		w.paper = true
		a := w.play(t, identity(len(w.models)), nil)
		w.scale = 3
		b := w.play(t, identity(len(w.models)), nil)
		sameRuns(t, a, b, 3, func(m wire.ModelID) wire.ModelID { return m })
	}
}

// sameRuns: expiry is a nanosecond after latest on each scale, so instants
// may differ by the scale's rounding.
func sameRuns(t *testing.T, a, b *ledger, scale mono.Time, id func(wire.ModelID) wire.ModelID) {
	t.Helper()
	if len(a.runs) != len(b.runs) {
		a.failf("%d batches, then %d", len(a.runs), len(b.runs))
	}
	for i := range a.runs {
		x, y := &a.runs[i], &b.runs[i]
		off := x.Exec*scale - y.Exec
		same := x.GPU == y.GPU && id(x.Model) == y.Model && off >= -2*scale && off <= 2*scale &&
			slices.EqualFunc(x.Requests, y.Requests, func(p, q batching.Request) bool { return p.ID == q.ID })
		if !same {
			a.failf("batch %d: model %d on GPU %d at %v, %d requests; then model %d on GPU %d at %v, %d requests",
				i, x.Model, x.GPU, x.Exec, len(x.Requests), y.Model, y.GPU, y.Exec, len(y.Requests))
		}
	}
}

// What one model does (requests, batches, expiry) never changes another
// model's candidate: a shard with a busy neighbour tells the same of model 0.
func TestModelsAreIndependent(t *testing.T) {
	for seed := range uint64(walks) {
		w := draw(seed, 800, false)
		alone, noisy := candidates(w, seed, false), candidates(w, seed, true)
		if !slices.Equal(alone, noisy) {
			t.Fatalf("seed %d: model 0 had %d candidates alone, %d with a neighbour, or others", seed, len(alone), len(noisy))
		}
		if len(alone) == 0 {
			t.Fatalf("seed %d: model 0 had no candidate", seed)
		}
	}
}

type told struct {
	now mono.Time
	c   batching.Candidate
}

// candidates plays the walk's requests to model 0 of a shard and, when noisy,
// as many requests and grants to model 1 of the same shard.
func candidates(w *walk, seed uint64, noisy bool) (told0 []told) {
	r := rand.New(rand.NewPCG(seed, 4))
	s := shard.New(shard.Config{RequestsMax: 1 << 12, BatchesMax: 1 << 12})
	var out shard.Out
	for id := range 2 {
		m := &w.models[id%len(w.models)]
		s.AddModel(wire.ModelID(id), shard.ModelConfig{Config: batching.Config{Profile: m.profile(1), SLO: m.slo, Policy: m.policy, QueueMax: 1 << 10}})
	}
	s.SetGPUs(0, 2, batching.OneGPU, &out)
	collect := func(now mono.Time) {
		for _, c := range out.Candidates {
			if c.Model == 0 {
				told0 = append(told0, told{now, c.Candidate})
			}
		}
		out.Reset()
	}
	for _, e := range w.events {
		for s.NextWake() < e.at {
			now := s.NextWake()
			s.Wake(now, &out)
			collect(now)
		}
		s.Submit(e.at, 0, batching.Request{Deadline: e.at.Add(e.slo)}, &out)
		if noisy {
			s.Submit(e.at, 1, batching.Request{Deadline: e.at.Add(mono.Dur(r.Int64N(1e8)))}, &out)
			if r.IntN(3) == 0 {
				s.Granted(e.at, rank.Grant{Model: 1, Offer: batching.Offer{FreeAt: e.at}}, &out)
			}
		}
		collect(e.at)
	}
	return told0
}
