package draws

import (
	"slices"
	"time"
)

// searches are those of one mix with one seed of arrivals.
type searches struct {
	r        *runner
	o        *Outcome
	names    []string // all policies that count, ours last
	policies []string // those that are measured
	fresh    []string // those that are measured though they are kept
	bench    *bench
	arrivals int
	guess    float64 // where nothing is known
}

// run searches for the goodput of each policy that has none yet.
func (s *searches) run() error {
	for _, name := range s.names {
		f, ok, err := find[Found](s.r, s.key(name))
		if err != nil {
			return err
		}
		if ok && !slices.Contains(s.fresh, name) {
			s.o.Found[name] = f
		}
	}
	for _, name := range s.names {
		if _, ok := s.o.Found[name]; ok || !slices.Contains(s.policies, name) {
			continue
		}
		best := s.o.Best()
		floor := hopeless * best
		if name == Ours || name == Today {
			floor = 0
		}
		if err := s.search(name, best, floor); err != nil {
			return err
		}
	}
	return s.level()
}

// level tries each policy that came near the best at the best's rate, unless its
// search began there: who began higher may end higher, for a search may stop at
// a rate that fails by chance, below one that passes.
func (s *searches) level() error {
	for range 2 { // what is found may be a new best
		for _, name := range s.names {
			f, ok := s.o.Found[name]
			best := s.o.Best()
			if !ok || f.Rate < near*best || f.Rate == best || f.Guess >= best {
				continue
			}
			if err := s.search(name, best, best); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *searches) key(policy string) key {
	k := s.r.key("goodput", s.o.Mix)
	k.Policy, k.Span, k.Tolerance, k.Arrivals = policy, s.bench.span, s.r.opts.Tolerance, s.arrivals
	return k
}

// search finds a goodput and keeps it; one that is there counts if it is
// higher.
func (s *searches) search(name string, best, floor float64) error {
	began := time.Now()
	f, err := s.bench.search(name, s.guess, best, floor, s.r.opts.Tolerance)
	if err != nil {
		return err
	}
	f.Worked = time.Since(began).Seconds()
	s.o.Ran.add(f)
	if was, ok := s.o.Found[name]; ok {
		if f.Rate <= was.Rate {
			f.Rate, f.TooHigh = was.Rate, was.TooHigh
		}
		f.Guess = max(f.Guess, was.Guess)
		f.add(was)
	}
	s.o.Found[name] = f
	return keep(s.r, s.key(name), f)
}

// add adds what was simulated.
func (f *Found) add(o Found) {
	f.Runs, f.Requests, f.Worked = f.Runs+o.Runs, f.Requests+o.Requests, f.Worked+o.Worked
}
