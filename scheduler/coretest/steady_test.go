package coretest

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// steady drives shard and rank with a request at a time and nothing else: no
// observers, no copies. GPUs end exactly as planned.
type steady struct {
	now    mono.Time
	gap    mono.Dur
	slo    mono.Dur
	models int
	next   int
	shard  *shard.Shard
	rank   *rank.Rank
	out    shard.Out
	grants rank.Out
	runs   []steadyRun // ring, by dispatch; ends are handed in when they are due
	head   int
	tail   int
	served int
}

type steadyRun struct {
	batch wire.BatchID
	gpu   wire.GPUID
	life  rank.Life
	end   mono.Time
}

func newSteady(tb testing.TB, models, gpus int, load float64) *steady {
	p, err := profile.Linear(mono.FromMillis(1.053), mono.FromMillis(5.072), 64)
	if err != nil {
		tb.Fatal(err)
	}
	rate := load * float64(gpus) * 16 / p.Latency(16).Seconds()
	s := &steady{gap: mono.FromSeconds(1 / rate), slo: mono.FromMillis(100), models: models, runs: make([]steadyRun, 1<<14),
		shard: shard.New(shard.Config{RequestsMax: 1 << 17, BatchesMax: 1 << 14}), rank: rank.New(rank.Config{})}
	for m := range models {
		s.shard.AddModel(wire.ModelID(m), shard.ModelConfig{Config: batching.Config{Profile: p, SLO: s.slo, QueueMax: 1 << 14}})
	}
	s.shard.SetGPUs(0, gpus, batching.ShareOf(gpus, models), &s.out)
	s.shard.SetDelay(0, batching.Delay{Ctrl: 50 * mono.Microsecond, Data: mono.Microsecond}, &s.out)
	for g := range gpus {
		s.rank.AddGPU(wire.GPUID(g), 0)
	}
	return s
}

// request lets time pass to the next arrival and hands it in.
func (s *steady) request() {
	s.now = s.now.Add(s.gap)
	for ; s.head != s.tail && s.runs[s.head].end <= s.now; s.head = (s.head + 1) % len(s.runs) {
		r := &s.runs[s.head]
		s.shard.Completed(r.batch)
		s.rank.Done(r.gpu, r.life, r.batch, r.end)
	}
	s.next = (s.next + 1) % s.models
	s.shard.Submit(s.now, wire.ModelID(s.next), batching.Request{Arrival: s.now, Deadline: s.now.Add(s.slo)}, &s.out)
	s.shard.Wake(s.now, &s.out)
	s.apply()
	for {
		s.grants.Grants = s.grants.Grants[:0]
		s.rank.Step(s.now, &s.grants)
		if len(s.grants.Grants) == 0 {
			return
		}
		for _, g := range s.grants.Grants {
			s.shard.Granted(s.now, g, &s.out)
		}
		s.apply()
	}
}

func (s *steady) apply() {
	for i := range s.out.Dispatches {
		d := &s.out.Dispatches[i]
		s.served += len(d.Requests)
		s.runs[s.tail] = steadyRun{d.Batch, d.GPU, d.Life, d.Until}
		s.tail = (s.tail + 1) % len(s.runs)
	}
	for _, a := range s.out.Answers {
		s.rank.Answer(a)
	}
	for _, c := range s.out.Candidates {
		s.rank.SetCandidate(c.Model, c.Candidate)
	}
	s.out.Reset()
}

// Invariant 5 of shard and rank: nothing is allocated per request, below the
// peak and in overload.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, load := range []float64{0.5, 2} {
		s := newSteady(t, 20, 64, load)
		for range 200_000 {
			s.request()
		}
		s.served = 0
		n := testing.AllocsPerRun(1, func() {
			for range 100_000 {
				s.request()
			}
		})
		if n != 0 {
			t.Errorf("load %v: %v allocations, want none", load, n)
		}
		if s.served < 20_000 {
			t.Errorf("load %v: only %d requests served: the measured state is not the steady one", load, s.served)
		}
	}
}

// One core's cost of a request, shard and rank together.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct {
		name         string
		models, gpus int
		load         float64
	}{{"20models64gpus", 20, 64, 0.8}, {"1000models4096gpus", 1000, 4096, 0.8}, {"overload", 20, 64, 2}} {
		b.Run(c.name, func(b *testing.B) {
			s := newSteady(b, c.models, c.gpus, c.load)
			for range 100_000 {
				s.request()
			}
			b.ReportAllocs()
			for b.Loop() {
				s.request()
			}
		})
	}
}
