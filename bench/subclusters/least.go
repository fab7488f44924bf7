package subclusters

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Run says how sub-clusters are simulated.
type Run struct {
	Seed     uint64
	Requests float64 // that are counted, about: it makes the span
	Stop     func() bool
}

const (
	// spanLeast and spanMost bound the counted span, in seconds.
	spanLeast, spanMost = 5, 600
	warmup              = 2 * mono.Second
	// gpusMost ends a search upwards, in times what GPUsFor says.
	gpusMost = 4
)

// Least is the least number of GPUs on which 99 % of the requests of these models, a sub-cluster's, are in time, by
// simulation of the whole deferral.
func (r Run) Least(models []Model) (int, error) {
	load, err := LoadOf(models)
	if err != nil || load.Rate <= 0 {
		return 1, err // nobody asks: one GPU answers
	}
	c, err := r.config(models)
	if err != nil {
		return 0, err
	}
	guess := int(math.Ceil(partition.GPUsFor(load.Need, load.Rate, load.Bursts)))
	fails, passes := 0, 0
	for next, step := guess, 1; passes == 0 || passes-fails > 1; {
		c.GPUs = next
		ok, err := r.passes(c)
		if err != nil {
			return 0, err
		}
		if ok {
			passes = next
		} else {
			fails = next
		}
		switch {
		case passes > 0 && fails > 0:
			next = (passes + fails) / 2
		case ok:
			next = max(1, next-step)
		case next > gpusMost*guess+8:
			return 0, fmt.Errorf("%d models with a need of %.2f GPUs: not even %d GPUs serve 99 %% in time", len(models), load.Need, next)
		default:
			next += step
		}
		if passes == 1 {
			break
		}
		step *= 2
	}
	return passes, nil
}

// LoadOf is the partitioner's view of one sub-cluster.
func LoadOf(models []Model) (partition.Load, error) {
	p, err := Problem(models, 1)
	if err != nil {
		return partition.Load{}, err
	}
	return p.Loads(make([]int, len(models)))[0], nil
}

func (r Run) passes(c *sim.Config) (bool, error) {
	_, pass, err := sim.Within(c, make([]int, len(c.Models)), r.Stop) // one group: all of them
	return pass, err
}

// config is the simulation of a sub-cluster.
func (r Run) config(models []Model) (*sim.Config, error) {
	policy, err := scenario.PolicyOf("symphony/defer")
	if err != nil {
		return nil, err
	}
	c := &sim.Config{Seed: r.Seed, Warmup: warmup, NewPolicy: policy.New}
	rate := 0.0
	for i := range models {
		m := &models[i]
		p, err := m.Profile()
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
		rate += m.Rate
		c.Models = append(c.Models, sim.Model{Name: m.Name, Profile: p, SLO: m.Kind.SLO, Stream: workload.Stream{Process: workload.Poisson, Rate: m.Rate}})
	}
	if rate > 0 {
		c.Duration = mono.FromSeconds(min(spanMost, max(spanLeast, r.Requests/rate)))
	}
	return c, nil
}

// Sum is what all sub-clusters of an assignment need, and each of them.
func (r Run) Sum(models []Model, of []int, l int) (sum int, each []int, err error) {
	members := make([][]Model, l)
	for i, j := range of {
		members[j] = append(members[j], models[i])
	}
	for j := range members {
		n := 0
		if len(members[j]) > 0 {
			if n, err = r.Least(members[j]); err != nil {
				return 0, nil, fmt.Errorf("sub-cluster %d: %w", j, err)
			}
		}
		sum, each = sum+n, append(each, n)
	}
	return sum, each, nil
}
