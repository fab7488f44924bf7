package clockwork

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

// two models of l(b) = b + 5 ms.
func two(t *testing.T) []policy.Model {
	return []policy.Model{{Profile: linear(t, 1, 5, 16)}, {Profile: linear(t, 1, 5, 16)}}
}

func story(t *testing.T, opts Options, gpus int) *policytest.Story {
	return policytest.New(t, New(policy.Config{RequestsMax: 100}, opts), two(t), gpus)
}

// Appendix B: 5 ms of work before each GPU; the strategy due first.
func TestDueFirst(t *testing.T) {
	y := story(t, Options{}, 1)
	y.Submit(0, 0, 1, 40*ms)
	y.Submit(0.5, 0, 3, 40*ms)
	y.Submit(0.6, 1, 2, 38.5*1e6)
	y.Submit(0.7, 0, 1, 40*ms)
	y.Submit(14.5, 1, 2, 40*ms)
	y.Advance(100)
	y.Golden("due_first", `
Two models of l(b) = b + 5 ms, one GPU. R1 runs at once. At 1.00 the GPU has 5 ms
of work left and takes more. Model 0 has R2-R4 and R7, due at 40.50: four must
start by 31.50. Model 1 has R5-R6, due at 39.10: two must start by 32.10. That is
later, although the deadline is earlier. At 10.00 and 17.00 the GPU has 5 ms
left again.`)
}

// The oldest request decides the size, however many wait behind it.
func TestOldestHeads(t *testing.T) {
	y := story(t, Options{}, 1)
	overload(y)
	y.Golden("oldest_request", `
One GPU, l(b) = b + 5 ms. R2-R7 have time for two at 1.00, when R8-R13 wait as
well: a batch of two, and the other four cannot make it. R8-R13 then run.`)
}

// Appendix B: the larger batch is chosen, the earlier requests are dropped.
func TestEveryRequestHeads(t *testing.T) {
	y := story(t, Options{Heads: EveryRequest}, 1)
	overload(y)
	y.Golden("every_request", `
The arrivals of oldest_request.txt. At 1.00 the six requests R8-R13 can form a
larger batch than R2-R7, which have time for two: those are shed.`)
}

func overload(y *policytest.Story) {
	y.Submit(0, 0, 1, 40*ms)
	y.Submit(0.2, 0, 6, 13*ms)
	y.Submit(0.9, 0, 6, 30*ms)
	y.Advance(100)
}

func TestPowersOfTwo(t *testing.T) {
	y := story(t, Options{BatchSizes: PowersOfTwo}, 1)
	y.Submit(0, 0, 7, 60*ms)
	y.Submit(30, 0, 9, 15*ms)
	y.Advance(100)
	y.Golden("powers_of_two", `
One GPU, l(b) = b + 5 ms. Seven requests run as 4, 2 and 1. Of the nine that
come at 30.00 eight fit (l(8) = 13). The GPU looks again at 38.00: the last one
cannot make it after them.`)
}

// The requests of a lost GPU wait again under their deadlines, or are dropped.
func TestLostGPU(t *testing.T) {
	c := newCluster(t, New(policy.Config{RequestsMax: 100}, Options{}), two(t), 2)
	c.submit(0, 0, 4, 30*ms)
	c.submit(0, 1, 3, 9*ms)
	c.advance(mono.Time(3 * ms))
	if len(c.runs) != 2 {
		t.Fatalf("%d batches run, want one on each GPU", len(c.runs))
	}
	c.lose(c.runs[1].GPU) // three requests with 6 ms left, each GPU that comes back serves one
	c.lose(c.runs[0].GPU) // four with time enough
	c.advance(mono.Time(100 * ms))
	if c.served != 6 || c.late != 0 || len(c.open) != 0 {
		t.Errorf("served %d, %d late, %d open; want 6, 0, 0", c.served, c.late, len(c.open))
	}
}

