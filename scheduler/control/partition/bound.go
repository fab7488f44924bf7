package partition

import (
	"math"
)

// Bound is a value that no assignment is below, whatever it costs to get there. For Balance the relaxation to
// fractions of models says nothing (its value is 0): what is left is that a model is not divided, that there
// may be fewer models than sub-clusters, and that sums of bytes are multiples of what all sizes are multiples of.
// For GPUs see gpuBound.
func (p *Problem) Bound() float64 {
	if p.Objective == GPUs {
		return p.gpuBound()
	}
	rate, static := p.means()
	dR, dS := 0.0, 0.0
	divisor, alike := int64(0), true
	for i := range p.Models {
		m := &p.Models[i]
		dR, dS = max(dR, m.Rate-rate), max(dS, float64(m.Static)-static)
		divisor = gcd(divisor, m.Static)
		alike = alike && m.Rate == p.Models[0].Rate
	}
	if len(p.Models) < p.SubClusters { // one of them stays empty
		dR, dS = max(dR, rate), max(dS, static)
	}
	if divisor > 0 {
		dS = max(dS, apart(static, float64(divisor)))
	}
	if r := p.Models[0].Rate; alike && r > 0 {
		dR = max(dR, apart(rate, r))
	}
	return dR + float64(p.weight()*dS)
}

// apart is the distance of the farther of two sub-clusters from the mean, where their sums are multiples of unit: if the
// mean is none, one of them is above it and one below.
func apart(mean, unit float64) float64 {
	over := mean/unit - math.Floor(mean/unit)
	if min(over, 1-over) < slack {
		return 0
	}
	return unit * max(min(over, 1-over), 0)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// gpuBound is the need, and for each sub-cluster that there must be the least that one can take beyond its need.
func (p *Problem) gpuBound() float64 {
	need, hold, haste, loose := 0.0, math.Inf(1), math.Inf(1), math.Inf(1)
	for i := range p.Models {
		m := &p.Models[i]
		if need += m.Need; m.Need <= 0 || m.Rate <= 0 {
			hold, loose = 0, 0 // it may be with the others, and is in no mean
			continue
		}
		b := m.bursts()
		hold, haste, loose = min(hold, b.Hold/m.Need), min(haste, b.Haste/m.Rate), min(loose, b.Loose/m.Need)
	}
	least := float64(p.leastSubClusters())
	if hold == 0 || math.IsInf(haste, 1) {
		haste = 0
	}
	return max(least, need, need+float64(least*(float64(holdTerm*float64(hold*haste))+loose)))
}

// leastSubClusters is a number that no assignment does with less.
func (p *Problem) leastSubClusters() int {
	rate, static, dynamic := 0.0, int64(0), int64(0)
	for i := range p.Models {
		m := &p.Models[i]
		rate, static, dynamic = rate+m.Rate, static+m.Static, max(dynamic, m.Dynamic)
	}
	least := 1
	if p.RateMax > 0 {
		least = max(least, int(math.Ceil(rate/p.RateMax*(1-slack))))
	}
	if p.MemoryMax > 0 {
		least = max(least, int((static+dynamic+p.MemoryMax-1)/p.MemoryMax))
	}
	if p.ModelsMax > 0 {
		least = max(least, (len(p.Models)+p.ModelsMax-1)/p.ModelsMax)
	}
	return least
}
