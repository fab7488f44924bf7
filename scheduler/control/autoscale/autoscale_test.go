package autoscale

import (
	"math"
	"math/rand/v2"
	"testing"
)

const seconds = 60 // an epoch

// epoch is one with such a need.
func epoch(gpus int, answered, bad int64, need float64) Epoch {
	return Epoch{GPUs: gpus, Answered: answered, Bad: bad, Need: need}
}

// Once less than a quarter of its reserve is left: the need and its whole reserve, within the
// limits.
func TestAddForTheNeed(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		e    Epoch
		want Advice
	}{
		{"16 needed: 4 in reserve", Config{}, epoch(16, 1e6, 0, 16), Advice{Add: 4, Why: Need}},
		{"one of them is there", Config{}, epoch(17, 1e6, 0, 16), Advice{Why: Steady}},
		{"rounded up", Config{}, epoch(17, 1e6, 0, 16.01), Advice{Add: 4, Why: Need}},
		{"a small need", Config{}, epoch(1, 1e6, 0, 0.77), Advice{Why: Steady}},
		{"more than 0.78 of one GPU", Config{}, epoch(1, 1e6, 0, 0.79), Advice{Add: 1, Why: Need}},
		{"overload", Config{}, epoch(20, 1e6, 500000, 36), Advice{Add: 22, Why: Need}},
		{"more bad requests say no more", Config{}, epoch(20, 1e6, 520000, 36), Advice{Add: 22, Why: Need}},
		{"nor do fewer", Config{}, epoch(20, 1e6, 0, 36), Advice{Add: 22, Why: Need}},
		{"no further than Max", Config{Max: 17}, epoch(16, 1e6, 0, 16), Advice{Add: 1, Why: Need}},
		{"at Max", Config{Max: 16}, epoch(16, 1e6, 0, 16), Advice{Why: AtMax}},
		{"nonsense is no need", Config{}, epoch(18, 1e6, 0, math.Inf(1)), Advice{Why: Steady}},
		{"nor is this", Config{}, epoch(18, 1e6, 0, math.NaN()), Advice{Why: Steady}},
	} {
		if got := New(c.cfg).Close(c.e); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Section 3.5: N*r/(1-r), rounded up, within the limits, where the need says that
// there are enough.
func TestAddForTheBadRate(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		e    Epoch
		want Advice
	}{
		{"a fifth bad: a quarter more", Config{}, epoch(24, 1e6, 200000, 12), Advice{Add: 6, Why: BadRate}},
		{"rounded up", Config{}, epoch(24, 1e6, 210000, 12), Advice{Add: 7, Why: BadRate}},
		{"two percent of one GPU", Config{}, epoch(1, 1e6, 20000, 0.1), Advice{Add: 1, Why: BadRate}},
		{"half bad: as many again", Config{}, epoch(8, 1e6, 500000, 4), Advice{Add: 8, Why: BadRate}},
		{"nine tenths bad", Config{}, epoch(8, 1e6, 900000, 4), Advice{Add: 72, Why: BadRate}},
		{"all bad", Config{}, epoch(8, 1000, 1000, 4), Advice{Add: 8, Why: BadRate}},
		{"the need is not known", Config{}, epoch(8, 1e6, 500000, 0), Advice{Add: 8, Why: BadRate}},
		{"at the bound", Config{}, epoch(24, 1e6, 10000, 19), Advice{Why: Steady}},
		{"within its scatter", Config{}, epoch(24, 1e6, 10201, 19), Advice{Why: Steady}},
		{"beyond it", Config{}, epoch(24, 1e6, 10202, 19), Advice{Add: 1, Why: BadRate}},
		{"one of ten proves nothing", Config{}, epoch(2, 10, 1, 0.5), Advice{Why: Steady}},
		{"five of a hundred do", Config{}, epoch(2, 100, 5, 0.5), Advice{Add: 1, Why: BadRate}},
		{"another bound", Config{BadRate: 0.05}, epoch(24, 1e6, 40000, 19), Advice{Why: Steady}},
		{"no further than Max", Config{Max: 26}, epoch(24, 1e6, 200000, 12), Advice{Add: 2, Why: BadRate}},
		{"at Max", Config{Max: 24}, epoch(24, 1e6, 200000, 12), Advice{Why: AtMax}},
		{"below Min", Config{Min: 4}, epoch(1, 0, 0, 0), Advice{Add: 3, Why: Limits}},
		{"above Max", Config{Max: 4}, epoch(9, 0, 0, 0), Advice{Remove: 5, Why: Limits}},
		{"no GPU at all", Config{}, epoch(0, 100, 100, 0), Advice{Add: 1, Why: Limits}},
		{"more bad than answered", Config{}, epoch(8, 10, 20, 4), Advice{Add: 8, Why: BadRate}},
	} {
		if got := New(c.cfg).Close(c.e); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What is above the need and its reserve, rounded down, after Hold epochs.
func TestRemove(t *testing.T) {
	three := Config{Hold: 3}
	for _, c := range []struct {
		name string
		cfg  Config
		need []float64 // in each epoch, of 24 GPUs
		want Advice    // for the last
	}{
		{"16 needed: 4 in reserve", three, []float64{16, 16, 16}, Advice{Remove: 4, Why: Spare}},
		{"rounded down", three, []float64{16.1, 16.1, 16.1}, Advice{Remove: 3, Why: Spare}},
		{"too early", three, []float64{16, 16}, Advice{Why: Holding}},
		{"the peak counts, and the range", three, []float64{9, 10, 9}, Advice{Remove: 9, Why: Spare}},
		{"an old peak does not", three, []float64{19, 9, 9, 9}, Advice{Remove: 12, Why: Spare}},
		{"one epoch without", three, []float64{16, 24, 16}, Advice{Why: Steady}},
		{"within the reserve", three, []float64{19.5, 19.5, 19.5}, Advice{Why: Steady}},
		{"one epoch whose need is not known", three, []float64{16, 0, 16}, Advice{Why: Steady}},
		{"next to none: one stays", three, []float64{1e-9, 1e-9, 1e-9}, Advice{Remove: 23, Why: Spare}},
		{"no further than Min", Config{Hold: 3, Min: 22}, []float64{1, 1, 1}, Advice{Remove: 2, Why: Spare}},
		{"Hold of one", Config{Hold: 1}, []float64{16}, Advice{Remove: 4, Why: Spare}},
		{"never known", Config{Hold: 1}, []float64{0}, Advice{Why: Steady}},
	} {
		s := New(c.cfg)
		var got Advice
		for _, need := range c.need {
			got = s.Close(epoch(24, 1e6, 0, need))
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := New(Config{Hold: 1}).Close(Epoch{GPUs: 24}); got != (Advice{Remove: 23, Why: Spare}) {
		t.Errorf("an epoch without requests: %+v", got)
	}
}

// Two schedulers have the same load; what each loses differs a little, and which one
// is above the bound. While the need is short, the advice is the same.
func TestOverloadAdviceDoesNotFollowTheBadRate(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		a, b := New(Config{}), New(Config{})
		for i := range 200 {
			need := 512 * (1 + 0.3*math.Sin(float64(i)/15))
			bad := func() int64 {
				if need+math.Sqrt(need)/4 <= 512 {
					return int64(r.IntN(5000)) // of a million: less than the bound
				}
				return int64(1e6*max(0, 1-512/need)) + int64(r.IntN(20000))
			}
			x, y := a.Close(epoch(512, 1e6, bad(), need)), b.Close(epoch(512, 1e6, bad(), need))
			if x != y {
				t.Fatalf("seed %d, epoch %d: need %.1f: %+v and %+v", seed, i, need, x, y)
			}
		}
	}
}

// flatTop is a cluster with section 3.5's properties: GPUs carry 500 r/s each,
// the rest is bad, and the need knows that. Near the edge some are
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
	answered := load * seconds
	answered += math.Sqrt(answered) * c.rand.NormFloat64()
	peak := perGPU * float64(c.gpus)
	bad := max(1-peak/load, 0.01*math.Exp(-46*max(0, 1-load/peak)))
	count := answered * bad
	count += math.Sqrt(count) * c.rand.NormFloat64()
	return epoch(c.gpus, int64(answered), int64(max(0, count)), load/perGPU)
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

// An overload is answered by one addition.
func TestClosedLoopReactsAtOnce(t *testing.T) {
	c := &flatTop{gpus: 24, rand: rand.New(rand.NewPCG(1, 0))}
	c.follow(New(Config{}).Close(c.epoch(20000)))
	if c.gpus != 47 { // 40, and their reserve
		t.Errorf("%d GPUs after an epoch, want 47", c.gpus)
	}
}

// Profiles are wrong: 40 GPUs are needed where the need says 20. The bad rate makes up
// for it.
func TestClosedLoopWithAWrongNeed(t *testing.T) {
	s, gpus := New(Config{}), 24
	for range 4 {
		bad := max(0.001, 1-float64(gpus)/40)
		a := s.Close(epoch(gpus, 1e6, int64(1e6*bad), 20))
		gpus += a.Add - a.Remove
	}
	if gpus < 40 || gpus > 41 {
		t.Errorf("%d GPUs, want 40", gpus)
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
		return epoch(gpus, int64(1e5*demand), int64(1e5*demand*bad), demand)
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

// Bursts that the need does not show: 17 GPUs are wanted where it says 10; each less
// costs 0.75 %.
// A release is wrong each time; it must be tried ever more rarely.
func TestBurstsAlternateRarely(t *testing.T) {
	s := New(Config{})
	gpus, releases := 18, 0
	for range 1000 {
		bad := int64(7500 * max(0, 18-gpus))
		a := s.Close(epoch(gpus, 1e6, bad, 10))
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
// epochs of one that called for GPUs.
func TestRandomEpochs(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		cfg := Config{Min: 1 + r.IntN(5), Max: 5 + r.IntN(100), Hold: 1 + r.IntN(4)}
		s := New(cfg)
		gpus, quiet := r.IntN(120), 0
		for range 300 {
			e := epoch(gpus, int64(r.IntN(100000)), 0, 100*r.Float64()*r.Float64())
			if r.IntN(3) == 0 {
				e.Bad = int64(float64(e.Answered) * r.Float64())
			}
			quiet++
			if s.tooMany(e) || e.short() > 0 {
				quiet = 0
			}
			a := s.Close(e)
			if a.Add < 0 || a.Remove < 0 || a.Add > 0 && a.Remove > 0 {
				t.Fatalf("seed %d: %+v", seed, a)
			}
			if a.Remove > 0 && a.Why != Limits && quiet < cfg.Hold {
				t.Fatalf("seed %d: %d removed %d epochs after one that called for GPUs", seed, a.Remove, quiet)
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

// A release that turns bad, and the need does not say why, doubles the wait before the
// next; two releases in a row halve it.
func TestWaitAfterAWrongRelease(t *testing.T) {
	s := New(Config{Hold: 1})
	epochsToRelease := func(need float64) int {
		for n := 1; n < 100; n++ {
			if s.Close(epoch(100, 1e6, 0, need)).Remove > 0 {
				return n
			}
		}
		t.Fatal("never released")
		return 0
	}
	wrong := func() { s.Close(epoch(100, 1e6, 100000, 50)) }
	for i, want := range []int{1, 2, 4, 8, 16, 16} {
		if n := epochsToRelease(50); n != want {
			t.Errorf("released after %d epochs, want %d, when %d releases were wrong", n, want, i)
		}
		wrong()
	}
	if first := epochsToRelease(50); first != 16 {
		t.Errorf("released after %d epochs, want 16", first)
	}
	epochsToRelease(30) // right: 8 from now on
	wrong()             // wrong: 16 again
	epochsToRelease(50)
	for range 5 {
		epochsToRelease(30)
	}
	if s.hold != 1 {
		t.Errorf("%d epochs of waiting after six right releases, want 1", s.hold)
	}
	s.Close(epoch(100, 1e6, 100000, 110)) // the load grew: nobody was wrong
	if s.hold != 1 {
		t.Errorf("%d epochs of waiting after a load that grew, want 1", s.hold)
	}
}
