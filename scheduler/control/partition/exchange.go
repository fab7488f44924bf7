package partition

import (
	"cmp"
	"math"
	"slices"
)

// exchanger makes two sub-clusters equal. What a must lose to b is half of their distance, t = (a - b)/2 in both
// rate and memory. Of all subsets P of a's models and Q of b's with up to `order` models each, it wants the two whose
// difference P - Q comes nearest to t. The subsets of b are sorted by rate, so that those near P - t are looked up: 600,000
// pairs of two models for two others are searched by looking at some thousands.
//
// The sub-cluster that is farthest off is paired with those whose distances are most the opposite of its own. What
// cannot be improved with any of them is left until its neighbours have changed, or the order rises.
type exchanger struct {
	order    int
	stuck    []int8  // by sub-cluster: the order with which nothing improved it
	worst    int32   // the one at hand; -1: to be chosen
	partners []int32 // of it, the best first
	next     int     // partner to try
	near     []float64
	a, b     []subset
	sample   []int32
}

// subset is up to three models of a sub-cluster.
type subset struct {
	x, y, cost float64 // cost of moving them to the other one
	models     [givenMost]int32
	count      int32
}

const (
	// partnersMost is how many partners are tried: the next ones are as far from equal as chance makes them.
	partnersMost = 48
	// gainLeast is the share of the worst one's potential that an exchange must gain: less is not worth the turn.
	gainLeast = 0.01
)

// membersOf is how many of a sub-cluster's models make subsets with that order. Of more a sample does.
func membersOf(order int) int { return [...]int{0, 512, 48, 36}[order] }

// subsetsMost is the number of subsets of up to three of 36 models, and more than the others'.
const subsetsMost = 1 + 36 + 36*35/2 + 36*35*34/6

func newExchanger(s *state) exchanger {
	return exchanger{stuck: make([]int8, s.l), near: make([]float64, s.l), partners: make([]int32, 0, s.l),
		a: make([]subset, 0, subsetsMost), b: make([]subset, 0, subsetsMost), sample: make([]int32, 0, s.n), worst: -1}
}

// begin starts over.
func (e *exchanger) begin(order int) {
	e.order, e.worst = order, -1
	clear(e.stuck)
}

// exchangeLeast is the order to begin with: where changes are paid for, one for one comes first.
func (s *Search) exchangeLeast() int {
	if math.IsInf(s.bound, 1) {
		return 2
	}
	return 1
}

// exchangeStep tries one pair of sub-clusters; done: nothing more is to be gained.
func (s *Search) exchangeStep() (used int, done bool) {
	e := &s.ex
	if e.worst < 0 && !s.choose() {
		if e.order == givenMost {
			return 1, true
		}
		e.order++
		return 1, false
	}
	if e.next == len(e.partners) {
		e.stuck[e.worst], e.worst = int8(e.order), -1
		return 1, false
	}
	partner := e.partners[e.next]
	e.next++
	used, found := s.match(e.worst, partner)
	if found && s.pot-s.found.pot > gainLeast*s.sums[e.worst].pot {
		s.apply(&s.found)
		s.recount(e.worst)
		s.recount(partner)
		s.repot()
		e.stuck[e.worst], e.stuck[partner] = 0, 0
		e.worst, e.order = -1, s.exchangeLeast()
	}
	return used, false
}

// choose finds the sub-cluster that is worst of those not stuck, and its partners.
func (s *Search) choose() bool {
	e := &s.ex
	for j := range s.sums {
		if int(e.stuck[j]) < e.order && (e.worst < 0 || s.sums[j].pot > s.sums[e.worst].pot) {
			e.worst = int32(j)
		}
	}
	if e.worst < 0 {
		return false
	}
	w := &s.sums[e.worst]
	e.partners = e.partners[:0]
	for j := range s.sums {
		dx, dy := w.x+s.sums[j].x-float64(2*s.meanX), w.y+s.sums[j].y-float64(2*s.meanY)
		e.near[j] = float64(dx*dx) + float64(dy*dy)
		if int32(j) != e.worst {
			e.partners = append(e.partners, int32(j))
		}
	}
	slices.SortFunc(e.partners, func(j, k int32) int { return cmp.Or(cmp.Compare(e.near[j], e.near[k]), cmp.Compare(j, k)) })
	e.partners, e.next = e.partners[:min(len(e.partners), partnersMost)], 0
	return true
}

