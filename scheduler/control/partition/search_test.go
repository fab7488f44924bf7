package partition

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func run(t *testing.T, p *Problem, seed uint64, steps int) *Search {
	t.Helper()
	s, err := New(p, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s.Run(steps)
	return s
}

// capped puts caps on a problem as the notes' second trial has them: 1.15 of the mean rate, 1.10 of the mean memory and the
// largest dynamic memory.
func capped(p *Problem) *Problem {
	rate, static := p.means()
	p.RateMax, p.MemoryMax = 1.15*rate, int64(1.10*static)+1500e6
	return p
}

// The sums that the search goes by are those of its assignment, whatever it did.
func TestSumsAgree(t *testing.T) {
	for _, objective := range []Objective{Balance, GPUs} {
		p := capped(drawn(120, 6, 3))
		p.Objective = objective
		p.From = make([]int, 120)
		for i := range p.From {
			p.From[i] = i%7 - 1
		}
		p.CostMax = 150
		s := run(t, p, 1, 300_000)
		loads, cost := p.Loads(s.back(s.of)), s.cost
		for j := range loads {
			a, b := &loads[j], &s.sums[j]
			if a.Models != b.count || a.Static != b.static || math.Abs(a.Rate-b.rate) > 1e-6 || math.Abs(a.Need-b.need) > 1e-9 || a.Dynamic != s.largest(b) {
				t.Errorf("%v: sub-cluster %d: %+v, the search has %+v", objective, j, a, b)
			}
		}
		if want := p.CostOf(s.back(s.of)); math.Abs(want-cost) > 1e-6 {
			t.Errorf("%v: cost %g, the search has %g", objective, want, cost)
		}
		pot := s.pot
		if s.settle(); math.Abs(pot-s.pot) > 1e-6*math.Max(1, s.pot) {
			t.Errorf("%v: potential %g, summed up anew %g", objective, pot, s.pot)
		}
		if _, err := s.Best(); err != nil {
			t.Error(err)
		}
	}
}

func TestMoreStepsAreNeverWorse(t *testing.T) {
	for _, objective := range []Objective{Balance, GPUs} {
		p := capped(drawn(150, 5, 4))
		p.Objective = objective
		s := run(t, p, 1, 1)
		last := math.Inf(1)
		for range 60 {
			s.Run(30_000)
			of, err := s.Best()
			if err != nil {
				t.Fatal(err)
			}
			value := p.Value(p.Loads(of))
			if value > last*(1+1e-9) {
				t.Fatalf("%v: %g after %g", objective, value, last)
			}
			last = value
		}
		if b := p.Bound(); last < b*(1-1e-9) {
			t.Errorf("%v: %g is below the bound %g", objective, last, b)
		}
	}
}

func TestOneSeedOneResult(t *testing.T) {
	p := capped(drawn(100, 4, 5))
	a, b := run(t, p, 7, 200_000), run(t, p, 7, 200_000)
	c := run(t, p, 8, 200_000)
	x, _ := a.Best()
	y, _ := b.Best()
	z, _ := c.Best()
	if !slices.Equal(x, y) {
		t.Error("one seed, two results")
	}
	if slices.Equal(x, z) {
		t.Error("two seeds, one result: the seed is not used")
	}
}

// Slices of work do not change what comes out of it.
func TestAllocatesNothing(t *testing.T) {
	for _, objective := range []Objective{Balance, GPUs} {
		p := capped(drawn(200, 8, 6))
		p.Objective = objective
		s := run(t, p, 1, 2_000_000) // through all phases once
		if n := testing.AllocsPerRun(20, func() { s.Run(50_000) }); n != 0 {
			t.Errorf("%v: %v allocations", objective, n)
		}
	}
}

// The bound (10) is kept, and what it allows is used: better than what was there.
func TestDisruptionIsBounded(t *testing.T) {
	p := capped(drawn(300, 10, 8))
	s := run(t, p, 1, 500_000)
	p.From, _ = s.Best()
	rng, total := rand.New(rand.NewPCG(3, 3)), 0.0
	for i := range p.Models {
		p.Models[i].Rate *= math.Exp(0.3 * rng.NormFloat64())
		total += p.Models[i].Cost
	}
	p.RateMax = 0
	before := p.Value(p.Loads(p.From))
	last := before
	for _, share := range []float64{0, 0.05, 0.2, 1} {
		p.CostMax = share * total
		of, err := run(t, p, 1, 1_500_000).Best()
		if err != nil {
			t.Fatalf("share %g: %v", share, err)
		}
		value := p.Value(p.Loads(of))
		t.Logf("bound %g of all costs: %.4f, before %.4f; cost %.1f of %.1f", share, value, before, p.CostOf(of), p.CostMax)
		if value > last*(1+1e-9) || share == 0 && value != before || share == 0.05 && value > 0.6*before {
			t.Errorf("share %g: %g after %g", share, value, last)
		}
		last = value
	}
}

// A plan from elsewhere is taken if it is better, and not if it is worse.
func TestOffer(t *testing.T) {
	p := drawn(60, 3, 9)
	good, _ := run(t, p, 1, 300_000).Best()
	s := run(t, p, 2, 1)
	if !s.Offer(good) {
		t.Error("a better assignment was refused")
	}
	if got, _ := s.Best(); p.Value(p.Loads(got)) > p.Value(p.Loads(good)) {
		t.Error("it was not kept")
	}
	if s.Offer(make([]int, 60)) || s.Offer(nil) || s.Offer(append(make([]int, 59), 3)) {
		t.Error("a worse one, or none, was taken")
	}
}

func BenchmarkRun(b *testing.B) {
	p := capped(drawn(800, 20, 1))
	s, err := New(p, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Run(1000)
	}
}
