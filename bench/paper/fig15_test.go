package paper

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
)

// TestAdviceIsThatOfTheLoad: whether GPUs stand idle or spend their time on latency,
// the autoscaler says the same, through a day with an overload in it.
func TestAdviceIsThatOfTheLoad(t *testing.T) {
	m := Model{Name: "ResNet50", Alpha: 1.053, Beta: 5.072, SLO: 50}
	j := changingJob{GPUs: 16, Seconds: 20, Epoch: 0.5, Seed: 1,
		Models: []changingModel{{m, 2000, "step:0s=1,4s=3,8s=9,10s=1"}, {m, 200, "diurnal:period=10s,depth=0.5"}}}
	run := func(system string) *fig15View {
		j := j
		j.System = system
		r, err := j.run(nil)
		if err != nil {
			t.Fatal(err)
		}
		return view(&j, &r)
	}
	idle := run(SymphonyNone)
	adds, removes, most := 0, 0, 0.0
	others := []string{Symphony, Eager}
	if invariants.Enabled {
		others = others[:1]
	}
	for _, system := range others {
		spent := run(system)
		for k := range idle.advice {
			if idle.advice[k] != spent.advice[k] || idle.why[k] != spent.why[k] {
				t.Errorf("epoch %d, need %.1f: advice %g (%s), with %s %g (%s)", k, idle.data.Need[k], idle.advice[k], idle.why[k], system, spent.advice[k], spent.why[k])
			}
			most = max(most, spent.data.Busy[k]-idle.data.Busy[k])
			if idle.advice[k] > 0 {
				adds++
			} else if idle.advice[k] < 0 {
				removes++
			}
		}
	}
	if n := len(others); adds < 4*n || removes < 10*n || most < 8 {
		t.Errorf("%d times to add, %d times to remove, up to %.1f GPUs busier: nothing is shown", adds, removes, most)
	}
}
