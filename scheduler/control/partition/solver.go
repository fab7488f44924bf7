package partition

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Solver improves on an assignment by other means: package highs has one. It returns an assignment, or nil where it has
// none that is better, within limit. What it returns is checked as everything else is.
type Solver interface {
	Solve(p *Problem, incumbent []int, limit mono.Dur) ([]int, error)
}

// Effort says how much Solve may do.
type Effort struct {
	Seed uint64
	// More is asked between slices of the search, of some milliseconds, whether to go on; it is told the steps so far.
	More func(steps int64) bool
	// Solver, if not nil, has SolverLimit after the search, where there is more than gapWorth to gain. Not for GPUs: its
	// program is the paper's.
	Solver      Solver
	SolverLimit mono.Dur
}

// sliceSteps is some milliseconds.
const sliceSteps = 100_000

// explainSteps bounds the search for mends: seconds.
const explainSteps = 40_000_000

// Solve searches, lets the solver try, and returns the better. The error is ErrInvalid, or an *Infeasible. What a solver
// fails with is told beside a result: the search's stands.
func Solve(p *Problem, e Effort) (_ *Result, solverFailed, _ error) {
	s, err := New(p, rand.New(rand.NewPCG(e.Seed, 0)))
	if err != nil {
		return nil, nil, err
	}
	bound := p.Bound()
	var plain [][]int
	if p.Objective == GPUs && e.More(0) {
		plain = s.plain(e.Seed)
	}
	for e.More(s.spent) && !s.sits(bound) {
		s.Run(sliceSteps)
	}
	of, found := s.back(s.best.of), BySearch
	if !s.best.holds {
		if any := p.find(e.Seed, explainSteps/explainRuns); any != nil && s.Offer(any) {
			of, found = any, ByTrying
		}
		if !s.best.holds {
			return nil, nil, p.Explain(of, e.Seed, explainSteps)
		}
	}
	r, err := p.Result(s.plainer(of, plain))
	if err != nil {
		return nil, nil, err // the sums were wrong: the judge has the last word
	}
	r.Found, r.Steps = found, s.spent
	if all := p.tryBest(trialNodes / 4); all != nil {
		return p.proven(all, r), nil, nil
	}
	if e.Solver == nil || p.Objective != Balance || r.Gap(p) <= gapWorth {
		return r, nil, nil
	}
	better, err := r.improve(p, e)
	return better, err, nil
}

// plain are assignments that need a reason not to be taken: what is there now, where something is, and what the
// paper's objective makes of the problem. The search knows the latter, so it returns nothing that is worse.
func (s *Search) plain(seed uint64) (out [][]int) {
	if now, err := s.Best(); s.from != nil && err == nil {
		out = append(out, now)
	}
	q := *s.p
	q.Objective = Balance
	b, err := New(&q, rand.New(rand.NewPCG(seed, 2)))
	if err != nil {
		return out
	}
	b.Run(balancedSteps)
	even, err := b.Best()
	s.Offer(even)
	if err == nil {
		out = append(out, even)
	}
	return out
}

const balancedSteps = 10 * sliceSteps

// plainer is the first of the plain ones that is hardly worse than what was found: GPUsFor does not know better than that, and
// models that stay cost nothing.
func (s *Search) plainer(found []int, plain [][]int) []int {
	most := s.p.Value(s.p.Loads(found)) * (1 + hardly)
	for _, of := range plain {
		if s.p.Value(s.p.Loads(of)) <= most {
			return of
		}
	}
	return found
}

// hardly is the share of the GPUs that the formula cannot tell: simulated, a gain of less was as often a loss.
const hardly = 0.01

// sits is whether nothing is left to gain.
func (s *Search) sits(bound float64) bool {
	if s.l == 1 {
		return true
	}
	return s.best.holds && s.p.Value(s.p.Loads(s.back(s.best.of))) <= bound*(1+slack)
}

// improve asks the solver.
func (r *Result) improve(p *Problem, e Effort) (*Result, error) {
	of, err := e.Solver.Solve(p, r.Of, e.SolverLimit)
	if err != nil || of == nil {
		return r, err
	}
	other, err := p.Result(of)
	if err != nil {
		return r, err
	}
	if other.Value >= r.Value {
		return r, nil
	}
	other.Found, other.Steps = BySolver, r.Steps
	return other, nil
}

// gapWorth is the gap, as a share of the mean rate, that a solver is not asked to close: one in ten thousand.
const gapWorth = 1e-4

// proven is the best of all assignments, which is its own bound.
func (p *Problem) proven(all []int, r *Result) *Result {
	best, err := p.Result(all)
	if err != nil || best.Value >= r.Value*(1-slack) {
		best = r // as good: what was found stays, and its moves
	} else {
		best.Found, best.Steps = ByTrying, r.Steps
	}
	best.Bound = best.Value
	return best
}
