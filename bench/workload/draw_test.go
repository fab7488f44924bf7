package workload

import (
	"fmt"
	"math"
	"testing"
)

type law struct {
	process   Process
	shape     float64
	variance  float64
	transform func(s float64) float64 // Laplace transform of a gap: E exp(-s*gap)
}

func laws() []law {
	out := []law{
		{Poisson, 0, 1, func(s float64) float64 { return 1 / (1 + s) }},
		{Uniform, 0, 1.0 / 3, func(s float64) float64 { return (1 - math.Exp(-2*s)) / (2 * s) }},
		{Constant, 0, 0, func(s float64) float64 { return math.Exp(-s) }},
	}
	for _, k := range []float64{0.05, 0.1, 0.3, 0.5, 0.7, 1, 3} {
		out = append(out, law{Gamma, k, 1 / k, func(s float64) float64 { return math.Pow(1+s/k, -k) }})
	}
	return out
}

// Mean, variance and the transform at several points fix the distribution.
// The span to the first arrival has the transform (1 - gap's)/s: that of a
// process that has run for ever.
func TestDistributions(t *testing.T) {
	const n = 400_000
	for _, l := range laws() {
		t.Run(fmt.Sprintf("%s%g", l.process, l.shape), func(t *testing.T) {
			d := newDraw(l.process, l.shape, newRandom(5, 0))
			points := []float64{0.1, 0.5, 1, 3, 10, 100}
			gaps, firsts := make([]float64, len(points)), make([]float64, len(points))
			sum, squares := 0.0, 0.0
			for range n {
				g, f := d.gap(), d.first()
				if g < 0 || f < 0 {
					t.Fatalf("gap %g, first %g", g, f)
				}
				sum, squares = sum+g, squares+g*g
				for i, s := range points {
					gaps[i] += math.Exp(-s * g)
					firsts[i] += math.Exp(-s * f)
				}
			}
			mean := sum / n
			variance := squares/n - mean*mean
			if off := math.Abs(mean - 1); off > 5*math.Sqrt(l.variance/n)+1e-12 {
				t.Errorf("mean %g, want 1", mean)
			}
			if math.Abs(variance-l.variance) > 0.1*l.variance+1e-12 {
				t.Errorf("variance %g, want %g", variance, l.variance)
			}
			for i, s := range points {
				want := l.transform(s)
				if got := gaps[i] / n; math.Abs(got-want) > 2.5/math.Sqrt(n) {
					t.Errorf("transform of gaps at %g: %g, want %g", s, got, want)
				}
				if got, want := firsts[i]/n, (1-want)/s; math.Abs(got-want) > 2.5/math.Sqrt(n) {
					t.Errorf("transform of first arrivals at %g: %g, want %g", s, got, want)
				}
			}
		})
	}
}

// Streams of one seed do not resemble each other.
func TestStreamsAreIndependent(t *testing.T) {
	const n = 100_000
	sum := 0.0
	for i := range uint64(n) {
		a, b := newRandom(1, i), newRandom(1, i+1)
		sum += (a.uniform() - 0.5) * (b.uniform() - 0.5) * 12
	}
	if r := sum / n; math.Abs(r) > 5/math.Sqrt(n) {
		t.Errorf("correlation of first numbers %g", r)
	}
}

// Order statistics of uniform instants: the i-th of n has mean i/(n+1) and
// variance i(n+1-i)/((n+1)^2(n+2)).
func TestSpread(t *testing.T) {
	const n, rounds = 5, 100_000
	r := newRandom(3, 0)
	var sum, squares [n]float64
	for range rounds {
		s, last := spread{at: 10, end: 20, left: n}, 10.0
		for i := range n {
			at := s.next(&r)
			if at < last || at > 20 {
				t.Fatalf("%g after %g", at, last)
			}
			last = at
			x := (at - 10) / 10
			sum[i], squares[i] = sum[i]+x, squares[i]+x*x
		}
		if s.left != 0 {
			t.Fatal(s.left)
		}
	}
	for i := range n {
		k := float64(i + 1)
		mean, variance := k/(n+1), k*(n+1-k)/((n+1)*(n+1)*(n+2))
		got := sum[i] / rounds
		if math.Abs(got-mean) > 0.003 || math.Abs(squares[i]/rounds-got*got-variance) > 0.001 {
			t.Errorf("number %d: mean %g, want %g; variance %g, want %g", i, got, mean, squares[i]/rounds-got*got, variance)
		}
	}
}
