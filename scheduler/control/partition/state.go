package partition

import "math"

// total is what a sub-cluster's models come to.
type total struct {
	x, y, rate, need float64
	static           int64
	count            int
	top              int32 // the model with the largest dynamic memory, the first of equals; -1: there is none
	next             int64 // the largest dynamic memory of the others
	pot              float64
	Bursts
}

// state is an assignment with its sums. The search changes it by changes between two sub-clusters: the others'
// potentials stay as they are.
type state struct {
	*view
	of      []int32
	members [][]int32 // by sub-cluster, in any order
	at      []int32   // a model's place there
	sums    []total
	cost    float64
	pot     float64 // of all, with the penalty for the cost
}

func newState(v *view) *state {
	s := &state{view: v, of: make([]int32, v.n), members: make([][]int32, v.l), at: make([]int32, v.n), sums: make([]total, v.l)}
	room := v.n // so that no change allocates
	if v.n*v.l > membersMost {
		room = min(v.n, 8*v.n/v.l+64)
	}
	for j := range s.members {
		s.members[j] = make([]int32, 0, room)
	}
	return s
}

// membersMost bounds the memory that is held for changes which never come: 64 MiB.
const membersMost = 1 << 24

// set takes an assignment. -1: in no sub-cluster yet (start.go).
func (s *state) set(of []int32) {
	copy(s.of, of)
	s.cost = 0
	for j := range s.members {
		s.members[j] = s.members[j][:0]
	}
	for i, j := range s.of {
		if j >= 0 {
			s.at[i] = int32(len(s.members[j]))
			s.members[j] = append(s.members[j], int32(i))
			s.cost += s.view.cost(int32(i), j)
		}
	}
	for j := range s.members {
		s.recount(int32(j))
	}
	s.repot()
}

// recount sums a sub-cluster up anew, so that rounding does not gather.
func (s *state) recount(j int32) {
	t := total{top: -1}
	for _, i := range s.members[j] {
		t.x += s.x[i]
		t.y += s.y[i]
		t.rate += s.rate[i]
		t.need += s.need[i]
		t.Bursts.add(s.bursts[i])
		t.static += s.static[i]
		t.count++
		switch d := s.dynamic[i]; {
		case t.top < 0:
			t.top = i
		case d > s.dynamic[t.top]:
			t.top, t.next = i, s.dynamic[t.top]
		default:
			t.next = max(t.next, d)
		}
	}
	t.pot = s.potential(&t, s.largest(&t))
	s.sums[j] = t
}

func (s *state) largest(t *total) int64 {
	if t.top < 0 {
		return 0
	}
	return s.dynamic[t.top]
}

// repot sums the potentials up anew.
func (s *state) repot() {
	s.pot = s.dear(s.cost)
	for j := range s.sums {
		s.pot += s.sums[j].pot
	}
}

// potential of a sub-cluster: for Balance the square of its distance from the mean, of which the sum falls whenever two
// sub-clusters come nearer to each other; for GPUs what it needs. A broken constraint outweighs either.
func (s *state) potential(t *total, dynamic int64) float64 {
	pot := s.broken(t, dynamic)
	if s.p.Objective == GPUs {
		if t.count == 0 {
			return pot
		}
		return pot + GPUsFor(t.need, t.rate, t.Bursts)
	}
	dx, dy := t.x-s.meanX, t.y-s.meanY
	return pot + float64(dx*dx) + float64(dy*dy)
}

// broken is the penalty for what a sub-cluster has beyond its caps.
func (s *state) broken(t *total, dynamic int64) float64 {
	over := 0.0
	if p := s.p; p.RateMax > 0 && t.rate > p.RateMax*(1+slack/2) {
		over += (t.rate - p.RateMax) / p.RateMax
	}
	if most := s.p.MemoryMax; most > 0 && t.static+dynamic > most {
		over += float64(t.static+dynamic-most) / float64(most)
	}
	if most := s.p.ModelsMax; most > 0 && t.count > most {
		over += float64(t.count-most) / float64(most)
	}
	if over == 0 {
		return 0
	}
	return s.penalty * (over + overStep)
}

// overStep makes the last byte over a cap as bad as a good part of the cap.
const overStep = 0.01

// dear is the penalty for a cost beyond its bound.
func (s *state) dear(cost float64) float64 {
	if cost <= float64(s.bound*(1+slack/2))+tinyCost/2 || math.IsInf(s.bound, 1) {
		return 0
	}
	return s.penalty * ((cost-s.bound)/s.costUnit + overStep)
}

// givenMost is how many models one side of a change gives.
const givenMost = 3

// change moves out from a to b, and in from b to a.
type change struct {
	a, b     int32
	out, in  [givenMost]int32
	outs, ns int // how many: of out, of in
	// What weigh reckoned.
	potA, potB, cost, pot float64
}