// One batch a GPU at a time, in time, each request once: for all readings.
func TestRandom(t *testing.T) {
	for seed := range uint64(16) {
		opts := Options{BatchSizes: BatchSizes(seed % 2), Heads: Heads(seed / 2 % 2)}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			cfg := policy.Config{RequestsMax: 200, Delay: batching.Delay{Ctrl: mono.Dur(r.IntN(300)) * mono.Microsecond, Data: mono.Dur(r.IntN(20)) * mono.Microsecond}}
			var models []policy.Model
			for range 1 + r.IntN(5) {
				models = append(models, policy.Model{Profile: linear(t, 0.2+2*r.Float64(), 6*r.Float64(), 1+r.IntN(40))})
			}
			gpus := 1 + r.IntN(6)
			c := newCluster(t, New(cfg, opts), models, gpus)
			if seed >= 8 {
				c.jitter = func() mono.Dur { return mono.FromMillis(r.NormFloat64() / 10) }
			}
			random(c, r, len(models), gpus)
			if len(c.open) != 0 || c.s.waiting != 0 || c.s.running != 0 || c.s.chances.Len() != 0 {
				t.Errorf("at the end %d are open, %d wait, %d run, %d heads are timed", len(c.open), c.s.waiting, c.s.running, c.s.chances.Len())
			}
			if c.served < 500 || c.jitter == nil && c.late > 0 {
				t.Errorf("served %d requests, %d late", c.served, c.late)
			}
		})
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

// Table 2 and Figure 2: beyond its peak the goodput falls to that of batches of
// one, and EveryRequest's does not.
func TestCollapse(t *testing.T) {
	const gpus, seconds = 8, 2
	resnet := policy.Model{Profile: linear(t, 1.053, 5.072, 64), SLO: 25 * ms}
	for _, k := range []struct {
		heads           Heads
		rate, low, high float64 // offered; served at least and at most: requests/s
		least, most     int     // median batch
	}{
		{OldestRequest, 4000, 3900, 4100, 4, 6},
		{OldestRequest, 8000, 1300, 1450, 1, 1},
		{EveryRequest, 8000, 4800, 5600, 10, 14},
	} {
		c := newCluster(t, New(policy.Config{RequestsMax: 1 << 16}, Options{Heads: k.heads}), []policy.Model{resnet}, gpus)
		r := rand.New(rand.NewPCG(1, 2))
		for at := 0.0; at < seconds; at += r.ExpFloat64() / k.rate {
			c.submit(mono.Time(mono.FromSeconds(at)), 0, 1, resnet.SLO)
		}
		c.advance(mono.Time((seconds + 1) * mono.Second))
		slices.Sort(c.sizes)
		served, median := float64(c.served)/seconds, c.sizes[len(c.sizes)/2]
		t.Logf("heads %d, offered %.0f r/s: served %.0f, median batch %d", k.heads, k.rate, served, median)
		if served < k.low || served > k.high || median < k.least || median > k.most {
			t.Errorf("heads %d, offered %.0f r/s: served %.0f in batches of %d; want %.0f to %.0f in %d to %d",
				k.heads, k.rate, served, median, k.low, k.high, k.least, k.most)
		}
	}
}

