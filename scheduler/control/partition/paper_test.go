package partition

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// toy is four models for two sub-clusters.
func toy() *Problem {
	return &Problem{SubClusters: 2, Models: []Model{
		{Name: "a", Rate: 4, Static: 40, Dynamic: 7, Cost: 1},
		{Name: "b", Rate: 3, Static: 10, Dynamic: 1, Cost: 2},
		{Name: "c", Rate: 2, Static: 30, Dynamic: 5, Cost: 4},
		{Name: "d", Rate: 1, Static: 20, Dynamic: 2, Cost: 8},
	}}
}

func breaks(t *testing.T, p *Problem, of []int, want Constraint) {
	t.Helper()
	err := p.Check(of)
	b := (*Broken)(nil)
	if got := errors.As(err, &b); got != (want != None) || got && b.What != want {
		t.Errorf("%v: %v, want %v", of, err, want)
	}
}

// Appendix A, (3): dR + w*dS, where these are the largest distances of (6) and (7) from the means.
func TestObjective3(t *testing.T) {
	p := toy() // means: 5 requests/s, 50 bytes
	p.Weight = 0.5
	for _, c := range []struct {
		of   []int
		want float64
	}{
		{[]int{0, 1, 1, 0}, 0 + 0.5*10}, // 5 and 5 requests/s, 60 and 40 bytes
		{[]int{0, 0, 1, 1}, 2 + 0.5*0},  // 7 and 3, 50 and 50
		{[]int{0, 0, 0, 0}, 5 + 0.5*50},
	} {
		if got := p.Value(p.Loads(c.of)); got != c.want {
			t.Errorf("%v: %g, want %g", c.of, got, c.want)
		}
	}
	p.Weight = 0 // the means' ratio: both imbalances weigh the same
	if got := p.Value(p.Loads([]int{0, 1, 1, 0})); math.Abs(got-10*5.0/50) > 1e-12 {
		t.Errorf("without a weight %g, want 1", got)
	}
}

// Appendix A, (4): a sub-cluster's requests/s are at most R_max; equal is allowed.
func TestRateCap4(t *testing.T) {
	p := toy()
	p.RateMax = 6
	breaks(t, p, []int{0, 1, 0, 1}, None) // 6 and 4
	breaks(t, p, []int{0, 0, 1, 1}, RateCap)
}

// Appendix A, (5): all static memory, and the largest dynamic memory once, are at most S_max.
func TestMemoryCap5(t *testing.T) {
	p := toy()
	p.MemoryMax = 67
	breaks(t, p, []int{0, 1, 1, 0}, None) // 60+7, 40+5
	p.MemoryMax = 66
	breaks(t, p, []int{0, 1, 1, 0}, MemoryCap)
	breaks(t, p, []int{0, 0, 1, 1}, None) // 50+7, 50+5
}

// Appendix A, (8) and (9): each model in exactly one of the sub-clusters.
func TestOneEach89(t *testing.T) {
	p := toy()
	breaks(t, p, []int{0, 1, 0}, OneEach)
	breaks(t, p, []int{0, 1, 0, 2}, OneEach)
	breaks(t, p, []int{0, 1, 0, -1}, OneEach)
}

// Appendix A, (10): a move costs the unloading there and the loading here; a new model its loading; what stays nothing.
func TestDisruption10(t *testing.T) {
	p := toy()
	p.From = []int{0, 0, 1, -1}
	for _, c := range []struct {
		of   []int
		cost float64
	}{
		{[]int{0, 0, 1, 1}, 8},
		{[]int{0, 1, 1, 1}, 2*2 + 8},
		{[]int{1, 0, 0, 0}, 2*1 + 2*4 + 8},
	} {
		if got := p.CostOf(c.of); got != c.cost {
			t.Errorf("%v costs %g, want %g", c.of, got, c.cost)
		}
		p.CostMax = c.cost
		breaks(t, p, c.of, None)
		p.CostMax = c.cost - 0.5
		breaks(t, p, c.of, CostBound)
	}
	p.Models[1].Costs = []float64{3, 5} // c_ij by sub-cluster
	if got := p.CostOf([]int{0, 1, 1, 1}); got != 3+5+8 {
		t.Errorf("with costs by sub-cluster %g, want 16", got)
	}
	p.From[0] = 7 // given up: unloading there, loading here
	if got := p.CostOf([]int{0, 0, 1, 1}); got != 2*1+8 {
		t.Errorf("from a sub-cluster that is given up: %g, want 10", got)
	}
}

// Section A.2: imbalance is (max - min) / avg.
func TestImbalance(t *testing.T) {
	p := toy()
	if rate, static := Imbalance(p.Loads([]int{0, 0, 1, 0})); rate != 6.0/5 || static != 40.0/50 {
		t.Errorf("%g and %g", rate, static)
	}
	if rate, _ := Imbalance(make([]Load, 3)); rate != 0 {
		t.Errorf("nothing is out of balance by %g", rate)
	}
}

// Section A.2 and figure 16, small: far better than random assignments.
func TestFarBetterThanRandom(t *testing.T) {
	p := drawn(200, 8, 5)
	s, err := New(p, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s.Run(1_000_000)
	of, err := s.Best()
	if err != nil {
		t.Fatal(err)
	}
	best, rng := math.Inf(1), rand.New(rand.NewPCG(2, 0))
	for range 10_000 {
		random := make([]int, len(p.Models))
		for i := range random {
			random[i] = rng.IntN(p.SubClusters)
		}
		best = min(best, p.Value(p.Loads(random)))
	}
	if got := p.Value(p.Loads(of)); got > best/100 {
		t.Errorf("ours %g, the best of 10,000 random ones %g", got, best)
	}
	if rate, static := Imbalance(p.Loads(of)); rate > 0.001 || static > 0.001 {
		t.Errorf("imbalance %g of rate, %g of memory", rate, static)
	}
}

// drawn is a random problem without caps.
func drawn(n, l int, seed uint64) *Problem {
	rng := rand.New(rand.NewPCG(seed, 9))
	p := &Problem{SubClusters: l}
	for i := range n {
		rate := rng.ExpFloat64() * 10
		p.Models = append(p.Models, Model{Name: string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)), Rate: rate, Need: rate * (0.001 + 0.01*rng.Float64()),
			Static: 20e6 + rng.Int64N(980e6), Dynamic: 100e6 + rng.Int64N(1400e6), Cost: 1 + rng.Float64()})
	}
	return p
}