// weigh reckons what a change would make of the potential. It changes nothing.
func (s *state) weigh(c *change) {
	a, b := s.sums[c.a], s.sums[c.b]
	c.cost = s.cost
	for _, i := range c.out[:c.outs] {
		s.shift(&a, &b, i)
		if s.from != nil {
			c.cost += s.view.cost(i, c.b) - s.view.cost(i, c.a)
		}
	}
	for _, i := range c.in[:c.ns] {
		s.shift(&b, &a, i)
		if s.from != nil {
			c.cost += s.view.cost(i, c.a) - s.view.cost(i, c.b)
		}
	}
	c.potA = s.potential(&a, s.largestAfter(c.a, c.out[:c.outs], c.in[:c.ns], a.static))
	c.potB = s.potential(&b, s.largestAfter(c.b, c.in[:c.ns], c.out[:c.outs], b.static))
	c.pot = s.pot + (c.potA - s.sums[c.a].pot) + (c.potB - s.sums[c.b].pot)
	if s.from != nil {
		c.pot += s.dear(c.cost) - s.dear(s.cost)
	}
}

func (s *state) shift(from, to *total, i int32) {
	from.x, to.x = from.x-s.x[i], to.x+s.x[i]
	from.y, to.y = from.y-s.y[i], to.y+s.y[i]
	from.rate, to.rate = from.rate-s.rate[i], to.rate+s.rate[i]
	from.need, to.need = max(0, from.need-s.need[i]), to.need+s.need[i]
	if s.p.Objective == GPUs {
		from.Bursts.sub(s.bursts[i])
		to.Bursts.add(s.bursts[i])
	}
	from.static, to.static = from.static-s.static[i], to.static+s.static[i]
	from.count, to.count = from.count-1, to.count+1
}

// largestAfter is the largest dynamic memory of sub-cluster j once the models of gone have left and those of come are
// there. Where the cap holds whatever it is, it is not looked for.
func (s *state) largestAfter(j int32, gone, come []int32, static int64) int64 {
	if s.p.MemoryMax == 0 || static+s.dynMax <= s.p.MemoryMax {
		return 0
	}
	t, most := &s.sums[j], int64(0)
	for _, i := range come {
		most = max(most, s.dynamic[i])
	}
	left := t.top >= 0
	for _, i := range gone {
		left = left && i != t.top
	}
	switch {
	case left:
		return max(most, s.dynamic[t.top])
	case len(gone) == 1:
		return max(most, t.next)
	}
	for _, i := range s.members[j] {
		if s.dynamic[i] > most && !among(gone, i) {
			most = s.dynamic[i]
		}
	}
	return most
}

func among(list []int32, i int32) bool {
	for _, k := range list {
		if k == i {
			return true
		}
	}
	return false
}

// apply makes a change that was weighed.
func (s *state) apply(c *change) {
	a, b := s.sums[c.a], s.sums[c.b]
	scanA, scanB := false, false // the largest dynamic memory must be looked for
	for _, i := range c.out[:c.outs] {
		s.shift(&a, &b, i)
		scanA, scanB = s.leaves(&a, i) || scanA, s.joins(&b, i) || scanB
		s.place(i, c.a, c.b)
	}
	for _, i := range c.in[:c.ns] {
		s.shift(&b, &a, i)
		scanB, scanA = s.leaves(&b, i) || scanB, s.joins(&a, i) || scanA
		s.place(i, c.b, c.a)
	}
	a.pot, b.pot = c.potA, c.potB
	s.sums[c.a], s.sums[c.b] = a, b
	if scanA {
		s.retop(c.a)
	}
	if scanB {
		s.retop(c.b)
	}
	s.cost, s.pot = c.cost, c.pot
}

// leaves and joins keep top and next; true where they cannot.
func (s *state) leaves(t *total, i int32) bool { return i == t.top || s.dynamic[i] == t.next }

func (s *state) joins(t *total, i int32) bool {
	switch d := s.dynamic[i]; {
	case t.top < 0:
		t.top = i
	case d > s.dynamic[t.top]:
		t.top, t.next = i, s.dynamic[t.top]
	default:
		t.next = max(t.next, d)
	}
	return false
}

func (s *state) retop(j int32) {
	t := &s.sums[j]
	t.top, t.next = -1, 0
	for _, i := range s.members[j] {
		s.joins(t, i)
	}
}

// place moves a model between the lists of members.
func (s *state) place(i, from, to int32) {
	list := s.members[from]
	last := list[len(list)-1]
	list[s.at[i]], s.at[last] = last, s.at[i]
	s.members[from] = list[:len(list)-1]
	s.of[i], s.at[i] = to, int32(len(s.members[to]))
	s.members[to] = append(s.members[to], i)
}

// settle takes rounding out of the sums.
func (s *state) settle() {
	for j := range s.sums {
		s.recount(int32(j))
	}
	s.cost = 0
	for i, j := range s.of {
		s.cost += s.view.cost(int32(i), j)
	}
	s.repot()
}
