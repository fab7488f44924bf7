package partition

import (
	"cmp"
	"math"
	"slices"
)

// trial looks through all assignments, within a number of nodes. Of small problems with tight constraints, where the
// search finds no assignment, it finds one or proves that there is none; of very small ones it finds the best.
type trial struct {
	p     *Problem
	order []int
	of    []int
	loads []Load
	cost  float64
	left  int
	same  bool  // sub-clusters are alike while they are empty
	all   bool  // go on after the first
	best  []int // nil: none yet
	value float64
}

// trialNodes bounds the work: a tenth of a second.
const trialNodes = 1 << 20

// tryAll returns the first assignment that keeps the constraints, or nil; sure: nil means that there is none.
func (p *Problem) tryAll(nodes int) (of []int, sure bool) {
	t := p.trial(nodes)
	t.place(0)
	return t.best, t.best != nil || t.left > 0
}

// tryBest returns the best assignment, or nil where there are too many to try.
func (p *Problem) tryBest(nodes int) []int {
	if !p.few(nodes) {
		return nil
	}
	t := p.trial(nodes)
	t.all = true
	if t.place(0); t.left <= 0 {
		return nil
	}
	return t.best
}

// few is whether so many nodes may be enough for all assignments. Symmetry saves some.
func (p *Problem) few(nodes int) bool {
	return float64(len(p.Models))*math.Log2(float64(p.SubClusters)) <= math.Log2(float64(nodes))+2
}

func (p *Problem) trial(nodes int) *trial {
	t := &trial{p: p, of: make([]int, len(p.Models)), loads: make([]Load, p.SubClusters), left: nodes, same: p.From == nil}
	for i := range p.Models {
		t.order = append(t.order, i)
	}
	size := func(i int) float64 {
		m, sum := &p.Models[i], 0.0
		if p.RateMax > 0 {
			sum += m.Rate / p.RateMax
		}
		if p.MemoryMax > 0 {
			sum += float64(m.Static+m.Dynamic) / float64(p.MemoryMax)
		}
		return sum
	}
	slices.SortFunc(t.order, func(i, k int) int { return cmp.Or(cmp.Compare(size(k), size(i)), p.compare(i, k)) })
	return t
}

// place assigns the models from order[k] on; true: it is done.
func (t *trial) place(k int) bool {
	if k == len(t.order) {
		return t.take()
	}
	i := t.order[k]
	m := &t.p.Models[i]
	for j := range t.loads {
		if t.left--; t.left <= 0 {
			return true
		}
		was, empty := t.loads[j], t.loads[j].Models == 0
		cost := t.p.costOf(i, j)
		t.loads[j] = Load{Models: was.Models + 1, Rate: was.Rate + m.Rate, Need: was.Need + m.Need, Static: was.Static + m.Static, Dynamic: max(was.Dynamic, m.Dynamic), Bursts: was.Bursts}
		t.loads[j].Bursts.add(m.bursts())
		if t.cost += cost; t.fits(j) {
			if t.of[i] = j; t.place(k + 1) {
				return true
			}
		}
		t.cost -= cost
		t.loads[j] = was
		if empty && t.same {
			break // the other empty ones are the same
		}
	}
	return false
}

// take keeps a whole assignment if it is the best.
func (t *trial) take() bool {
	value := t.p.Value(t.loads)
	if t.best != nil && value >= t.value*(1-slack) || t.p.Check(t.of) != nil {
		return false
	}
	t.best, t.value = append(t.best[:0], t.of...), value
	return !t.all
}

func (t *trial) fits(j int) bool {
	p, l := t.p, &t.loads[j]
	return (p.RateMax == 0 || l.Rate <= p.RateMax*(1+slack)) && (p.MemoryMax == 0 || l.Memory() <= p.MemoryMax) &&
		(p.ModelsMax == 0 || l.Models <= p.ModelsMax) && t.cost <= beyond(p.costBound())
}
