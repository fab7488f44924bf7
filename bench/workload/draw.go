package workload

import "math"

// draw draws gaps of mean 1 for one renewal process. The process is a number
// here: comparing its name would take as long as an exponential.
type draw struct {
	random
	kind  kind
	gamma gammaShape
}

type kind uint8

const (
	exponentialGaps kind = iota
	constantGaps
	uniformGaps
	gammaGaps
)

func newDraw(p Process, shape float64, r random) draw {
	d := draw{random: r}
	switch {
	case p == Constant:
		d.kind = constantGaps
	case p == Uniform:
		d.kind = uniformGaps
	case p == Gamma && shape != 1:
		d.kind, d.gamma = gammaGaps, newGammaShape(shape)
	}
	return d
}

// gap is the next gap.
func (d *draw) gap() float64 {
	switch d.kind {
	case constantGaps:
		return 1
	case uniformGaps:
		return float64(2 * d.uniform())
	case gammaGaps:
		return d.gamma.draw(&d.random)
	}
	return d.exponential()
}

// first is the span from an instant chosen without regard to the process to
// its next arrival: a uniform part of a gap that is drawn in proportion to its
// length. So arrivals have their full rate from instant 0 on and streams are
// not in step. For Gamma, gaps weighted by length are Gamma of one shape more.
//
// Rejected: a uniform part of an ordinary gap. Bursty processes would begin
// with a burst much too often.
func (d *draw) first() float64 {
	switch d.kind {
	case constantGaps:
		return d.uniform()
	case uniformGaps:
		return float64(float64(2*math.Sqrt(d.uniform())) * d.uniform())
	case gammaGaps:
		longer := newGammaShape(d.gamma.shape + 1)
		gap := float64(longer.draw(&d.random)*longer.shape) / d.gamma.shape
		return float64(gap * d.uniform())
	}
	return d.exponential()
}

// gammaShape holds what Marsaglia and Tsang's method needs of a shape.
type gammaShape struct {
	shape   float64
	boosted bool // below 1: a draw of shape + 1 times U^(1/shape)
	d, c    float64
}

func newGammaShape(shape float64) gammaShape {
	g := gammaShape{shape: shape, boosted: shape < 1}
	g.d = shape - 1.0/3
	if g.boosted {
		g.d = shape + 2.0/3
	}
	g.c = 1 / math.Sqrt(float64(9*g.d))
	return g
}

// draw is from the Gamma distribution of that shape and mean 1.
func (g *gammaShape) draw(r *random) float64 {
	x := float64(g.d*g.cube(r)) / g.shape
	if g.boosted {
		x = float64(x * exp(-r.exponential()/g.shape))
	}
	return x
}

// cube is (1 + c*normal)^3, accepted so that d times it is Gamma of shape
// d + 1/3. The first test is a bound of the second that spares the logarithms.
func (g *gammaShape) cube(r *random) float64 {
	for {
		x := r.normal()
		v := 1 + float64(g.c*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		x2 := float64(x * x)
		u := r.positive()
		if u < 1-float64(0.0331*float64(x2*x2)) {
			return v
		}
		if ln(u) < float64(x2/2)+float64(g.d*(1-v+ln(v))) {
			return v
		}
	}
}

// normal is from the standard normal distribution (Marsaglia's polar method).
func (r *random) normal() float64 {
	for {
		u, v := float64(2*r.uniform())-1, float64(2*r.uniform())-1
		s := float64(u*u) + float64(v*v)
		if s > 0 && s < 1 {
			return float64(u * math.Sqrt(float64(-2*ln(s))/s))
		}
	}
}
