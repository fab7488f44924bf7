package partition

import "math"

// Load is what one sub-cluster has.
type Load struct {
	Models  int
	Rate    float64 // requests/s
	Need    float64 // GPUs
	Static  int64   // bytes, of all its models
	Dynamic int64   // bytes, the largest of them
	Bursts          // what GPUs beyond the need depend on
}

// Memory is what each of its GPUs must hold: the left side of (5).
func (l *Load) Memory() int64 { return l.Static + l.Dynamic }

// Loads are those of an assignment: of[i] is model i's sub-cluster.
func (p *Problem) Loads(of []int) []Load {
	loads := make([]Load, p.SubClusters)
	for i, j := range of {
		l, m := &loads[j], &p.Models[i]
		l.Models++
		l.Rate += m.Rate
		l.Need += m.Need
		l.Static += m.Static
		l.Dynamic = max(l.Dynamic, m.Dynamic)
		l.Bursts.add(m.bursts())
	}
	return loads
}

// CostOf is the left side of (10).
func (p *Problem) CostOf(of []int) float64 {
	sum := 0.0
	for i, j := range of {
		sum += p.costOf(i, j)
	}
	return sum
}

// Value is the objective of an assignment that has these loads: (3) in requests/s, or GPUs.
func (p *Problem) Value(loads []Load) float64 {
	if p.Objective == GPUs {
		sum := 0.0
		for j := range loads {
			sum += loads[j].gpus()
		}
		return sum
	}
	rate, static := p.means()
	dR, dS := 0.0, 0.0
	for j := range loads {
		dR = max(dR, math.Abs(loads[j].Rate-rate))
		dS = max(dS, math.Abs(float64(loads[j].Static)-static))
	}
	return dR + float64(p.weight()*dS)
}

// Imbalance is (max - min) / mean over the sub-clusters, for rate and for static memory: the paper's measure
// (section A.2). Something of which there is none is balanced.
func Imbalance(loads []Load) (rate, static float64) {
	return imbalance(loads, func(l *Load) float64 { return l.Rate }), imbalance(loads, func(l *Load) float64 { return float64(l.Static) })
}

func imbalance(loads []Load, of func(*Load) float64) float64 {
	least, most, sum := math.Inf(1), 0.0, 0.0
	for j := range loads {
		v := of(&loads[j])
		least, most, sum = min(least, v), max(most, v), sum+v
	}
	if sum <= 0 {
		return 0
	}
	return (most - least) / (sum / float64(len(loads)))
}
