package partition

// Result is an assignment that passes Check, and what can be said of it.
type Result struct {
	Of    []int // sub-cluster of each model, in the problem's order
	Loads []Load
	Value float64 // objective: requests/s for Balance (3), GPUs
	Bound float64 // no assignment is below (Problem.Bound)
	Cost  float64 // left side of (10)
	Moved []int   // models that were in another sub-cluster; new ones are not among them
	Found Finder
	Steps int64 // of the search
}

// Gap is how far the value may be from the best there is, as a share of the mean rate of a sub-cluster, or of
// the GPUs.
func (r *Result) Gap(p *Problem) float64 {
	unit := r.Value
	if p.Objective == Balance {
		unit, _ = p.means()
		if unit <= 0 {
			_, static := p.means()
			unit = p.weight() * static
		}
	}
	if unit <= 0 {
		return 0
	}
	return max(0, r.Value-r.Bound) / unit
}

// Finder is what found an assignment.
type Finder uint8

const (
	// BySearch is the start with the local search.
	BySearch Finder = iota
	// BySolver is the Solver.
	BySolver
	// ByTrying is the search for any assignment, and through all of them in small problems: constraints are tight.
	ByTrying
)

func (f Finder) String() string { return [...]string{"search", "solver", "trying"}[f] }

// Result measures an assignment; the error is Check's.
func (p *Problem) Result(of []int) (*Result, error) {
	if err := p.Check(of); err != nil {
		return nil, err
	}
	r := &Result{Of: of, Loads: p.Loads(of), Bound: p.Bound(), Cost: p.CostOf(of)}
	r.Value = p.Value(r.Loads)
	for i, j := range of {
		if p.From != nil && p.From[i] >= 0 && p.From[i] != j {
			r.Moved = append(r.Moved, i)
		}
	}
	return r, nil
}
