package schedbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/transport/mono"
)

// tiny is a run that any machine carries.
func tiny() Config {
	return Config{GPUs: 16, Models: 5, Rate: 5000, Warmup: 100 * mono.Millisecond, Duration: 400 * mono.Millisecond, Seed: 5}
}

// Each request offered has one outcome, whatever the machine did meanwhile.
func TestLiveAnswersEachOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, loops := range []int{1, 2} {
		cfg := tiny()
		cfg.Loops, cfg.Process, cfg.Shape = loops, workload.Gamma, 0.3
		p, err := Live(t.Context(), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Unanswered != 0 || p.Offered == 0 || p.OK+p.Late+p.Dropped != p.Offered {
			t.Errorf("%d loops: offered %d, in time %d, late %d, dropped %d, without an outcome %d", loops, p.Offered, p.OK, p.Late, p.Dropped, p.Unanswered)
		}
		if p.Batches == 0 || p.MeanBatch < 1 || p.MeanBatch > maxBatch || len(p.ModelLoops) != loops {
			t.Errorf("%d loops: %d batches of %.1f, %d loops", loops, p.Batches, p.MeanBatch, len(p.ModelLoops))
		}
	}
}

// An overload that no GPU could carry still answers everything.
func TestLiveOverload(t *testing.T) {
	cfg := tiny()
	m, err := zoo.Parse("slow:1:5:100") // 8 GPUs carry some 5,000 requests/s of it
	if err != nil {
		t.Fatal(err)
	}
	cfg.GPUs, cfg.Rate, cfg.Zoo = 8, 20_000, &m
	p, err := Live(t.Context(), cfg, nil)
	if err != nil || p.Unanswered != 0 || p.OK == 0 || p.Dropped < p.Offered/2 {
		t.Fatalf("%v, %+v", err, p)
	}
}

// An interrupted run says what it counted; one interrupted in its warm-up has
// nothing to say.
func TestLiveInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t)
	cfg := tiny()
	cfg.Duration = mono.Dur(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	p, err := Live(ctx, cfg, nil)
	if err == nil && (!p.Interrupted || p.Unanswered != 0) || err != nil && !errors.Is(err, ErrNothing) {
		t.Errorf("%+v, %v", p, err)
	}
	early, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Live(early, cfg, nil); !errors.Is(err, ErrNothing) {
		t.Errorf("error %v", err)
	}
}

