package fleet

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/sim/fleet"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// planner is a partitioner by name. Each has a day of its own, with the same catalogue and course,
// and what happens at the same instants.
type planner struct {
	name string
	by   fleet.Partitioner
}

func planners() []planner {
	return []planner{{"GPUs needed", gpus{steps: 500, movesOf: 6, rateMax: 1e6}}, {"balance of needs", fleet.Greedy{}}}
}

// gpus is scheduler/control/partition with its objective of GPUs.
type gpus struct {
	steps   int64   // of the search for a plan, times the models
	movesOf uint64  // of each so many plans, one looks for moves
	rateMax float64 // requests/s that one rank loop carries
}

// Partition implements fleet.Partitioner. A model that moves costs 2, a new one 1.
func (g gpus) Partition(models []fleet.Demand, from []int, subClusters int, memory int64, moves int, seed uint64) ([]int, error) {
	fresh := 0
	for _, j := range from {
		if j < 0 {
			fresh++
		}
	}
	if fresh == 0 && (moves == 0 || seed%g.movesOf != 0) {
		return from, nil
	}
	p := g.problem(models, subClusters, memory)
	if fresh < len(from) {
		p.From, p.CostMax = from, float64(fresh+2*moves)
	}
	r, _, err := partition.Solve(p, partition.Effort{Seed: seed, More: func(steps int64) bool { return steps < g.steps*int64(len(models)) }})
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	return r.Of, nil
}

// Wants implements fleet.Partitioner.
func (g gpus) Wants(models []fleet.Demand, of []int, subClusters int) []float64 {
	return partition.Wants(g.problem(models, subClusters, 0).Loads(of))
}

func (g gpus) problem(models []fleet.Demand, subClusters int, memory int64) *partition.Problem {
	p := &partition.Problem{SubClusters: subClusters, RateMax: g.rateMax, MemoryMax: memory, Objective: partition.GPUs, Models: make([]partition.Model, len(models))}
	for i, m := range models {
		p.Models[i] = partition.Model{Name: m.Key, Rate: m.Rate, Need: m.Need, Batch: m.Batch, Slack: m.Slack, Static: m.Static, Dynamic: m.Dynamic, Cost: 1}
	}
	return p
}
