package paper

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
)

// TestActingDay: figure 15's 150 hours with acting keep their bounds: GPU hours, bad rate outside of
// jumps. What they are is in the report.
func TestActingDay(t *testing.T) {
	d, err := actingDay(30)
	if err != nil {
		t.Fatal(err)
	}
	if d.cost > costMost || d.cost < 1 {
		t.Errorf("%.3f of the GPU hours that were needed", d.cost)
	}
	if d.badCalm > badMost || d.over > d.counted/50 || d.counted < fig15Epochs/2 {
		t.Errorf("bad rate %.4f outside of jumps, in %d of %d epochs above the bound", d.badCalm, d.over, d.counted)
	}
	if d.badAll < d.badCalm || len(d.changes) < 50 {
		t.Errorf("nothing is shown: bad rate %.4f with jumps, %.4f without; %d changes", d.badAll, d.badCalm, len(d.changes))
	}
}

// TestActingWaves: the shortest, one about as long as the cool-downs, and the longest.
func TestActingWaves(t *testing.T) {
	all := wavePeriods()
	for _, i := range []int{0, 8, len(all) - 1} {
		if w := runWave(all[i]); w.tooClose || w.changes > w.most {
			t.Errorf("%+v", w)
		}
	}
	if w := runWave(all[len(all)-1]); w.changes < 10 || w.cost > 2 {
		t.Errorf("a wave of two hours is followed by nobody: %+v", w)
	}
}

// TestActingOnRequests: what the fluid shows holds for requests, on few GPUs.
func TestActingOnRequests(t *testing.T) {
	if invariants.Enabled && testing.Short() {
		t.Skip("long with the assertions on")
	}
	m := Model{Name: "ResNet50", Alpha: 1.053, Beta: 5.072, SLO: 50}
	j := actingJob{changingJob: changingJob{System: SymphonyNone, GPUs: 32, Seconds: 24, Epoch: 0.2, Seed: 1,
		Models: []changingModel{{m, 3000, "diurnal:period=12s,depth=0.5"}, {m, 300, "diurnal:period=6s,depth=0.5"}}},
		Interval: 0.5, CoolUp: 0.5, CoolDown: 3, Lead: 0.5, Start: 10}
	r, err := j.run(nil)
	if err != nil {
		t.Fatal(err)
	}
	arrived, bad := int64(0), int64(0)
	for k := range r.Arrived {
		arrived, bad = arrived+r.Arrived[k], bad+r.Bad[k]
	}
	if arrived < 50000 || float64(bad) > 0.02*float64(arrived) {
		t.Errorf("%d of %d requests bad", bad, arrived)
	}
	if cost := r.Paid / r.Need; cost < 1 || cost > 2.2 || r.Changes < 2 || r.Changes > r.ChangesMost {
		t.Errorf("%.2f of what was needed; %d changes, at most %d", cost, r.Changes, r.ChangesMost)
	}
}
