package partition

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// anyProblem is small, and often tight.
func anyProblem(r *rapid.T) *Problem {
	n := rapid.IntRange(1, 7).Draw(r, "models")
	p := &Problem{SubClusters: rapid.IntRange(1, 3).Draw(r, "sub-clusters"), Objective: Objective(rapid.IntRange(0, 1).Draw(r, "objective"))}
	for range n {
		p.Models = append(p.Models, Model{Rate: float64(rapid.IntRange(0, 9).Draw(r, "rate")), Need: float64(rapid.IntRange(0, 30).Draw(r, "need")) / 10,
			Batch: float64(rapid.IntRange(0, 4).Draw(r, "batch")), Slack: float64(rapid.IntRange(0, 4).Draw(r, "slack")) / 100,
			Static: int64(rapid.IntRange(0, 9).Draw(r, "static")), Dynamic: int64(rapid.IntRange(0, 4).Draw(r, "dynamic")), Cost: float64(rapid.IntRange(0, 3).Draw(r, "cost"))})
	}
	if rapid.Bool().Draw(r, "rate cap") {
		p.RateMax = float64(rapid.IntRange(5, 25).Draw(r, "R_max"))
	}
	if rapid.Bool().Draw(r, "memory cap") {
		p.MemoryMax = int64(rapid.IntRange(5, 25).Draw(r, "S_max"))
	}
	if rapid.Bool().Draw(r, "models cap") {
		p.ModelsMax = rapid.IntRange(1, 5).Draw(r, "most models")
	}
	if rapid.Bool().Draw(r, "from") {
		for range n {
			p.From = append(p.From, rapid.IntRange(-1, p.SubClusters).Draw(r, "was in"))
		}
		p.CostMax = float64(rapid.IntRange(0, 12).Draw(r, "C_max"))
		if rapid.IntRange(0, 3).Draw(r, "no bound") == 0 {
			p.CostMax = math.Inf(1)
		}
	}
	return p
}

// best of all assignments, by trying them; ok: there is one.
func best(p *Problem) (value float64, ok bool) {
	of := make([]int, len(p.Models))
	value = math.Inf(1)
	for {
		if p.Check(of) == nil {
			value, ok = min(value, p.Value(p.Loads(of))), true
		}
		k := 0
		for k < len(of) && of[k] == p.SubClusters-1 {
			of[k] = 0
			k++
		}
		if k == len(of) {
			return value, ok
		}
		of[k]++
	}
}

func solveFor(p *Problem, seed uint64, steps int64) (*Result, error) {
	r, _, err := Solve(p, Effort{Seed: seed, More: func(n int64) bool { return n < steps }})
	return r, err
}

// Against all assignments of small problems: what is found keeps the constraints and is not below the bound, nor above
// the best; and infeasible is what has none.
func TestAgainstAllAssignments(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := anyProblem(r)
		least, ok := best(p)
		got, err := solveFor(p, 1, 40_000)
		none := (*Infeasible)(nil)
		switch {
		case !ok && (!errors.As(err, &none) || !none.Proven):
			r.Fatalf("there is no assignment; got %+v, %v", got, err)
		case !ok:
			checkMends(r, p, none)
			return
		case err != nil:
			r.Fatalf("there is one of %g: %v", least, err)
		}
		if err := p.Check(got.Of); err != nil {
			r.Fatal(err)
		}
		if got.Bound > least+1e-9 {
			r.Fatalf("bound %g, the best has %g", got.Bound, least)
		}
		if got.Value < least-1e-9 || got.Value > least*1.0001+1e-9 {
			r.Fatalf("found %g, the best has %g", got.Value, least)
		}
	})
}

// checkMends: with each there is an assignment; and sub-clusters and models, which are whole, could not be fewer.
func checkMends(r *rapid.T, p *Problem, e *Infeasible) {
	for _, m := range e.Mends {
		if m.To <= m.From {
			r.Fatalf("%v mends nothing", m)
		}
		q := *p
		mend(&q, m.What, m.To)
		if _, ok := best(&q); !ok {
			r.Fatalf("%v: it is not enough", e)
		}
		if m.What == None || m.What == ModelsCap {
			mend(&q, m.What, m.To-1)
			if _, ok := best(&q); ok {
				r.Fatalf("%v: one less is enough", e)
			}
		}
	}
}

func mend(q *Problem, what Constraint, to float64) {
	switch what {
	case None:
		q.SubClusters = int(to)
	case RateCap:
		q.RateMax = to
	case MemoryCap:
		q.MemoryMax = int64(to)
	case ModelsCap:
		q.ModelsMax = int(to)
	case CostBound:
		q.CostMax = to
	}
}

