package workload

// spread yields n instants, independent and uniform over a span, in order, one
// at a time. Of n that are left in what is left of the span, the first lies at
// a part 1 - U^(1/n) of it; so neither storage nor sorting is needed. Given
// their number, the arrivals of a Poisson process lie like this.
type spread struct {
	at, end float64 // ns
	left    int64
}

// next takes the next instant; left must be above 0.
func (s *spread) next(r *random) float64 {
	s.at += float64((s.end - s.at) * (1 - exp(-r.exponential()/float64(s.left))))
	s.left--
	return s.at
}
