package partition

import "fmt"

// slack is the share by which rounding may take a sum of rates or costs beyond its cap.
const slack = 1e-9

// Constraint is one that an assignment may break.
type Constraint uint8

const (
	// None is broken.
	None Constraint = iota
	// OneEach is (8) and (9).
	OneEach
	// RateCap is (4).
	RateCap
	// MemoryCap is (5).
	MemoryCap
	// ModelsCap is the number of models of a sub-cluster, not in the paper.
	ModelsCap
	// CostBound is (10).
	CostBound
)

func (c Constraint) String() string {
	switch c {
	case OneEach:
		return "each model in one sub-cluster"
	case RateCap:
		return "requests/s of a sub-cluster"
	case MemoryCap:
		return "memory of a GPU"
	case ModelsCap:
		return "models of a sub-cluster"
	case CostBound:
		return "cost of changes"
	}
	return "none"
}

// Broken is the error of an assignment that breaks a constraint.
type Broken struct {
	What       Constraint
	SubCluster int     // -1: not of one
	Is, Most   float64 // in the constraint's unit
}

func (b *Broken) Error() string {
	if b.SubCluster < 0 {
		return fmt.Sprintf("partition: %s: %.12g, at most %.12g", b.What, b.Is, b.Most)
	}
	return fmt.Sprintf("partition: sub-cluster %d: %s: %.12g, at most %.12g", b.SubCluster, b.What, b.Is, b.Most)
}

// Check holds an assignment against (4), (5), (8), (9) and (10): the one judge of what the search, a Solver or anybody
// else brings. nil: all are kept. The error is a *Broken.
func (p *Problem) Check(of []int) error {
	if len(of) != len(p.Models) {
		return &Broken{OneEach, -1, float64(len(of)), float64(len(p.Models))}
	}
	for _, j := range of {
		if j < 0 || j >= p.SubClusters {
			return &Broken{OneEach, j, float64(j), float64(p.SubClusters - 1)}
		}
	}
	loads := p.Loads(of)
	for j := range loads {
		l := &loads[j]
		switch {
		case p.RateMax > 0 && l.Rate > p.RateMax*(1+slack):
			return &Broken{RateCap, j, l.Rate, p.RateMax}
		case p.MemoryMax > 0 && l.Memory() > p.MemoryMax:
			return &Broken{MemoryCap, j, float64(l.Memory()), float64(p.MemoryMax)}
		case p.ModelsMax > 0 && l.Models > p.ModelsMax:
			return &Broken{ModelsCap, j, float64(l.Models), float64(p.ModelsMax)}
		}
	}
	if cost, most := p.CostOf(of), p.costBound(); cost > beyond(most) {
		return &Broken{CostBound, -1, cost, most}
	}
	return nil
}

// beyond is a cost bound with room for rounding.
func beyond(most float64) float64 { return float64(most*(1+slack)) + tinyCost }

// tinyCost is what rounding may leave where the bound is 0.
const tinyCost = 1e-12
