package subclusters

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
)

// Workload is a cluster's models, drawn from a seed.
type Workload struct {
	Name, What string
	Memory     int64 // bytes of a GPU
	Draw       func(seed uint64) ([]Model, error)
}

// gib is what GPUs are sold by.
const gib = 1 << 30

// Workloads are those on which objectives are compared. Sizes are the zoo's, so GPUs are small: what counts is
// how many sub-clusters it takes.
func Workloads() []Workload {
	return []Workload{
		{"appendix A", "800 variants of the zoo, exponential rates, 8,000 requests/s", 16 * gib, func(seed uint64) ([]Model, error) { return Draw(800, seed, 10), nil }},
		{"popular", "800 variants of the zoo, Zipf 1.0, 20,000 requests/s", 16 * gib, popular},
		{"opposed", "600 models: light ones with many requests, slow ones with few", 16 * gib, opposed},
		{"cold", "1,000 variants of the zoo, of which 50 take 95 % of 20,000 requests/s", 16 * gib, cold},
		{"alike", "600 times ResNet50, exponential rates, 12,000 requests/s: nothing to choose", 8 * gib, alike},
	}
}

func popular(seed uint64) ([]Model, error) {
	models := Draw(800, seed, 1)
	shares, err := workload.Shares("zipf:1", len(models))
	for i := range shares {
		models[i].Rate = 20_000 * shares[i]
	}
	return models, err
}

// opposed: the faster half of the zoo has ten times as many models, each with many requests.
func opposed(seed uint64) ([]Model, error) {
	rng := rand.New(rand.NewPCG(seed, 18))
	kinds := zoo.A100()
	slices.SortFunc(kinds, func(a, b zoo.Model) int { return int(a.Alpha + a.Beta - b.Alpha - b.Beta) })
	models := make([]Model, 600)
	for i := range models {
		k := kinds[rng.IntN(len(kinds))]
		memory, _ := zoo.MemoryOf(k)
		// Requests/s fall with the fourth power of how long one takes.
		rate := 400 * math.Pow(3/(k.Alpha+k.Beta).Millis(), 2.5) * rng.ExpFloat64()
		models[i] = Model{Name: fmt.Sprintf("%s-%04d", k.Name, i), Kind: k, Rate: rate, Bytes: memory}
	}
	return models, nil
}

func cold(seed uint64) ([]Model, error) {
	models := Draw(1000, seed, 1)
	for i := range models {
		if i < 50 {
			models[i].Rate *= 19_000.0 / 50
		} else {
			models[i].Rate *= 1_000.0 / 950
		}
	}
	return models, nil
}

func alike(seed uint64) ([]Model, error) {
	models := Draw(600, seed, 20)
	for _, k := range zoo.A100() {
		if k.Name != "ResNet50" {
			continue
		}
		for i := range models {
			models[i].Kind = k
			models[i].Bytes, _ = zoo.MemoryOf(k)
			models[i].Name = fmt.Sprintf("%s-%04d", k.Name, i)
		}
	}
	return models, nil
}
