package partition

import (
	"cmp"
	"math"
	"slices"
)

// view is a problem as the search sees it: models sorted by what they are, so that their order in the
// problem changes nothing, and numbers in units of the means.
type view struct {
	p        *Problem
	n, l     int
	order    []int32   // the problem's number of each model here
	x, y     []float64 // r_i/R, and w*s_i/R: the two terms of (3) in means of the rate
	need     []float64
	rate     []float64
	static   []int64
	dynamic  []int64
	bursts   []Bursts
	from     []int32   // nil: nothing was anywhere
	unload   []float64 // cost of leaving from
	meanX    float64   // 1, or 0 where no model has a rate
	meanY    float64
	dynMax   int64
	penalty  float64 // of a broken constraint, against a sub-cluster's potential
	bound    float64 // C_max
	costUnit float64 // what a cost beyond its bound is measured by
}

func newView(p *Problem) *view {
	n := len(p.Models)
	v := &view{p: p, n: n, l: p.SubClusters, order: make([]int32, n), bound: p.costBound(), penalty: 10}
	for i := range v.order {
		v.order[i] = int32(i)
	}
	slices.SortFunc(v.order, func(i, k int32) int { return p.compare(int(i), int(k)) })
	rate, static := 0.0, 0.0 // summed in this order: rounding must not tell another
	for _, i := range v.order {
		rate, static = rate+p.Models[i].Rate, static+float64(p.Models[i].Static)
	}
	rate, static = rate/float64(p.SubClusters), static/float64(p.SubClusters)
	unit, w := rate, p.weightOf(rate, static)
	if unit <= 0 { // no rates: memory alone, in its own mean
		unit, w = max(static, 1), 1
	}
	needs, costs := 0.0, 0.0
	for _, i := range v.order {
		m := &p.Models[i]
		v.x, v.y = append(v.x, m.Rate/unit), append(v.y, float64(w*float64(m.Static))/unit)
		v.need, v.rate = append(v.need, m.Need), append(v.rate, m.Rate)
		v.static, v.dynamic = append(v.static, m.Static), append(v.dynamic, m.Dynamic)
		v.bursts = append(v.bursts, m.bursts())
		v.dynMax = max(v.dynMax, m.Dynamic)
		needs += m.Need
		if p.From != nil {
			v.from, v.unload = append(v.from, int32(p.From[i])), append(v.unload, 0)
			if j := p.From[i]; j >= 0 {
				v.unload[len(v.unload)-1] = p.costIn(int(i), j)
			}
			costs += p.costIn(int(i), max(0, p.From[i]))
		}
	}
	v.meanX, v.meanY = rate/unit, float64(w*static)/unit
	if p.Objective == GPUs {
		v.penalty = 10 * (needs + float64(p.SubClusters))
	}
	v.costUnit = max(costs/float64(n), tinyCost)
	if !math.IsInf(v.bound, 1) {
		v.costUnit = max(v.costUnit, v.bound)
	}
	return v
}

// compare orders models by all that matters, and by name last.
func (p *Problem) compare(i, k int) int {
	a, b := &p.Models[i], &p.Models[k]
	from := 0
	if p.From != nil {
		from = cmp.Compare(p.From[i], p.From[k])
	}
	return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Static, a.Static), cmp.Compare(b.Dynamic, a.Dynamic), cmp.Compare(b.Need, a.Need),
		cmp.Compare(b.Batch, a.Batch), cmp.Compare(b.Slack, a.Slack),
		cmp.Compare(b.Cost, a.Cost), slices.Compare(a.Costs, b.Costs), from, cmp.Compare(a.Name, b.Name))
}

// cost is what (10) counts of model i in sub-cluster j.
func (v *view) cost(i, j int32) float64 {
	if v.from == nil || v.from[i] == j {
		return 0
	}
	return v.p.costIn(int(v.order[i]), int(j)) + v.unload[i]
}

// back writes an assignment of the view in the problem's order.
func (v *view) back(of []int32) []int {
	out := make([]int, v.n)
	for i, j := range of {
		out[v.order[i]] = int(j)
	}
	return out
}

// forth is back's inverse.
func (v *view) forth(of []int) []int32 {
	out := make([]int32, v.n)
	for i, k := range v.order {
		out[i] = int32(of[k])
	}
	return out
}