// match finds the best exchange between a and b into s.found.
func (s *Search) match(a, b int32) (used int, found bool) {
	e := &s.ex
	e.a = s.subsets(e.a[:0], a, b)
	e.b = s.subsets(e.b[:0], b, a)
	slices.SortFunc(e.b, func(p, q subset) int { return cmp.Compare(p.x, q.x) })
	ta, tb := &s.sums[a], &s.sums[b]
	tx, ty := float64((ta.x-tb.x)/2), float64((ta.y-tb.y)/2)
	s.found.pot = s.pot
	nearest := float64(tx*tx) + float64(ty*ty)
	used = len(e.a) + 4*len(e.b)
	for i := range e.a {
		p := &e.a[i]
		wantX, wantY := p.x-tx, p.y-ty
		at, _ := slices.BinarySearchFunc(e.b, wantX, func(q subset, x float64) int { return cmp.Compare(q.x, x) })
		for k := at; k < len(e.b); k++ {
			dx := e.b[k].x - wantX
			if used++; float64(dx*dx) >= nearest {
				break
			}
			nearest = s.consider(p, &e.b[k], a, b, dx, e.b[k].y-wantY, nearest, &found)
		}
		for k := at - 1; k >= 0; k-- {
			dx := e.b[k].x - wantX
			if used++; float64(dx*dx) >= nearest {
				break
			}
			nearest = s.consider(p, &e.b[k], a, b, dx, e.b[k].y-wantY, nearest, &found)
		}
	}
	return used, found
}

// consider weighs an exchange if it comes nearer than any before, and keeps it if the constraints allow it.
func (s *Search) consider(p, q *subset, a, b int32, dx, dy, nearest float64, found *bool) float64 {
	off := float64(dx*dx) + float64(dy*dy)
	if off >= nearest || p.count+q.count == 0 {
		return nearest
	}
	if s.from != nil && s.cost <= s.bound && s.cost+p.cost+q.cost > s.bound {
		return nearest
	}
	c := &s.change
	c.a, c.b, c.out, c.in, c.outs, c.ns = a, b, p.models, q.models, int(p.count), int(q.count)
	if s.weigh(c); c.pot >= s.found.pot {
		return nearest
	}
	s.found, *found = *c, true
	return off
}

// subsets lists those of sub-cluster j with up to e.order models, the empty one first.
func (s *Search) subsets(list []subset, j, other int32) []subset {
	e := &s.ex
	e.sample = append(e.sample[:0], s.members[j]...)
	if most := membersOf(e.order); len(e.sample) > most {
		for k := range most {
			o := k + s.rng.IntN(len(e.sample)-k)
			e.sample[k], e.sample[o] = e.sample[o], e.sample[k]
		}
		e.sample = e.sample[:most]
	}
	list = append(list, subset{})
	from := 0 // where those begin that have one model less
	for size := range e.order {
		to := len(list)
		for _, base := range list[from:to] {
			first := 0 // of the sample: models in ascending place, so that each subset comes once
			if size > 0 {
				first = int(base.models[size-1]) + 1
			}
			for k := first; k < len(e.sample); k++ {
				i, b := e.sample[k], base
				b.x, b.y, b.models[size], b.count = b.x+s.x[i], b.y+s.y[i], int32(k), int32(size+1)
				if s.from != nil {
					b.cost += s.view.cost(i, other) - s.view.cost(i, j)
				}
				list = append(list, b)
			}
		}
		from = to
	}
	for k := range list {
		b := &list[k]
		for m := range b.count {
			b.models[m] = e.sample[b.models[m]]
		}
	}
	return list
}
