package partition

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// fakeSolver answers as it was told.
type fakeSolver struct {
	of        []int
	err       error
	incumbent []int
	limit     mono.Dur
}

func (f *fakeSolver) Solve(_ *Problem, incumbent []int, limit mono.Dur) ([]int, error) {
	f.incumbent, f.limit = incumbent, limit
	return f.of, f.err
}

// The better of search and solver counts, and what the solver brings is checked as all else is.
func TestBetterOfTheTwo(t *testing.T) {
	p := capped(drawn(60, 3, 1))
	few := Effort{Seed: 1, More: func(n int64) bool { return false }}
	start, _, err := Solve(p, few)
	if err != nil {
		t.Fatal(err)
	}
	better, _ := run(t, p, 1, 500_000).Best()
	worse, illegal, odd := slices.Clone(start.Of), make([]int, 60), []int{1}
	for i := range worse { // swaps of unlike models
		if k := (i * 7) % 60; p.Models[k].Rate > 2*p.Models[i].Rate {
			worse[i], worse[k] = worse[k], worse[i]
		}
	}
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		of    []int
		err   error
		found Finder
		told  bool
	}{
		"better": {better, nil, BySolver, false}, "worse": {worse, nil, BySearch, p.Check(worse) != nil}, "none": {nil, nil, BySearch, false},
		"breaks a cap": {illegal, nil, BySearch, true}, "too short": {odd, nil, BySearch, true}, "fails": {nil, failed, BySearch, true},
	} {
		s := &fakeSolver{of: c.of, err: c.err}
		e := few
		e.Solver, e.SolverLimit = s, 3*mono.Second
		r, told, err := Solve(p, e)
		if err != nil {
			t.Fatal(err)
		}
		if r.Found != c.found || (told != nil) != c.told || r.Value > start.Value || p.Check(r.Of) != nil {
			t.Errorf("%s: found by %v, told %v, value %g after %g", name, r.Found, told, r.Value, start.Value)
		}
		if !slices.Equal(s.incumbent, start.Of) || s.limit != 3*mono.Second {
			t.Errorf("%s: the solver was asked with another incumbent, or limit %v", name, s.limit)
		}
	}
	p.Objective = GPUs
	s := &fakeSolver{err: failed}
	e := few
	e.Solver = s
	if _, told, err := Solve(p, e); err != nil || told != nil || s.incumbent != nil {
		t.Errorf("asked for another objective: %v, %v", told, err)
	}
}

// (5) counts the largest dynamic memory once: models that have much of it must be together, and the search finds that out.
func TestDynamicMemoryTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := &Problem{SubClusters: 4, MemoryMax: 1000}
	for i := range 80 {
		m := Model{Rate: rng.ExpFloat64(), Static: 40 + rng.Int64N(17), Dynamic: 10}
		if i%4 == 0 {
			m.Static, m.Dynamic = 10, 700 // 20 of them: 200 and 700, if they are alone
		}
		p.Models = append(p.Models, m)
	}
	for _, objective := range []Objective{Balance, GPUs} {
		p.Objective = objective
		r, _, err := Solve(p, Effort{Seed: 1, More: func(n int64) bool { return n < 2_000_000 }})
		if err != nil {
			t.Fatalf("%v: %v", objective, err)
		}
		large := 0
		for _, l := range r.Loads {
			if l.Dynamic == 700 {
				large++
			}
		}
		if large != 1 {
			t.Errorf("%v: %d sub-clusters have models of 700 dynamic bytes: %+v", objective, large, r.Loads)
		}
	}
}

// For GPUs: where nothing is to be gained models stay where they are; where there is, they move.
func TestStaysWhereItIs(t *testing.T) {
	p := drawn(80, 4, 2)
	p.Objective = GPUs
	for i := range p.Models {
		p.Models[i].Need *= 20
		p.Models[i].Batch, p.Models[i].Slack = 2, 0.2
		p.From = append(p.From, i%4)
	}
	p.CostMax = 1000
	e := Effort{Seed: 1, More: func(n int64) bool { return n < 1_000_000 }}
	r, _, err := Solve(p, e)
	if err != nil || len(r.Moved) > 0 {
		t.Fatalf("models alike moved: %v, %v", r, err)
	}
	for i := range p.Models { // long batches beside hasty requests, everywhere
		if i/4%2 == 0 {
			p.Models[i].Batch, p.Models[i].Slack = 1, 0.001
		} else {
			p.Models[i].Slack, p.Models[i].Batch = 0.2, 30
		}
	}
	was := p.Value(p.Loads(p.From))
	if r, _, err = Solve(p, e); err != nil || len(r.Moved) == 0 || r.Value > 0.99*was {
		t.Fatalf("%g GPUs, before %g; %d models moved; %v", r.Value, was, len(r.Moved), err)
	}
}