// What a report changes: the free time of its GPU, and that of the batch behind.
func TestDone(t *testing.T) {
	s := New(policy.Config{RequestsMax: 10}, Options{})
	s.AddModel(0, policy.Model{Profile: linear(t, 1, 5, 16)})
	var out policy.Out
	s.AddGPU(0, 0, &out)
	at := func(x float64) mono.Time { return mono.Time(mono.FromMillis(x)) }
	submit := func(x float64) {
		s.Submit(at(x), 0, batching.Request{Deadline: at(x).Add(60 * ms)}, &out)
		s.Step(at(x), &out)
	}
	submit(0)
	submit(1)
	if len(out.Dispatches) != 2 || out.Dispatches[1].Exec != at(6) {
		t.Fatalf("two batches were expected, from 0 and from 6 ms: %+v", out.Dispatches)
	}
	s.Done(at(8), out.Dispatches[0].Batch, at(7.5), &out) // late by 1.5 ms
	if free := s.gpus[0].free; free != at(13.5) {
		t.Errorf("free at %v, want 13.5 ms: the batch behind a late one moves", free)
	}
	s.Done(at(8.1), out.Dispatches[0].Batch, at(8.1), &out) // again: ignored
	submit(13.6)
	if n := len(out.Dispatches); n != 2 {
		t.Fatalf("%d batches: a GPU that is overdue got one", n)
	}
	if wake := s.NextWake(); wake <= at(13.6) {
		t.Fatalf("NextWake %v while only an overdue GPU is there", wake)
	}
	s.Done(at(14), out.Dispatches[1].Batch, at(14), &out)
	if wake := s.NextWake(); wake > at(14) {
		t.Fatalf("NextWake %v: the report makes Step due", wake)
	}
	s.Step(at(14), &out)
	if n := len(out.Dispatches); n != 3 || out.Dispatches[2].Exec != at(14) {
		t.Fatalf("the request did not run after the report: %+v", out.Dispatches)
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
	var got []wire.Reason
	for _, d := range out.Drops {
		got = append(got, d.Reason)
	}
	want := []wire.Reason{wire.ReasonUnavailable, wire.ReasonUnknownModel, wire.ReasonFull, wire.ReasonBackendLost, wire.ReasonUnavailable}
	if !slices.Equal(got, want) {
		t.Errorf("drops %v, want %v", got, want)
	}
	if s.waiting+s.running+s.present != 0 || s.NextWake() != mono.Never {
		t.Errorf("%d wait, %d run, %d GPUs, next wake %v", s.waiting, s.running, s.present, s.NextWake())
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, heads := range []Heads{OldestRequest, EveryRequest} {
		s := New(policy.Config{RequestsMax: 100}, Options{Heads: heads})
		s.AddModel(0, policy.Model{Profile: linear(t, 1, 5, 16)})
		var out policy.Out
		s.AddGPU(0, 0, &out)
		now := mono.Time(0)
		turn := func() {
			for range 3 {
				s.Submit(now, 0, batching.Request{Deadline: now.Add(30 * ms)}, &out)
			}
			s.Step(now, &out)
			now = out.Dispatches[0].Until
			s.Done(now, out.Dispatches[0].Batch, now, &out)
			out.Reset()
		}
		turn()
		if n := testing.AllocsPerRun(1000, turn); n != 0 {
			t.Errorf("heads %d: %v allocations a batch, want 0", heads, n)
		}
	}
}

// Many models and GPUs, all busy: the cost of an arrival and of a batch.
func BenchmarkOverload(b *testing.B) {
	const models, gpus = 37, 64
	s := New(policy.Config{RequestsMax: 1 << 20}, Options{})
	for i := range wire.ModelID(models) {
		s.AddModel(i, policy.Model{Profile: linear(b, 0.5, 2, 64)})
	}
	var out policy.Out
	for i := range wire.GPUID(gpus) {
		s.AddGPU(0, i, &out)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var ends [gpus][]policy.Dispatch
	now := mono.Time(0)
	b.ReportAllocs()
	for i := range b.N {
		now = now.Add(mono.Microsecond)
		for g := range ends {
			for len(ends[g]) > 0 && ends[g][0].Until <= now {
				s.Done(now, ends[g][0].Batch, ends[g][0].Until, &out)
				ends[g] = append(ends[g][:0], ends[g][1:]...)
			}
		}
		s.Submit(now, wire.ModelID(r.IntN(models)), batching.Request{ID: wire.RequestID(i), Deadline: now.Add(30 * ms)}, &out)
		if s.NextWake() <= now {
			s.Step(now, &out)
		}
		for _, d := range out.Dispatches {
			d.Requests = nil
			ends[d.GPU] = append(ends[d.GPU], d)
		}
		out.Reset()
	}
}
