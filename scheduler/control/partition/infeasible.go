package partition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Infeasible is the error of a problem without an assignment: which constraint is in the way, and what mends it.
type Infeasible struct {
	What   Constraint
	Model  string  // that breaks it alone; "": it takes several
	Is     float64 // what is asked for in all, or of one sub-cluster where Model is set; in the constraint's unit
	Most   float64 // what there is of it
	Proven bool    // there is none; otherwise none was found
	Mends  []Mend
}

// Mend is the smallest change, to one number of the problem, with which an assignment was found.
type Mend struct {
	What     Constraint // its cap; None: the number of sub-clusters
	From, To float64
}

func (m Mend) String() string {
	switch by := m.To - m.From; m.What {
	case None:
		return fmt.Sprintf("%.0f more sub-cluster%s (%.0f)", by, plural(by), m.To)
	case RateCap:
		return fmt.Sprintf("%.6g requests/s more for each sub-cluster (%.6g)", by, m.To)
	case MemoryCap:
		return fmt.Sprintf("%s more memory for each GPU (%s)", bytes(by), bytes(m.To))
	case ModelsCap:
		return fmt.Sprintf("%.0f more model%s in each sub-cluster (%.0f)", by, plural(by), m.To)
	default:
		return fmt.Sprintf("a cost bound raised by %.6g (%.6g)", by, m.To)
	}
}

