package partition

// late is late-acceptance local search: a move of one model or a swap of two is taken if it is no worse than what is,
// or than what was some steps ago. Worse changes are so taken early on and hardly any more later, without a temperature
// to tune.
type late struct {
	history []float64 // potentials of the last len(history) steps, a ring
	at      int
}

// lateSteps is the length of the history: the longer, the slower and the better.
const lateSteps = 4000

// reset begins anew from a potential, with room for what is worse by the share of slack.
func (l *late) reset(pot, slack float64) {
	if l.history == nil {
		l.history = make([]float64, lateSteps)
	}
	for k := range l.history {
		l.history[k] = pot * (1 + slack)
	}
	l.at = 0
}

// lateStep tries one change.
func (s *Search) lateStep() {
	if s.l == 1 {
		return
	}
	i := int32(s.rng.IntN(s.n))
	c := &s.change
	c.a, c.outs, c.out[0] = s.of[i], 1, i
	if s.rng.Uint64()&1 == 0 {
		k := int32(s.rng.IntN(s.n))
		if s.of[k] == c.a {
			return
		}
		c.b, c.ns, c.in[0] = s.of[k], 1, k
	} else {
		b := int32(s.rng.IntN(s.l - 1))
		if b >= c.a {
			b++
		}
		c.b, c.ns = b, 0
	}
	s.weigh(c)
	if c.pot <= s.pot || c.pot <= s.late.history[s.late.at] {
		s.apply(c)
		s.applied++
		if s.applied%settleEvery == 0 {
			s.settle()
		}
	}
	s.late.history[s.late.at] = s.pot
	if s.late.at++; s.late.at == len(s.late.history) {
		s.late.at = 0
	}
}

// settleEvery keeps rounding far below what caps allow.
const settleEvery = 1 << 14
