package partition

import (
	"cmp"
	"math"
	"slices"
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

// gpuBound: what sub-clusters want is concave in their need, so the sum is least where as many as possible have as much
// as one can hold, and the others nothing. What one can hold is a knapsack, here with fractions of models.
func (p *Problem) gpuBound() float64 {
	total, most := 0.0, math.Inf(1)
	for i := range p.Models {
		total += p.Models[i].Need
	}
	if p.MemoryMax > 0 {
		most = min(most, p.holds(float64(p.MemoryMax), func(m *Model) float64 { return float64(m.Static) }))
	}
	if p.RateMax > 0 {
		most = min(most, p.holds(p.RateMax, func(m *Model) float64 { return m.Rate }))
	}
	if p.ModelsMax > 0 {
		most = min(most, p.holds(float64(p.ModelsMax), func(*Model) float64 { return 1 }))
	}
	least, sum := float64(p.leastSubClusters()), 0.0
	for rest := total; rest > 0 && least > 0; least-- {
		if rest <= most || most <= 0 {
			sum += smoothGPUs(rest)
			least--
			break
		}
		sum, rest = sum+smoothGPUs(most), rest-most
	}
	return max(float64(p.leastSubClusters()), sum+float64(base*max(0, least)))
}

// holds is the most need within a cap, models taken in fractions.
func (p *Problem) holds(most float64, takes func(*Model) float64) float64 {
	order := make([]*Model, len(p.Models))
	for i := range p.Models {
		order[i] = &p.Models[i]
	}
	slices.SortFunc(order, func(a, b *Model) int { return cmp.Compare(float64(b.Need*takes(a)), float64(a.Need*takes(b))) })
	sum := 0.0
	for _, m := range order {
		t := takes(m)
		if t > most {
			return sum + m.Need*(most/t)
		}
		most, sum = most-t, sum+m.Need
	}
	return sum
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