// A recorded run is replayed, grant for grant, and its results can be printed and
// read back.
func TestReplayOfATinyRun(t *testing.T) {
	cfg := tiny()
	cfg.Tuner = 0.02
	r, err := Measure(t.Context(), Plan{Config: cfg, Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Replay.Grants < 10 || r.Replay.Batches < 10 || r.Replay.BytesPerRequest <= 0 {
		t.Errorf("%+v", r.Replay)
	}
	var text bytes.Buffer
	r.Print(&text)
	if !strings.Contains(text.String(), "all equal") || !strings.Contains(text.String(), "tuner: took ") {
		t.Errorf("printed\n%s", text.String())
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil || back.Replay.Grants != r.Replay.Grants || back.Replay.Point.Tuned == nil {
		t.Errorf("JSON: %v", err)
	}
}

// With the tuner and without, by turns: both sides have numbers.
func TestCompareTuner(t *testing.T) {
	defer goleak.VerifyNone(t)
	cfg := tiny()
	cfg.Tuner, cfg.Duration, cfg.Warmup = 0.02, 50*mono.Millisecond, 50*mono.Millisecond
	r, err := Measure(t.Context(), Plan{Config: cfg, Compare: true})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Tuner[0]
	if c.Turns != tunerTurns || c.Rate != cfg.Rate || c.With.CPU <= 0 || c.Fixed.CPU <= 0 || c.Deferral.CPU <= 0 || c.Ratio.CPU <= 0 || c.Choice == "" {
		t.Errorf("%+v", c)
	}
	var text bytes.Buffer
	if r.Print(&text); !strings.Contains(text.String(), "of a processor") {
		t.Errorf("printed\n%s", text.String())
	}
}

// The comparison runs both sides, and the heap is let go.
func TestHeap(t *testing.T) {
	defer goleak.VerifyNone(t)
	cfg := tiny()
	cfg.Duration = 200 * mono.Millisecond
	r, err := Measure(t.Context(), Plan{Config: cfg, Heap: 4 << 20, Garbage: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if r.Heap.Without == nil || r.Heap.With == nil || r.Heap.Collector == nil {
		t.Errorf("%+v", r.Heap)
	}
}

// The stages are parts of the whole: with the driver's part they are all of it, and
// the bare cores lose nothing at a load that the GPUs carry.
func TestCoresAddUp(t *testing.T) {
	for _, turn := range []mono.Dur{0, coresTurn} {
		c, err := Cores(t.Context(), Config{Rate: 200_000}, turn, 160_000, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Stages) != 6 || c.Sum() <= 0 || c.Total <= 0 {
			t.Fatalf("%+v", c)
		}
		if c.Sum() > 2*c.Total { // measured apart, and the machine may have paused
			t.Errorf("the stages take %.1f ns, all of it %.1f ns", c.Sum(), c.Total)
		}
		calls := 0.0
		for _, k := range c.Calls {
			calls += k.PerRequest
		}
		if math.Abs(calls-c.Sum()) > 1e-6*calls {
			t.Errorf("stages %.1f, calls %.1f ns", c.Sum(), calls)
		}
		if c.BadRate > 0.001 || c.MeanBatch < 5 {
			t.Errorf("bad rate %.4f, batches of %.1f", c.BadRate, c.MeanBatch)
		}
	}
}

// Once warm, the bare cores and their driver allocate nothing.
func TestCoresAllocateNothing(t *testing.T) {
	r, err := newRig(completed(t, Config{Rate: 1_000_000}), false)
	if err != nil {
		t.Fatal(err)
	}
	r.run(400_000)
	if n := testing.AllocsPerRun(5, func() { r.run(20_000) }); n > 1 {
		t.Errorf("%.1f allocations in 20,000 requests", n)
	}
}

// Linear until the rank loop's processor is full, and no further.
func TestScalingModel(t *testing.T) {
	m := loopModel(&Point{GPUs: 64, MeanBatch: 20, ModelCPU: Cost{PerRequest: 500}, RankCPU: Cost{PerRequest: 50}}, nil)
	if rate, share := m.Rate(1); rate != 2e6 || math.Abs(share-0.1) > 1e-9 {
		t.Errorf("one loop: %.0f, %.3f", rate, share)
	}
	if rate, share := m.Rate(8); rate != 16e6 || math.Abs(share-0.8) > 1e-9 {
		t.Errorf("eight: %.0f, %.3f", rate, share)
	}
	if rate, share := m.Rate(31); math.Abs(rate-20e6) > 1 || math.Abs(share-1) > 1e-9 || math.Abs(m.Fill()-10) > 1e-9 {
		t.Errorf("31: %.0f, %.3f; full with %.1f", rate, share, m.Fill())
	}
	m.RankBare = 100
	if got := m.Upper(31); math.Abs(got-62e6) > 1 {
		t.Errorf("at most %.0f", got)
	}
	r := Result{Scaling: &Scaling{Models: []LoopModel{m}, One: []*Found{{Loops: 1, GPUs: 64, Best: &Point{OfferedRate: 1e6}}}}}
	p, ok := r.Picture()
	if !ok {
		t.Fatal("no picture")
	}
	if _, _, err := plot.Render(plot.Size{}, p); err != nil {
		t.Error(err)
	}
	if _, ok := (&Result{}).Picture(); ok {
		t.Error("a picture of nothing")
	}
}

// BenchmarkCores is ns per request of the bare cores with their driver, 0 allocs.
func BenchmarkCores(b *testing.B) {
	for _, c := range []struct {
		name string
		gpus int
		turn mono.Dur
	}{{"64 GPUs", 64, 0}, {"1024 GPUs", 1024, 0}, {"64 GPUs in turns", 64, coresTurn}} {
		b.Run(c.name, func(b *testing.B) {
			r, err := newRig(completed(b, Config{Rate: 1_000_000, GPUs: c.gpus}), false)
			if err != nil {
				b.Fatal(err)
			}
			r.turn = c.turn
			r.run(1_000_000)
			b.ReportAllocs()
			b.ResetTimer()
			r.run(uint64(b.N))
		})
	}
}

// BenchmarkWorld is ns per request of the generator alone.
func BenchmarkWorld(b *testing.B) {
	cfg := completed(b, Config{})
	s := newSource(cfg.tape, 1e6, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		s.advance()
	}
}

// BenchmarkLive runs a million requests/s for a profile of where time goes.
func BenchmarkLive(b *testing.B) {
	for b.Loop() {
		p, err := Live(b.Context(), Config{Rate: 1_000_000, Duration: 5 * mono.Second}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(p.CPU(), "ns/request")
		b.ReportMetric(100*p.BadRate, "%bad")
	}
}
