package paper

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// Each method makes an assignment that keeps the constraints, or none; and ours is the most equal by far.
func TestPartitionMethods(t *testing.T) {
	got := map[string]balance{}
	for _, method := range []string{byRandom, bySearch} {
		j := partitionJob{Method: method, Models: 120, SubClusters: 4, Seed: 1, Seconds: 0.3, Room: loose()}
		b, err := j.run(func() bool { return false })
		if err != nil || b.Broken != "" {
			t.Fatalf("%s: %+v, %v", method, b, err)
		}
		got[method] = b
	}
	if r := got[byRandom]; r.None || got[bySearch].Value > r.Value/10 {
		t.Errorf("ours %+v, random %+v", got[bySearch], r)
	}
}

// The epoch after: the bound is 5 % of all costs, and is kept.
func TestPartitionCostJob(t *testing.T) {
	j := partitionJob{Method: bySearch, Models: 120, SubClusters: 4, Seed: 1, Seconds: 0.3, Room: loose(), Cost: costShare}
	b, err := j.run(func() bool { return false })
	if err != nil || b.Broken != "" || b.Cost <= 0 || b.Cost > b.Bound {
		t.Fatalf("%+v, %v", b, err)
	}
	p, err := j.problem()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.change(p); err != nil {
		t.Fatal(err)
	}
	before := p.Loads(p.From)
	if rate, _ := partition.Imbalance(before); b.Rate >= rate {
		t.Errorf("imbalance %g of rate, before %g", b.Rate, rate)
	}
}

func TestMedian(t *testing.T) {
	for want, v := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		if got := median(v); got != want {
			t.Errorf("%v: %g", v, got)
		}
	}
}