// The order in which models come changes nothing but the places in the answer.
func TestOrderOfModels(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(r, "models")
		p := drawn(n, rapid.IntRange(1, 5).Draw(r, "sub-clusters"), rapid.Uint64().Draw(r, "problem"))
		p.Objective = Objective(rapid.IntRange(0, 1).Draw(r, "objective"))
		if rapid.Bool().Draw(r, "from") {
			p.CostMax = 5
			for i := range n {
				p.From = append(p.From, i%(p.SubClusters+1)-1)
				p.CostMax += p.Models[i].Cost
			}
		}
		perm := rapid.Permutation(sequence(n)).Draw(r, "order")
		q := *p
		q.Models, q.From = nil, nil
		for _, i := range perm {
			q.Models = append(q.Models, p.Models[i])
			if p.From != nil {
				q.From = append(q.From, p.From[i])
			}
		}
		a, errA := solveFor(p, 5, 30_000)
		b, errB := solveFor(&q, 5, 30_000)
		if errA != nil || errB != nil {
			r.Fatal(errA, errB)
		}
		for k, i := range perm {
			if a.Of[i] != b.Of[k] {
				r.Fatalf("model %d is in %d, and in another order in %d", i, a.Of[i], b.Of[k])
			}
		}
	})
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Whatever a caller puts: an error, or a result that passes the judge.
func TestAnythingPut(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := anyProblem(r)
		numbers := []float64{math.NaN(), math.Inf(1), -1, 1e300, 0}
		m := &p.Models[rapid.IntRange(0, len(p.Models)-1).Draw(r, "which")]
		switch v := rapid.SampledFrom(numbers).Draw(r, "number"); rapid.IntRange(0, 4).Draw(r, "field") {
		case 0:
			m.Rate = v
		case 1:
			m.Need = v
		case 2:
			m.Cost = v
		case 3:
			p.RateMax = v
		case 4:
			m.Costs = []float64{v}
		}
		got, err := solveFor(p, 1, 3_000)
		if none := (*Infeasible)(nil); err != nil && !errors.Is(err, ErrInvalid) && !errors.As(err, &none) {
			r.Fatal(err)
		}
		if err == nil && p.Check(got.Of) != nil {
			r.Fatal(p.Check(got.Of))
		}
	})
}

// Fewest finds what trying finds.
func TestFewest(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := anyProblem(r)
		p.From = nil
		n, err := Fewest(p, 1, 20_000)
		least := 0
		for l := 1; l <= len(p.Models) && least == 0; l++ {
			q := *p
			q.SubClusters = l
			if _, ok := best(&q); ok {
				least = l
			}
		}
		if least == 0 != (err != nil) || err == nil && n != least {
			r.Fatalf("%d, %v; trying finds %d", n, err, least)
		}
	})
}

// Deal: all are dealt, who wants any has one first, and each has what it wants where there are enough.
func TestDeal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		wants := rapid.SliceOfN(rapid.Float64Range(0, 40), 1, 12).Draw(r, "wants")
		gpus := rapid.IntRange(0, 400).Draw(r, "GPUs")
		sum, asks, enough := 0, 0, 0
		for _, w := range wants {
			enough += int(math.Ceil(w))
			if w > 0 {
				asks++
			}
		}
		dealt := Deal(wants, gpus)
		for j, d := range dealt {
			sum += d
			switch {
			case wants[j] == 0 && d > 0:
				r.Fatalf("%v: %d wants none", dealt, j)
			case wants[j] > 0 && gpus >= asks && d == 0:
				r.Fatalf("%v: %d has none of %d", dealt, j, gpus)
			case gpus >= enough && float64(d) < wants[j]:
				r.Fatalf("%v: %d wants %g, and there are %d for %d", dealt, j, wants[j], gpus, enough)
			}
		}
		if asks > 0 && sum != gpus || asks == 0 && sum != 0 {
			r.Fatalf("%v: %d of %d dealt", dealt, sum, gpus)
		}
	})
}

// Too few are shared in proportion.
func TestDealTooFew(t *testing.T) {
	for _, c := range []struct {
		wants []float64
		gpus  int
		want  []int
	}{{[]float64{40, 20, 20}, 40, []int{20, 10, 10}}, {[]float64{40, 0.1}, 1, []int{1, 0}}, {[]float64{9, 1}, 20, []int{18, 2}}} {
		got := Deal(c.wants, c.gpus)
		for j := range got {
			if got[j] != c.want[j] {
				t.Errorf("%v of %v: %v, want %v", c.gpus, c.wants, got, c.want)
				break
			}
		}
	}
}

func TestInfeasibleSays(t *testing.T) {
	p := drawn(40, 4, 1)
	_, static := p.means()
	p.MemoryMax = int64(0.9 * static)
	_, err := solveFor(p, 1, 10_000)
	e := (*Infeasible)(nil)
	if !errors.As(err, &e) || !e.Proven || e.What != MemoryCap || len(e.Mends) != 2 {
		t.Fatalf("%v", err)
	}
	t.Log(err)
	for _, m := range e.Mends {
		q := *p
		mend(&q, m.What, m.To)
		if _, err := solveFor(&q, 1, 1_000_000); err != nil {
			t.Errorf("%v is not enough: %v", m, err)
		}
	}
	p.MemoryMax = p.Models[3].Static
	if _, err = solveFor(p, 1, 10); !errors.As(err, &e) || e.Model == "" {
		t.Errorf("%v", err)
	}
	t.Log(err)
}
