package schedbench

import (
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func completed(t testing.TB, cfg Config) *Config {
	t.Helper()
	if err := cfg.complete(); err != nil {
		t.Fatal(err)
	}
	return &cfg
}

// What is offered has the rate that was asked for, whatever it is, models get equal
// parts, and the gaps vary as the process says, over several passes of the tape.
func TestArrivals(t *testing.T) {
	for _, c := range []struct {
		process    workload.Process
		shape, cv2 float64 // of one model's gaps
	}{{workload.Poisson, 0, 1}, {workload.Gamma, 0.3, 1 / 0.3}} {
		cfg := completed(t, Config{Process: c.process, Shape: c.shape, Models: 8, Rate: 2_500_000, Seed: 3})
		s := newSource(cfg.tape, cfg.Rate, 1000, cfg.Seed)
		const n = 5 * tapeLength / 2
		var counts [8]int
		var last mono.Time // of model 0
		var sum, square float64
		before := s.next
		for range n {
			if s.next < before {
				t.Fatalf("%s: %v after %v", c.process, s.next, before)
			}
			before = s.next
			counts[s.model]++
			if s.model == 0 {
				gap := float64(s.next - last)
				if counts[0] > 1 {
					sum += gap
					square += gap * gap
				}
				last = s.next
			}
			s.advance()
		}
		if rate := n / before.Sub(1000).Seconds(); math.Abs(rate/cfg.Rate-1) > 0.02 {
			t.Errorf("%s: rate %.0f, want %.0f", c.process, rate, cfg.Rate)
		}
		for m, k := range counts {
			if math.Abs(float64(k)/(n/8)-1) > 0.05 {
				t.Errorf("%s: model %d has %d of %d", c.process, m, k, n)
			}
		}
		gaps := float64(counts[0] - 1)
		mean := sum / gaps
		if cv2 := (square/gaps - mean*mean) / (mean * mean); math.Abs(cv2/c.cv2-1) > 0.1 {
			t.Errorf("%s: squared coefficient of variation %.2f, want %.2f", c.process, cv2, c.cv2)
		}
	}
}

// A GPU starts a batch when it was sent, when exec has come, and when it is free,
// whichever is last: never two at a time.
func TestGPUs(t *testing.T) {
	g := newGPUs(2)
	for i, c := range []struct {
		gpu                    int
		sent, exec, start, end mono.Time
	}{
		{0, 10, 5, 10, 110},    // sent late
		{0, 20, 30, 110, 210},  // still busy
		{1, 20, 30, 30, 130},   // another one is not
		{0, 20, 300, 300, 400}, // idle until exec
	} {
		if start, end := g.run(c.gpu, c.sent, c.exec, 100); start != c.start || end != c.end {
			t.Errorf("batch %d: %v to %v, want %v to %v", i, start, end, c.start, c.end)
		}
	}
}

// Every run comes out once, not before its end and at the first look after it,
// also where the end lies beyond the wheel's length or in the past.
func TestWheel(t *testing.T) {
	const n = 5000
	w := newWheel(n, 1000)
	length := int64(wheelSlots) << wheelBits
	out := map[wire.BatchID]mono.Time{}
	now := mono.Time(1000)
	ends := map[wire.BatchID]mono.Time{}
	x := uint64(9)
	for i := range wire.BatchID(n) {
		x = x*6364136223846793005 + 1
		end := mono.Time(int64(x>>20) % (3 * length))
		ends[i] = end
		if !w.add(&run{batch: i, end: end}) {
			t.Fatal("full too early")
		}
	}
	if w.add(&run{}) {
		t.Fatal("more than it holds")
	}
	for step := mono.Dur(0); len(out) < n; step++ {
		before := now
		w.due(now, func(r *run) {
			if _, twice := out[r.batch]; twice || r.end > now {
				t.Fatalf("batch %d, end %v, at %v, twice %v", r.batch, r.end, now, twice)
			}
			out[r.batch] = now
		})
		for id, end := range ends {
			if _, ok := out[id]; end <= before && !ok {
				t.Fatalf("batch %d with end %v is missing at %v", id, end, before)
			}
		}
		now = now.Add(step*997*mono.Microsecond + 1)
		if now > mono.Time(4*length) {
			t.Fatalf("%d of %d", len(out), n)
		}
	}
	if w.n != 0 {
		t.Errorf("%d left", w.n)
	}
}

// The profile that is made for a rate carries it in batches of ripeBatch with the
// GPUs busy as aimed, or as busy as the SLO allows.
func TestProfileForTheRate(t *testing.T) {
	for _, gpus := range []int{8, 64, 1024, 4096} {
		cfg := completed(t, Config{GPUs: gpus, Rate: 1_000_000})
		p, err := cfg.profileFor()
		if err != nil {
			t.Fatal(err)
		}
		busy := cfg.Rate / ripeBatch * p.Latency(ripeBatch).Seconds() / float64(gpus)
		if math.Abs(busy-busyTarget) > 0.01 {
			t.Errorf("%d GPUs: %.3f busy", gpus, busy)
		}
	}
	cfg := completed(t, Config{GPUs: 1024, Rate: 1000})
	if p, err := cfg.profileFor(); err != nil || p.Latency(ripeBatch) > cfg.SLO {
		t.Errorf("%v, l(%d) = %v", err, ripeBatch, p.Latency(ripeBatch))
	}
}

func TestRefuses(t *testing.T) {
	for want, cfg := range map[string]Config{
		"loops: 65":   {Loops: 65},
		"gpus: 5000":  {GPUs: 5000},
		"rate: -1":    {Rate: -1},
		"slo: 0.0001": {SLO: 100 * mono.Microsecond},
		"arrivals":    {Process: "never"},
	} {
		if err := cfg.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Only processors that a thread is for are printed.
func TestPlacementTextNamesUsedCores(t *testing.T) {
	for want, p := range map[string]*engine.Placement{
		"pinned to [3]":   {Joined: true, Cores: []int{3, 2, 1}},
		"pinned to [3 2]": {Cores: []int{3, 2, 1}},
		"pinned to [7]":   {Cores: []int{7}},
	} {
		if got := placementText(p, 1); !strings.HasSuffix(got, want) {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
