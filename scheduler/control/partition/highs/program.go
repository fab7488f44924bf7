package highs

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// program is appendix A's MILP, rows of coefficients. Columns: x_ij at i*l+j; then dR and dS, in means of the rate; then,
// where largest dynamic memories must be told apart, D_j of each sub-cluster.
type program struct {
	n, l               int
	cost, lower, upper []float64 // of columns
	integer            []int32
	rowLow, rowHigh    []float64
	start, index       []int32
	value              []float64
	bytesUnit          float64 // of D_j
	dynamic            bool
}

func newProgram(p *partition.Problem, incumbent []int) *program {
	g := &program{n: len(p.Models), l: p.SubClusters}
	g.dynamic = p.MemoryMax > 0 && tight(p, incumbent)
	rate, static := 0.0, 0.0
	for i := range p.Models {
		rate, static = rate+p.Models[i].Rate, static+float64(p.Models[i].Static)
	}
	rate, static = rate/float64(g.l), static/float64(g.l)
	unit, w := rate, p.Weight
	if unit <= 0 {
		unit, w = math.Max(static, 1), 1
	} else if w == 0 {
		w = 1
		if static > 0 {
			w = rate / static
		}
	}
	g.columns(p)
	g.eachOnce()
	x := func(i int) float64 { return p.Models[i].Rate / unit }
	y := func(i int) float64 { return w * float64(p.Models[i].Static) / unit }
	g.near(g.n*g.l, rate/unit, x)
	g.near(g.n*g.l+1, w*static/unit, y)
	if p.RateMax > 0 {
		g.capped(p.RateMax/unit, x)
	}
	if p.ModelsMax > 0 && p.ModelsMax < g.n {
		g.capped(float64(p.ModelsMax), func(int) float64 { return 1 })
	}
	if p.MemoryMax > 0 {
		g.memory(p)
	}
	if p.From != nil && !math.IsInf(p.CostMax, 1) {
		g.disruption(p)
	}
	g.start = append(g.start, int32(len(g.index)))
	return g
}

// tight is whether a sub-cluster of the incumbent does not hold the largest dynamic memory of all models. Where none is, that
// constant stands for each sub-cluster's own: a row for each model and sub-cluster less, and a relaxation that says more.
func tight(p *partition.Problem, incumbent []int) bool {
	if incumbent == nil {
		return false
	}
	dynamic := int64(0)
	for i := range p.Models {
		dynamic = max(dynamic, p.Models[i].Dynamic)
	}
	for _, l := range p.Loads(incumbent) {
		if l.Static+dynamic > p.MemoryMax {
			return true
		}
	}
	return false
}

// columns: (9), and the objective (3).
func (g *program) columns(p *partition.Problem) {
	g.bytesUnit = math.Max(1, float64(p.MemoryMax))
	for range g.n * g.l {
		g.column(0, 1, 1)
	}
	g.column(1, math.Inf(1), 0)
	g.column(1, math.Inf(1), 0)
	for range g.l {
		if g.dynamic {
			g.column(0, 1, 0)
		}
	}
}

func (g *program) column(cost, upper float64, integer int32) {
	g.cost, g.lower, g.upper, g.integer = append(g.cost, cost), append(g.lower, 0), append(g.upper, upper), append(g.integer, integer)
}

// row begins one; put adds to it.
func (g *program) row(low, high float64) {
	g.start, g.rowLow, g.rowHigh = append(g.start, int32(len(g.index))), append(g.rowLow, low), append(g.rowHigh, high)
}

func (g *program) put(column int, v float64) {
	if v != 0 {
		g.index, g.value = append(g.index, int32(column)), append(g.value, v)
	}
}

// eachOnce: (8).
func (g *program) eachOnce() {
	for i := range g.n {
		g.row(1, 1)
		for j := range g.l {
			g.put(i*g.l+j, 1)
		}
	}
}

// near: (6) and (7), a row above and one below the mean.
func (g *program) near(distance int, mean float64, of func(int) float64) {
	for j := range g.l {
		for _, sign := range []float64{-1, 1} {
			if sign < 0 {
				g.row(math.Inf(-1), mean)
			} else {
				g.row(mean, math.Inf(1))
			}
			for i := range g.n {
				g.put(i*g.l+j, of(i))
			}
			g.put(distance, sign)
		}
	}
}

// capped: (4), and its like.
func (g *program) capped(most float64, of func(int) float64) {
	for j := range g.l {
		g.row(math.Inf(-1), most)
		for i := range g.n {
			g.put(i*g.l+j, of(i))
		}
	}
}

// memory: (5).
func (g *program) memory(p *partition.Problem) {
	largest := 0.0
	for i := range p.Models {
		largest = max(largest, float64(p.Models[i].Dynamic))
	}
	for j := range g.l {
		most := float64(p.MemoryMax) / g.bytesUnit
		if !g.dynamic {
			most -= largest / g.bytesUnit
		}
		g.row(math.Inf(-1), most)
		for i := range g.n {
			g.put(i*g.l+j, float64(p.Models[i].Static)/g.bytesUnit)
		}
		if g.dynamic {
			g.put(g.n*g.l+2+j, 1)
		}
	}
	for j := range g.l {
		for i := range g.n {
			if d := float64(p.Models[i].Dynamic) / g.bytesUnit; g.dynamic && d > 0 {
				g.row(0, math.Inf(1)) // D_j - d_i*x_ij >= 0
				g.put(g.n*g.l+2+j, 1)
				g.put(i*g.l+j, -d)
			}
		}
	}
}

// disruption: (10). With (8), y of the sub-cluster that is left is 1 where x of another one is.
func (g *program) disruption(p *partition.Problem) {
	unit := math.Max(p.CostMax, 1e-9)
	g.row(math.Inf(-1), p.CostMax/unit)
	at := make([]int, g.n)
	alone := *p
	for i := range g.n {
		alone.Models, alone.From = p.Models[i:i+1], p.From[i:i+1]
		for j := range g.l {
			at[i] = j
			g.put(i*g.l+j, alone.CostOf(at[i:i+1])/unit)
		}
	}
}

// columnsOf is an assignment as values of the columns.
func (g *program) columnsOf(p *partition.Problem, of []int) []float64 {
	v := make([]float64, len(g.cost))
	for i, j := range of {
		v[i*g.l+j] = 1
	}
	loads := p.Loads(of)
	for j := range loads {
		if g.dynamic {
			v[g.n*g.l+2+j] = float64(loads[j].Dynamic) / g.bytesUnit
		}
	}
	for r := range g.rowLow { // dR and dS: what the rows of (6) and (7) ask for
		sum, distance, sign := 0.0, -1, 0.0
		for k := g.start[r]; k < g.start[r+1]; k++ {
			if c := int(g.index[k]); c == g.n*g.l || c == g.n*g.l+1 {
				distance, sign = c, g.value[k]
			} else {
				sum += g.value[k] * v[c]
			}
		}
		switch {
		case distance < 0:
		case sign < 0:
			v[distance] = max(v[distance], sum-g.rowHigh[r])
		default:
			v[distance] = max(v[distance], g.rowLow[r]-sum)
		}
	}
	return v
}

// assignment reads the columns; ok: each model is in one sub-cluster.
func (g *program) assignment(v []float64) (of []int, ok bool) {
	of = make([]int, g.n)
	for i := range of {
		of[i] = -1
		for j := range g.l {
			if v[i*g.l+j] > 0.5 {
				of[i] = j
			}
		}
		if of[i] < 0 {
			return nil, false
		}
	}
	return of, true
}
