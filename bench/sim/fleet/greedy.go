package fleet

import (
	"fmt"
	"math"
	"slices"
)

// Greedy is a simple Partitioner: models stay where they are, a new one goes where there is
// room and the need is least, and where needs differ by a fifth of the mean, models move from the
// sub-cluster with the highest to that with the lowest. The real one is scheduler/control/partition.
type Greedy struct{}

// Partition implements Partitioner.
func (Greedy) Partition(models []Demand, from []int, subClusters int, memory int64, moves int, seed uint64) ([]int, error) {
	of := slices.Clone(from)
	static, dynamic, need := make([]int64, subClusters), make([]int64, subClusters), make([]float64, subClusters)
	put := func(i, j int) {
		of[i] = j
		static[j] += models[i].Static
		dynamic[j] = max(dynamic[j], models[i].Dynamic)
		need[j] += models[i].Need
	}
	var fresh []int
	for i := range models {
		if from[i] >= 0 {
			put(i, from[i])
		} else {
			fresh = append(fresh, i)
		}
	}
	slices.SortStableFunc(fresh, func(a, b int) int {
		if models[a].Need > models[b].Need {
			return -1
		} else if models[a].Need < models[b].Need {
			return 1
		}
		return 0
	})
	for _, i := range fresh {
		best := -1
		for j := range subClusters {
			if static[j]+models[i].Static+max(dynamic[j], models[i].Dynamic) <= memory && (best < 0 || need[j] < need[best]) {
				best = j
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("%w: model %s of %d bytes has room in none of %d sub-clusters", ErrInvalid, models[i].Key, models[i].Static, subClusters)
		}
		put(i, best)
	}
	for range moves {
		high, low, sum := 0, 0, 0.0
		for j := range subClusters {
			sum += need[j]
			if need[j] > need[high] {
				high = j
			}
			if need[j] < need[low] {
				low = j
			}
		}
		gap, best := need[high]-need[low], -1
		for i := range models {
			if of[i] != high || from[i] != high || models[i].Need >= gap || static[low]+models[i].Static+max(dynamic[low], models[i].Dynamic) > memory {
				continue
			}
			if best < 0 || math.Abs(models[i].Need-gap/2) < math.Abs(models[best].Need-gap/2) {
				best = i
			}
		}
		if best < 0 || gap < float64(0.2*sum)/float64(subClusters) {
			break
		}
		static[high] -= models[best].Static
		need[high] -= models[best].Need
		put(best, low)
	}
	return of, nil
}

// Wants implements Partitioner: the need, and a few GPUs for bursts.
func (Greedy) Wants(models []Demand, of []int, subClusters int) []float64 {
	wants := make([]float64, subClusters)
	for i, j := range of {
		if j >= 0 {
			wants[j] += models[i].Need
		}
	}
	for j, w := range wants {
		if w > 0 {
			wants[j] = w + 1 + float64(0.5*math.Sqrt(w))
		}
	}
	return wants
}