func plural(n float64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// bytes rounds up: what is said must be enough.
func bytes(n float64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return fmt.Sprintf("%.2f %s", math.Ceil(n/u.size*100)/100, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", n)
}

func (e *Infeasible) Error() string {
	var b strings.Builder
	b.WriteString("partition: ")
	if e.Proven {
		b.WriteString("infeasible: ")
	} else {
		b.WriteString("no assignment was found, and there may be none: ")
	}
	amount := func(v float64) string {
		if e.What == MemoryCap {
			return bytes(v)
		}
		return fmt.Sprintf("%.6g", v)
	}
	switch {
	case e.Model != "":
		fmt.Fprintf(&b, "model %s alone asks for %s, a sub-cluster has %s (%s)", e.Model, amount(e.Is), amount(e.Most), e.What)
	default:
		fmt.Fprintf(&b, "%s: %s, at most %s", e.What, amount(e.Is), amount(e.Most))
	}
	if len(e.Mends) == 0 {
		b.WriteString("; no single cap that is raised mends it")
		return b.String()
	}
	b.WriteString("; it needs ")
	for k, m := range e.Mends {
		if k > 0 {
			b.WriteString(", or ")
		}
		b.WriteString(m.String())
	}
	return b.String()
}

// proof finds a reason that holds whatever the assignment is; nil: none is known.
func (p *Problem) proof() *Infeasible {
	l := float64(p.SubClusters)
	rate, static, dynamic, loads := 0.0, int64(0), int64(0), 0.0
	for i := range p.Models {
		m := &p.Models[i]
		if p.RateMax > 0 && m.Rate > p.RateMax*(1+slack) {
			return &Infeasible{What: RateCap, Model: p.name(i), Is: m.Rate, Most: p.RateMax, Proven: true}
		}
		if p.MemoryMax > 0 && m.Static+m.Dynamic > p.MemoryMax {
			return &Infeasible{What: MemoryCap, Model: p.name(i), Is: float64(m.Static + m.Dynamic), Most: float64(p.MemoryMax), Proven: true}
		}
		rate, static, dynamic = rate+m.Rate, static+m.Static, max(dynamic, m.Dynamic)
		loads += p.leastCost(i)
	}
	n := float64(len(p.Models))
	switch {
	case p.RateMax > 0 && rate > l*p.RateMax*(1+slack):
		return &Infeasible{What: RateCap, Is: rate, Most: l * p.RateMax, Proven: true}
	case p.MemoryMax > 0 && float64(static+dynamic) > float64(l*float64(p.MemoryMax)):
		return &Infeasible{What: MemoryCap, Is: float64(static + dynamic), Most: l * float64(p.MemoryMax), Proven: true}
	case p.ModelsMax > 0 && n > l*float64(p.ModelsMax):
		return &Infeasible{What: ModelsCap, Is: n, Most: l * float64(p.ModelsMax), Proven: true}
	case loads > beyond(p.costBound()):
		return &Infeasible{What: CostBound, Is: loads, Most: p.CostMax, Proven: true}
	}
	return nil
}

// leastCost is what model i costs at least: nothing, unless it is new or its sub-cluster is given up.
func (p *Problem) leastCost(i int) float64 {
	if p.From == nil || p.From[i] >= 0 && p.From[i] < p.SubClusters {
		return 0
	}
	least := math.Inf(1)
	for j := range p.SubClusters {
		least = min(least, p.costOf(i, j))
	}
	return least
}

// Explain says why no assignment was found, and looks for mends, in about that many steps. best is the nearest to one;
// nil is none.
func (p *Problem) Explain(best []int, seed uint64, steps int) *Infeasible {
	e := p.proof()
	if e == nil {
		e = p.nearest(best)
		_, e.Proven = p.tryAll(trialNodes)
	}
	each := max(1, steps/explainRuns) // as Solve has for its own last attempt: what mends here mends there
	if !p.hasCosts() {
		if l, ok := p.least(p.SubClusters+1, SubClustersMost, seed, each, func(q *Problem, v int) { q.SubClusters = v }); ok {
			e.Mends = append(e.Mends, Mend{None, float64(p.SubClusters), float64(l)})
		}
	}
	for _, m := range p.raises() {
		unit := m.unit
		if v, ok := p.least(int(m.from/unit)+1, int(m.most/unit)+1, seed, each, func(q *Problem, v int) { m.set(q, float64(v)*unit) }); ok {
			e.Mends = append(e.Mends, Mend{m.what, m.from, float64(v) * unit})
		}
	}
	return e
}

// explainRuns is about how many searches Explain makes: five kinds of mends, each a bracket that is halved.
const explainRuns = 80

func (p *Problem) hasCosts() bool {
	for i := range p.Models {
		if p.Models[i].Costs != nil {
			return true
		}
	}
	return false
}

// nearest is the constraint that the best assignment breaks.
func (p *Problem) nearest(best []int) *Infeasible {
	var b *Broken
	if err := p.Check(best); best != nil && err != nil {
		b = err.(*Broken)
		return &Infeasible{What: b.What, Is: b.Is, Most: b.Most}
	}
	return &Infeasible{What: MemoryCap, Most: float64(p.MemoryMax)}
}

// slackTwice raises a cap so that rounding is surely within it.
const slackTwice = 1 + 2*slack

// raise is a cap that may be raised, in units of a thousandth.
type raise struct {
	what             Constraint
	from, most, unit float64
	set              func(*Problem, float64)
}

// raises lists the caps there are.
func (p *Problem) raises() (out []raise) {
	rate, static, dynamic, cost := 0.0, int64(0), int64(0), 0.0
	for i := range p.Models {
		m := &p.Models[i]
		rate, static, dynamic = rate+m.Rate, static+m.Static, max(dynamic, m.Dynamic)
		dearest := 0.0
		for j := range p.SubClusters {
			dearest = max(dearest, p.costOf(i, j))
		}
		cost += dearest
	}
	if p.RateMax > 0 {
		out = append(out, raise{RateCap, p.RateMax, rate * slackTwice, p.RateMax / 1000, func(q *Problem, v float64) { q.RateMax = v }})
	}
	if p.MemoryMax > 0 {
		unit := math.Ceil(float64(p.MemoryMax) / 1000)
		out = append(out, raise{MemoryCap, float64(p.MemoryMax), float64(static + dynamic), unit, func(q *Problem, v float64) { q.MemoryMax = int64(v) }})
	}
	if p.ModelsMax > 0 {
		out = append(out, raise{ModelsCap, float64(p.ModelsMax), float64(len(p.Models)), 1, func(q *Problem, v float64) { q.ModelsMax = int(v) }})
	}
	if p.From != nil && !math.IsInf(p.CostMax, 1) && cost > p.CostMax {
		unit := max(p.CostMax, cost/100) / 1000
		out = append(out, raise{CostBound, p.CostMax, cost * slackTwice, unit, func(q *Problem, v float64) { q.CostMax = v }})
	}
	return out
}

// least is the least value from low on, at most most, with which an assignment is found: steps that double, and then the bracket
// halved.
func (p *Problem) least(low, most int, seed uint64, steps int, set func(*Problem, int)) (int, bool) {
	try := func(v int) bool {
		q := *p
		set(&q, v)
		return q.find(seed, steps) != nil
	}
	fails, v := low-1, low
	for step := 1; !try(v); step *= 2 {
		if v >= most {
			return 0, false
		}
		fails, v = v, min(most, v+step)
	}
	for v-fails > 1 {
		if mid := (v + fails) / 2; try(mid) {
			v = mid
		} else {
			fails = mid
		}
	}
	return v, true
}

// find looks for any assignment within the steps, and where there are few it tries all; nil: none was found.
func (p *Problem) find(seed uint64, steps int) []int {
	if p.proof() != nil {
		return nil
	}
	if p.few(trialNodes) {
		if of, sure := p.tryAll(trialNodes); sure {
			return of
		}
	}
	q := *p
	q.Objective = Balance // a search for any assignment has no use for the other
	s, err := New(&q, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		return nil
	}
	for !s.best.holds && s.spent < int64(steps) {
		s.Run(min(steps, findSlice))
	}
	if s.best.holds {
		return s.back(s.best.of)
	}
	of, _ := p.tryAll(min(steps, trialNodes))
	return of
}

const findSlice = 20_000

// Fewest is the least number of sub-clusters for which an assignment is found, whatever p.SubClusters is; about steps are
// spent on each number that is tried.
func Fewest(p *Problem, seed uint64, steps int) (int, error) {
	q := *p
	q.SubClusters = min(q.leastSubClusters(), SubClustersMost)
	if err := q.Validate(); err != nil {
		return 0, err
	}
	n, ok := q.least(q.SubClusters, SubClustersMost, seed, steps, func(q *Problem, v int) { q.SubClusters = v })
	if !ok {
		q.SubClusters = SubClustersMost
		return 0, q.Explain(nil, seed, steps)
	}
	return n, nil
}
