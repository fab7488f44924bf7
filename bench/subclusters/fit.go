package subclusters

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// FitDraw is a sub-cluster to fit by: 1 to 100 models of the A100 zoo, all kinds or such as are about as slow, of which a
// few take more or less of the requests, with a need of 0.25 to 30 GPUs.
func FitDraw(seed uint64) ([]Model, error) {
	rng := rand.New(rand.NewPCG(seed, 17))
	kinds := zoo.A100()
	slices.SortFunc(kinds, func(a, b zoo.Model) int { return cmp.Compare(a.Alpha+a.Beta, b.Alpha+b.Beta) })
	width := 1 + rng.IntN(len(kinds))
	kinds = kinds[rng.IntN(len(kinds)-width+1):][:width]
	models, skew := make([]Model, int(math.Pow(100, rng.Float64()))), 2*rng.Float64()
	for i := range models {
		k := kinds[rng.IntN(len(kinds))]
		models[i] = Model{Name: k.Name, Kind: k, Rate: math.Pow(float64(i+1), -skew) * rng.ExpFloat64()}
	}
	return models, bring(models, 0.25*math.Pow(120, rng.Float64()))
}

// bring scales the rates until the models need that many GPUs together: the need is concave in the rates, so step by step.
func bring(models []Model, gpus float64) error {
	for range 40 {
		load, err := LoadOf(models)
		if err != nil {
			return err
		}
		for i := range models {
			models[i].Rate *= gpus / load.Need
		}
	}
	return nil
}

// Fit is how well terms explain the GPUs that sub-clusters take beyond their needs.
type Fit struct {
	Hold, Loose, Base float64 // coefficients, see partition.GPUsFor; Base: a constant beside them
	Residual          float64 // root of the mean square of what is left, GPUs
	Formula           float64 // the same by GPUsFor as it stands
	Samples           int
}

// Sample is a sub-cluster that was simulated.
type Sample struct {
	Load partition.Load
	GPUs int // the least
}

// Simulate draws sub-cluster number seed and simulates it.
func Simulate(seed uint64, requests float64, stop func() bool) (s Sample, err error) {
	models, err := FitDraw(seed)
	if err != nil {
		return s, err
	}
	if s.Load, err = LoadOf(models); err != nil {
		return s, err
	}
	s.GPUs, err = Run{Seed: seed, Requests: requests, Stop: stop}.Least(models)
	return s, err
}

// FitTo fits by least squares. What is fitted is half a GPU less than was found: the formula is rounded up.
func FitTo(samples []Sample) Fit {
	var a [3][4]float64 // normal equations
	for _, s := range samples {
		x, y := s.terms()
		for i := range x {
			for k := range x {
				a[i][k] += x[i] * x[k]
			}
			a[i][3] += x[i] * y
		}
	}
	c := solve3(a)
	f := Fit{Hold: c[0], Loose: c[1], Base: c[2], Samples: len(samples)}
	for _, s := range samples {
		x, y := s.terms()
		off := y - c[0]*x[0] - c[1]*x[1] - c[2]
		f.Residual += off * off
		off = y + s.Load.Need - partition.GPUsFor(s.Load.Need, s.Load.Rate, s.Load.Bursts)
		f.Formula += off * off
	}
	n := float64(max(1, len(samples)))
	f.Residual, f.Formula = math.Sqrt(f.Residual/n), math.Sqrt(f.Formula/n)
	return f
}

func (s *Sample) terms() (x [3]float64, y float64) {
	l := &s.Load
	return [3]float64{l.Hold / l.Need * l.Haste / l.Rate, l.Loose / l.Need, 1}, float64(s.GPUs) - 0.5 - l.Need
}

// solve3 solves three equations by elimination.
func solve3(a [3][4]float64) (c [3]float64) {
	for i := range 3 {
		pivot := i
		for k := i + 1; k < 3; k++ {
			if math.Abs(a[k][i]) > math.Abs(a[pivot][i]) {
				pivot = k
			}
		}
		if a[i], a[pivot] = a[pivot], a[i]; a[i][i] == 0 {
			return c // too few samples to tell
		}
		for k := range 3 {
			if f := a[k][i] / a[i][i]; k != i {
				for m := i; m < 4; m++ {
					a[k][m] -= f * a[i][m]
				}
			}
		}
	}
	for i := range c {
		c[i] = a[i][3] / a[i][i]
	}
	return c
}
