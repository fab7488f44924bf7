package partition

import (
	"cmp"
	"slices"
)

// start makes the first assignment: what was there before, where something was, and new models where they fit
// best. Otherwise longest processing time first, or for GPUs the slowest first.
func (s *state) start() {
	were := make([]int32, s.n)
	for i := range were {
		were[i] = -1
		if s.from != nil && s.from[i] < int32(s.l) {
			were[i] = s.from[i]
		}
	}
	s.set(were)
	var homeless []int32
	for i, j := range s.of {
		if j < 0 {
			homeless = append(homeless, int32(i))
		}
	}
	if s.p.Objective == GPUs && s.from == nil {
		s.fill(homeless)
	} else {
		s.spread(homeless)
	}
	s.settle()
}

// spread puts the largest first, each where the sums grow least.
func (s *state) spread(models []int32) {
	size := func(i int32) float64 { return s.x[i] + s.y[i] }
	slices.SortStableFunc(models, func(i, k int32) int { return cmp.Compare(size(k), size(i)) })
	for _, i := range models {
		best, least := int32(0), 0.0
		for j := range s.sums {
			t := s.with(int32(j), i)
			grows := s.broken(&t, s.largest(&t)) - s.broken(&s.sums[j], s.largest(&s.sums[j]))
			if s.p.Objective == GPUs {
				grows += s.potential(&t, 0) - s.potential(&s.sums[j], 0)
			} else {
				// The squares of the sums, not of the distances from the mean: a model that comes early
				// would be welcome everywhere.
				grows += float64(s.x[i]*(t.x+s.sums[j].x)) + float64(s.y[i]*(t.y+s.sums[j].y))
			}
			if s.from != nil {
				grows += float64(tieCost * (s.view.cost(i, int32(j)) / s.costUnit))
			}
			if j == 0 || grows < least {
				best, least = int32(j), grows
			}
		}
		s.add(i, best)
	}
}

// tieCost weighs what loading a new model costs here rather than there: little.
const tieCost = 1e-6

// fill takes models by how long their batches hold a GPU, each into the first sub-cluster that has room: those that are
// as slow as each other come together, in as few sub-clusters as it takes.
func (s *state) fill(models []int32) {
	holds := func(i int32) float64 { return s.bursts[i].Hold / max(s.need[i], tinyCost) }
	slices.SortStableFunc(models, func(i, k int32) int { return cmp.Compare(holds(k), holds(i)) })
	for _, i := range models {
		best, least := int32(0), 0.0
		for j := range s.sums {
			t := s.with(int32(j), i)
			over := s.broken(&t, s.largest(&t))
			if j == 0 || over < least {
				best, least = int32(j), over
			}
			if over == 0 {
				break
			}
		}
		s.add(i, best)
	}
}

// with is what sub-cluster j's sums would be with model i.
func (s *state) with(j, i int32) total {
	t, none := s.sums[j], total{}
	s.shift(&none, &t, i)
	s.joins(&t, i)
	return t
}

func (s *state) add(i, j int32) {
	s.sums[j] = s.with(j, i)
	s.of[i], s.at[i] = j, int32(len(s.members[j]))
	s.members[j] = append(s.members[j], i)
}
