package subclusters

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/symphony-serving/symphony/bench/zoo"
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
