package subclusters

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// Outcome is what the objectives need for one draw of a workload, in GPUs by simulation (Run.Least), summed over
// the sub-clusters.
type Outcome struct {
	Workload    string
	Seed        uint64
	Models      int
	Need        float64
	SubClusters int // as few as memory allows: of Ours and Same
	Paper       int // the paper's ratio, 40 models to a sub-cluster: of Equal and Dealt
	Equal       int // paper's objective; each sub-cluster has as many as the one that needs most
	Dealt       int // paper's objective; each sub-cluster has what it needs
	Same        int // the same on as many sub-clusters as ours has
	Ours        int
	Reckoned    int // what GPUsFor says of Ours, in whole GPUs
}

const (
	// modelsEach is appendix A's 800 models on 20 sub-clusters.
	modelsEach = 40
	// compareSteps is what a search gets, about a second.
	compareSteps = 10_000_000
)

// Compare partitions and simulates. Requests is how many are counted of each sub-cluster in each simulation.
func Compare(w Workload, seed uint64, requests float64, stop func() bool) (o Outcome, err error) {
	models, err := w.Draw(seed)
	if err != nil {
		return o, err
	}
	p, err := Problem(models, 1)
	if err != nil {
		return o, err
	}
	p.MemoryMax = w.Memory
	o = Outcome{Workload: w.Name, Seed: seed, Models: len(models)}
	if o.SubClusters, err = partition.Fewest(p, seed, compareSteps/10); err != nil {
		return o, err
	}
	o.Paper = max(o.SubClusters, (len(models)+modelsEach-1)/modelsEach)
	for i := range p.Models {
		o.Need += p.Models[i].Need
	}
	run := Run{Seed: seed, Requests: requests, Stop: stop}
	for _, k := range []struct {
		objective  partition.Objective
		l          int
		sum, equal *int
	}{{partition.Balance, o.Paper, &o.Dealt, &o.Equal}, {partition.Balance, o.SubClusters, &o.Same, nil}, {partition.GPUs, o.SubClusters, &o.Ours, nil}} {
		p.Objective, p.SubClusters = k.objective, k.l
		r, _, err := partition.Solve(p, partition.Effort{Seed: seed, More: func(n int64) bool { return n < compareSteps && (stop == nil || !stop()) }})
		if err != nil {
			return o, fmt.Errorf("%s, seed %d: %w", w.Name, seed, err)
		}
		if stop != nil && stop() {
			return o, sim.ErrStopped
		}
		sum, each, err := run.Sum(models, r.Of, k.l)
		if err != nil {
			return o, fmt.Errorf("%s, seed %d: %w", w.Name, seed, err)
		}
		*k.sum = sum
		if k.equal != nil {
			for _, n := range each {
				*k.equal = max(*k.equal, n*k.l)
			}
		}
		if k.objective == partition.GPUs {
			o.Reckoned = partition.WholeGPUs(r.Loads)
		}
	}
	return o, nil
}
