package autoscale

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const span = 60 * mono.Second

// epoch is one in which so many GPUs were idle.
func epoch(gpus int, answered, bad int64, idle float64) Epoch {
	return Epoch{GPUs: gpus, Answered: answered, Bad: bad, Span: span, Idle: mono.Dur(idle * float64(span))}
}

// Section 3.5: N*r/(1-r), rounded up, within the limits.
func TestAdd(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		e    Epoch
		want Advice
	}{
		{"a fifth bad: a quarter more", Config{}, epoch(24, 1e6, 200000, 0), Advice{Add: 6, Why: BadRate}},
		{"rounded up", Config{}, epoch(24, 1e6, 210000, 0), Advice{Add: 7, Why: BadRate}},
		{"two percent of one GPU", Config{}, epoch(1, 1e6, 20000, 0), Advice{Add: 1, Why: BadRate}},
		{"half bad: as many again", Config{}, epoch(8, 1e6, 500000, 0), Advice{Add: 8, Why: BadRate}},
		{"nine tenths bad", Config{}, epoch(8, 1e6, 900000, 0), Advice{Add: 72, Why: BadRate}},
		{"all bad", Config{}, epoch(8, 1000, 1000, 0), Advice{Add: 8, Why: BadRate}},
		{"at the bound", Config{}, epoch(24, 1e6, 10000, 0), Advice{Why: Steady}},
		{"within its scatter", Config{}, epoch(24, 1e6, 10201, 0), Advice{Why: Steady}},
		{"beyond it", Config{}, epoch(24, 1e6, 10202, 0), Advice{Add: 1, Why: BadRate}},
		{"one of ten proves nothing", Config{}, epoch(2, 10, 1, 0), Advice{Why: Steady}},
		{"five of a hundred do", Config{}, epoch(2, 100, 5, 0), Advice{Add: 1, Why: BadRate}},
		{"another bound", Config{BadRate: 0.05}, epoch(24, 1e6, 40000, 0), Advice{Why: Steady}},
		{"no further than Max", Config{Max: 26}, epoch(24, 1e6, 200000, 0), Advice{Add: 2, Why: BadRate}},
		{"at Max", Config{Max: 24}, epoch(24, 1e6, 200000, 0), Advice{Why: AtMax}},
		{"below Min", Config{Min: 4}, epoch(1, 0, 0, 1), Advice{Add: 3, Why: Limits}},
		{"above Max", Config{Max: 4}, epoch(9, 0, 0, 9), Advice{Remove: 5, Why: Limits}},
		{"no GPU at all", Config{}, epoch(0, 100, 100, 0), Advice{Add: 1, Why: Limits}},
		{"more bad than answered", Config{}, epoch(8, 10, 20, 0), Advice{Add: 8, Why: BadRate}},
	} {
		if got := New(c.cfg).Close(c.e); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// N*f less the reserve, rounded down, after Hold epochs.
func TestRemove(t *testing.T) {
	three := Config{Hold: 3}
	for _, c := range []struct {
		name string
		cfg  Config
		idle []float64 // of 24 GPUs, in each epoch
		want Advice    // for the last
	}{
		{"16 busy: 4 in reserve", three, []float64{8, 8, 8}, Advice{Remove: 4, Why: Idle}},
		{"rounded down", three, []float64{7.9, 7.9, 7.9}, Advice{Remove: 3, Why: Idle}},
		{"too early", three, []float64{8, 8}, Advice{Why: Holding}},
		{"the peak counts, and the range", three, []float64{15, 14, 15}, Advice{Remove: 9, Why: Idle}},
		{"an old peak does not", three, []float64{0, 15, 15, 15}, Advice{Remove: 12, Why: Idle}},
		{"one epoch without", three, []float64{8, 0, 8}, Advice{Why: Steady}},
		{"within the reserve", three, []float64{4, 4, 4}, Advice{Why: Steady}},
		{"all idle: one stays", three, []float64{24, 24, 24}, Advice{Remove: 23, Why: Idle}},
		{"no further than Min", Config{Hold: 3, Min: 22}, []float64{24, 24, 24}, Advice{Remove: 2, Why: Idle}},
		{"Hold of one", Config{Hold: 1}, []float64{8}, Advice{Remove: 4, Why: Idle}},
		{"more idle than there is", Config{Hold: 1}, []float64{99}, Advice{Remove: 23, Why: Idle}},
	} {
		s := New(c.cfg)
		var got Advice
		for _, f := range c.idle {
			got = s.Close(epoch(24, 1e6, 0, f))
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := New(Config{Hold: 1}).Close(Epoch{GPUs: 24, Idle: span}); got != (Advice{Why: Steady}) {
		t.Errorf("an epoch without a length: %+v", got)
	}
}

// flatTop is a cluster with section 3.5's properties: GPUs carry 500 r/s each,
// the rest is bad; what they do not carry they are idle. Near the edge some are
// bad already: 1 % at the goodput, a hundredth of that a tenth below it. Counts
// scatter as those of independent requests, the load by a few percent.
type flatTop struct {
	gpus  int
	rand  *rand.Rand
	noise float64
}

const perGPU = 500

func (c *flatTop) epoch(load float64) Epoch {
	load *= 1 + c.noise*c.rand.NormFloat64()
	answered := load * span.Seconds()
	answered += math.Sqrt(answered) * c.rand.NormFloat64()
	peak := perGPU * float64(c.gpus)
	bad := max(1-peak/load, 0.01*math.Exp(-46*max(0, 1-load/peak)))
	count := answered * bad
	count += math.Sqrt(count) * c.rand.NormFloat64()
	return epoch(c.gpus, int64(answered), int64(max(0, count)), max(0, float64(c.gpus)-load*(1-bad)/perGPU))
}

func (c *flatTop) follow(a Advice) { c.gpus += a.Add - a.Remove }

// The closed loop: after each step of the load the cluster is large enough
// within a few epochs, gives up what it does not need, and then stays. A GPU
// added after one was released for the same load is a regret: none where only
// counts scatter; where the load does by 3 %, one of 100 steps at most.
func TestClosedLoopSettles(t *testing.T) {
	regrets := [2]int{}
	for seed := range uint64(40) {
		c := &flatTop{gpus: 1, rand: rand.New(rand.NewPCG(seed, 0)), noise: 0.03 * float64(seed%2)}
		s := New(Config{})
		for _, load := range []float64{300, 12000, 3000, 100000, 40000, 100} {
			demand := load / perGPU
			released, regretted, changes := false, 0, 0
			for i := range 60 {
				a := s.Close(c.epoch(load))
				c.follow(a)
				if released = released || a.Remove > 0; released {
					regretted += a.Add
				}
				if i >= 20 && a.Add+a.Remove > 0 {
					changes++
				}
			}
			if float64(c.gpus) < 0.98*demand || float64(c.gpus) > 1.1*demand+2*math.Sqrt(demand)+1 {
				t.Errorf("seed %d: %d GPUs for a demand of %.1f", seed, c.gpus, demand)
			}
			if regretted > 0 {
				regrets[seed%2]++
			}
			if changes > 6 {
				t.Errorf("seed %d, load %.0f: %d changes after 20 epochs", seed, load, changes)
			}
		}
	}
	if regrets[0] > 0 || regrets[1] > 1 {
		t.Errorf("%v of 120 steps were followed by a release that was regretted", regrets)
	}
}

// An overload is answered by one addition and perhaps a small second one.
func TestClosedLoopReactsAtOnce(t *testing.T) {
	c := &flatTop{gpus: 24, rand: rand.New(rand.NewPCG(1, 0))}
	s := New(Config{})
	for range 2 {
		c.follow(s.Close(c.epoch(20000)))
	}
	if c.gpus < 40 {
		t.Errorf("%d GPUs after two epochs, want 40", c.gpus)
	}
}

// A model whose SLO no GPU can keep makes 5 % bad for ever. The cluster does
// not grow for it, but does when the load grows as well.
func TestFutile(t *testing.T) {
	s := New(Config{})
	gpus, demand := 20, 15.0
	impossible := func() Epoch {
		served := min(demand, float64(gpus))
		bad := 1 - 0.95*served/demand
		return epoch(gpus, int64(1e5*demand), int64(1e5*demand*bad), float64(gpus)-served)
	}
	for range 50 {
		a := s.Close(impossible())
		gpus += a.Add - a.Remove
	}
	if gpus > 24 {
		t.Errorf("%d GPUs for a demand of %v", gpus, demand)
	}
	demand = 60
	for range 5 {
		a := s.Close(impossible())
		gpus += a.Add - a.Remove
	}
	if gpus < 60 {
		t.Errorf("%d GPUs for a demand of %v", gpus, demand)
	}
}

// Bursts: a demand of 10 GPUs on average needs 17; each GPU less costs 0.75 %.
// A release is wrong each time; it must be tried ever more rarely.
func TestBurstsAlternateRarely(t *testing.T) {
	s := New(Config{})
	gpus, releases := 18, 0
	for range 1000 {
		bad := int64(7500 * max(0, 18-gpus))
		a := s.Close(epoch(gpus, 1e6, bad, float64(gpus)-10))
		gpus += a.Add - a.Remove
		if a.Remove > 0 {
			releases++
		}
	}
	if releases < 5 || releases > 25 {
		t.Errorf("%d releases in 1000 epochs, want a few", releases)
	}
}

// Random epochs: never both, never outside the limits, no release within Hold
// epochs of a bad one.
func TestRandomEpochs(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		cfg := Config{Min: 1 + r.IntN(5), Max: 5 + r.IntN(100), Hold: 1 + r.IntN(4)}
		s := New(cfg)
		gpus, quiet := r.IntN(120), 0
		for range 300 {
			e := epoch(gpus, int64(r.IntN(100000)), 0, float64(gpus)*r.Float64())
			if r.IntN(3) == 0 {
				e.Bad = int64(float64(e.Answered) * r.Float64())
			}
			quiet++
			if s.tooMany(e) {
				quiet = 0
			}
			a := s.Close(e)
			if a.Add < 0 || a.Remove < 0 || a.Add > 0 && a.Remove > 0 {
				t.Fatalf("seed %d: %+v", seed, a)
			}
			if a.Remove > 0 && a.Why != Limits && quiet < cfg.Hold {
				t.Fatalf("seed %d: %d removed %d epochs after a bad one", seed, a.Remove, quiet)
			}
			if gpus += a.Add - a.Remove; gpus < cfg.Min || gpus > cfg.Max {
				t.Fatalf("seed %d: %d GPUs, limits %d to %d (%+v)", seed, gpus, cfg.Min, cfg.Max, a)
			}
		}
	}
}

func TestWhyHasNames(t *testing.T) {
	seen := map[string]bool{}
	for w := Steady; w <= Limits; w++ {
		if seen[w.String()] || w.String() == "unknown" {
			t.Errorf("%d is %s", w, w)
		}
		seen[w.String()] = true
	}
	if Why(99).String() != "unknown" {
		t.Error(Why(99).String())
	}
}

// A release that turns bad doubles the wait before the next; two releases in a
// row halve it.
func TestWaitAfterAWrongRelease(t *testing.T) {
	s := New(Config{Hold: 1})
	epochsToRelease := func(idle float64) int {
		for n := 1; n < 100; n++ {
			if s.Close(epoch(100, 1e6, 0, idle)).Remove > 0 {
				return n
			}
		}
		t.Fatal("never released")
		return 0
	}
	wrong := func() { s.Close(epoch(100, 1e6, 100000, 0)) }
	for i, want := range []int{1, 2, 4, 8, 16, 16} {
		if n := epochsToRelease(50); n != want {
			t.Errorf("released after %d epochs, want %d, when %d releases were wrong", n, want, i)
		}
		wrong()
	}
	if first := epochsToRelease(50); first != 16 {
		t.Errorf("released after %d epochs, want 16", first)
	}
	epochsToRelease(70) // right: 8 from now on
	wrong()             // wrong: 16 again
	epochsToRelease(50)
	for range 5 {
		epochsToRelease(70)
	}
	if s.hold != 1 {
		t.Errorf("%d epochs of waiting after six right releases, want 1", s.hold)
	}
}
