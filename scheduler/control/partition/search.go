package partition

import (
	"math"
	"math/rand/v2"
)

// Search looks for a good assignment, in as many steps as it is given. One goroutine uses it.
type Search struct {
	*state
	rng     *rand.Rand
	phase   phase
	left    int // steps of the phase
	late    late
	ex      exchanger
	change  change // that is weighed
	found   change // by an exchange
	applied int
	spent   int64
	best    incumbent
}

// incumbent is the best assignment so far.
type incumbent struct {
	of    []int32
	value float64 // objective; of one that breaks a constraint, its potential
	holds bool    // all constraints
	none  bool    // there is none yet
}

// phase of a search. They follow each other, and from the first kick on go round.
type phase uint8

const (
	phaseLate     phase = iota // late acceptance, from the start or a kick
	phaseExchange              // exchanges until none improves; Balance only
	phaseJudge                 // keep what came out, or go back to the best
	phaseKick                  // disturb some of it
)

// New prepares a search. rng makes it reproducible: one problem and one seed have one result.
func New(p *Problem, rng *rand.Rand) (*Search, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := &Search{state: newState(newView(p)), rng: rng}
	s.ex = newExchanger(s.state)
	s.best = incumbent{of: make([]int32, s.n), none: true}
	s.start()
	s.judge()
	s.late.reset(s.pot, 0)
	s.left = s.lateFirst()
	return s, nil
}

// lateFirst and lateAgain are the steps of late acceptance in the beginning and after a kick.
func (s *Search) lateFirst() int {
	if s.p.Objective == GPUs || !s.best.holds || s.from != nil {
		return 400*s.n + 20*lateSteps
	}
	return 40*s.n + 2*lateSteps
}

func (s *Search) lateAgain() int {
	if s.p.Objective == GPUs || !s.best.holds {
		return 100*s.n + 10*lateSteps
	}
	return 0 // exchanges alone
}

// Offer hands in an assignment from elsewhere, the plan of a Solver or of a search for another objective. It becomes
// where the search stands if it is better than the best. false: it is not.
func (s *Search) Offer(of []int) bool {
	if len(of) != s.n {
		return false
	}
	for _, j := range of {
		if j < 0 || j >= s.l {
			return false
		}
	}
	s.state.set(s.forth(of))
	better := s.judge()
	s.enter(phaseKick)
	return better
}

// Run works for that many steps, and somewhat longer.
func (s *Search) Run(steps int) {
	for steps > 0 {
		used := s.advance(steps)
		steps -= used
		s.spent += int64(used)
	}
	if s.phase == phaseLate || s.phase == phaseExchange {
		s.judge()
	}
}

// Best is the best assignment so far; the error, a *Broken, is of a constraint that even it breaks.
func (s *Search) Best() ([]int, error) {
	of := s.back(s.best.of)
	return of, s.p.Check(of)
}

// Steps is the work done so far.
func (s *Search) Steps() int64 { return s.spent }

func (s *Search) advance(most int) int {
	switch s.phase {
	case phaseLate:
		n := min(most, s.left)
		for range n {
			s.lateStep()
		}
		if s.left -= n; s.left == 0 {
			s.enter(phaseExchange)
		}
		return max(1, n)
	case phaseExchange:
		if s.p.Objective != Balance || s.l == 1 {
			s.enter(phaseJudge)
			return 1
		}
		used, done := s.exchangeStep()
		if done {
			s.enter(phaseJudge)
		}
		return used
	case phaseJudge:
		if !s.judge() {
			s.state.set(s.best.of)
		}
		s.enter(phaseKick)
	case phaseKick:
		s.kick()
		s.enter(phaseLate)
	}
	return s.n // what judging and going back take, about
}

func (s *Search) enter(p phase) {
	switch s.phase = p; p {
	case phaseLate:
		s.late.reset(s.pot, kickSlack)
		if s.left = s.lateAgain(); s.left == 0 {
			s.enter(phaseExchange)
		}
	case phaseExchange:
		s.ex.begin(s.exchangeLeast())
	}
}

// kickSlack is how much worse late acceptance after a kick may begin.
const kickSlack = 0.002

// judge keeps what there is if it is no worse than the best.
func (s *Search) judge() bool {
	s.settle()
	holds := s.feasible()
	value := s.pot
	if holds {
		value = s.value()
	}
	b := &s.best
	if !b.none && (b.holds && !holds || b.holds == holds && value > b.value) {
		return false
	}
	better := b.none || holds != b.holds || value < b.value
	b.value, b.holds, b.none = value, holds, false
	copy(b.of, s.of)
	return better
}

// feasible is Check by the sums.
func (s *state) feasible() bool {
	for j := range s.sums {
		if s.broken(&s.sums[j], s.largest(&s.sums[j])) > 0 {
			return false
		}
	}
	return s.dear(s.cost) == 0
}

// value is the objective by the sums, in units of the mean rate, or GPUs.
func (s *state) value() float64 {
	if s.p.Objective == GPUs {
		sum := 0.0
		for j := range s.sums {
			sum += s.sums[j].pot // no constraint is broken
		}
		return sum
	}
	dx, dy := 0.0, 0.0
	for j := range s.sums {
		dx, dy = max(dx, math.Abs(s.sums[j].x-s.meanX)), max(dy, math.Abs(s.sums[j].y-s.meanY))
	}
	return dx + dy
}

// kick swaps a few models at random between a few sub-clusters. Where changes are paid for, it takes some back
// instead, so that others can be paid for.
func (s *Search) kick() {
	if s.l == 1 {
		return
	}
	for range 1 + s.rng.IntN(kicksMost) {
		if s.from != nil && !math.IsInf(s.bound, 1) {
			s.takeBack()
			continue
		}
		i, k := int32(s.rng.IntN(s.n)), int32(s.rng.IntN(s.n))
		if s.of[i] == s.of[k] {
			continue
		}
		c := &s.change
		c.a, c.b, c.outs, c.ns, c.out[0], c.in[0] = s.of[i], s.of[k], 1, 1, i, k
		s.weigh(c)
		s.apply(c)
	}
}

const kicksMost = 4

// takeBack moves one of the models that were moved to where it was.
func (s *Search) takeBack() {
	from := s.rng.IntN(s.n)
	for d := range s.n {
		i := int32((from + d) % s.n)
		if j := s.from[i]; j >= 0 && j < int32(s.l) && j != s.of[i] {
			c := &s.change
			c.a, c.b, c.outs, c.ns, c.out[0] = s.of[i], j, 1, 0, i
			s.weigh(c)
			s.apply(c)
			return
		}
	}
}
