package draws

import (
	"fmt"
	"slices"
	"time"
)

// searches are those of one mix, on one grid, with the same arrivals.
type searches struct {
	r        *runner
	o        *Outcome
	names    []string // all policies that count
	policies []string // those that are measured
	fresh    []string // those that are measured though they are kept
	bench    *bench
}

// run searches for the goodput of each policy that has none yet. What is known of the others
// decides only who need not be told exactly: all searches begin at one rate.
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
		if err := s.search(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *searches) key(policy string) key {
	k := s.r.key("turn", s.o.Mix)
	k.Policy, k.Span, k.Tolerance, k.Rate = policy, s.bench.span, s.r.opts.Tolerance, fmt.Sprintf("%.6g", s.bench.grid.base)
	k.Arrivals = s.bench.arrivals
	return k
}

// search finds a goodput and keeps it.
func (s *searches) search(name string) error {
	began := time.Now()
	best := s.o.Best()
	if name == s.o.Ours || name == Today {
		best = 0
	}
	f, err := s.bench.search(name, best)
	if err != nil {
		return err
	}
	f.Worked = time.Since(began).Seconds()
	s.o.Ran.add(f)
	s.o.Found[name] = f
	return keep(s.r, s.key(name), f)
}

// add adds what was simulated.
func (f *Found) add(o Found) {
	f.Runs, f.Requests, f.Worked = f.Runs+o.Runs, f.Requests+o.Requests, f.Worked+o.Worked
}
