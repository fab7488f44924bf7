package subclusters

import (
	"fmt"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

func TestDevCompare(t *testing.T) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, w := range Workloads() {
		wg.Go(func() {
			for seed := uint64(1); seed <= 2; seed++ {
				m, err := w.Draw(seed)
				if err != nil {
					t.Error(err)
					return
				}
				p, err := Problem(m, 1)
				if err != nil {
					t.Error(err)
					return
				}
				p.MemoryMax = w.Memory
				l, err := partition.Fewest(p, 1, 1000000)
				if err != nil {
					t.Error(err)
					return
				}
				p.SubClusters = l
				line := fmt.Sprintf("%s seed %d l=%d", w.Name, seed, l)
				for _, o := range []partition.Objective{partition.Balance, partition.GPUs} {
					p.Objective = o
					r, _, err := partition.Solve(p, partition.Effort{Seed: 1, More: func(n int64) bool { return n < 20_000_000 }})
					if err != nil {
						t.Error(err)
						return
					}
					need := 0.0
					for _, l := range r.Loads {
						need += l.Need
					}
					sum, each, err := Run{Seed: seed, Requests: 60000}.Sum(m, r.Of, l)
					if err != nil {
						t.Error(err)
						return
					}
					line += fmt.Sprintf("\n   %v need %.2f wants %.2f whole %d SIM %d %v", o, need, sumOf(partition.Wants(r.Loads)), partition.WholeGPUs(r.Loads), sum, each)
				}
				mu.Lock()
				fmt.Println(line)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
func sumOf(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return
}
