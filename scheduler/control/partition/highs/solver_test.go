package highs

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/transport/mono"
)

func drawn(n, l int, seed uint64) *partition.Problem {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := &partition.Problem{SubClusters: l, CostMax: math.Inf(1)}
	for range n {
		p.Models = append(p.Models, partition.Model{Rate: rng.ExpFloat64() * 10, Static: 20e6 + rng.Int64N(980e6), Dynamic: 100e6 + rng.Int64N(1400e6), Cost: 1})
	}
	return p
}

// optimum tries all assignments.
func optimum(p *partition.Problem) float64 {
	r, _, err := partition.Solve(p, partition.Effort{More: func(n int64) bool { return n < 1000 }})
	if err != nil {
		panic(err)
	}
	return r.Value // of so few models all are tried
}

// worst is an assignment that keeps the constraints and is bad.
func worst(p *partition.Problem) (of []int) {
	rng, value := rand.New(rand.NewPCG(1, 1)), -1.0
	for range 5000 {
		try := make([]int, len(p.Models))
		for i := range try {
			try[i] = rng.IntN(p.SubClusters)
		}
		if v := p.Value(p.Loads(try)); p.Check(try) == nil && v > value {
			of, value = try, v
		}
	}
	return of
}

// What the module makes of appendix A's program is the best assignment, under each constraint.
func TestOptimum(t *testing.T) {
	s := New(t.Context())
	defer s.Close()
	for name, change := range map[string]func(*partition.Problem){
		"as it is":   func(*partition.Problem) {},
		"rate cap":   func(p *partition.Problem) { p.RateMax = 45 },
		"memory cap": func(p *partition.Problem) { p.MemoryMax = 3.6e9 },
		"models cap": func(p *partition.Problem) { p.ModelsMax = 5 },
		"no rates": func(p *partition.Problem) {
			for i := range p.Models {
				p.Models[i].Rate = 0
			}
		},
		"disruption": func(p *partition.Problem) {
			p.From, p.CostMax = []int{0, 0, 0, 0, 1, 1, 1, 1, -1}, 5
		},
	} {
		p := drawn(9, 2, 4)
		change(p)
		start := worst(p)
		if start == nil {
			t.Fatalf("%s: no assignment", name)
		}
		began := time.Now()
		of, err := s.Solve(p, start, 60*mono.Second)
		t.Logf("%s: %v", name, time.Since(began))
		if err != nil || of == nil {
			t.Fatalf("%s: %v, %v", name, of, err)
		}
		if err := p.Check(of); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := p.Value(p.Loads(of)), optimum(p); got > want*(1+1e-5)+1e-9 {
			t.Errorf("%s: %g, the best has %g; the start had %g", name, got, want, p.Value(p.Loads(start)))
		}
	}
}

// The deadline holds: with a program that takes far longer, Solve is back soon after its limit, with something that keeps the
// constraints, nothing, or ErrOverdue.
func TestDeadline(t *testing.T) {
	s := New(t.Context())
	defer s.Close()
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	p := drawn(300, 10, 1)
	start := make([]int, 300)
	for i := range start {
		start[i] = i % 10
	}
	began := time.Now()
	of, err := s.Solve(p, start, mono.Second/2)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	switch {
	case err != nil && !errors.Is(err, ErrOverdue):
		t.Error(err)
	case of != nil && p.Check(of) != nil:
		t.Error(p.Check(of))
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := New(ctx)
	defer s.Close()
	if _, err := s.Solve(drawn(9, 2, 4), make([]int, 9), mono.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := New(t.Context()).Solve(drawn(10_000, 64, 1), make([]int, 10_000), mono.Second); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}
