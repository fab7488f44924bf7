package fleet

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

func bases(t testing.TB) (out []Base) {
	for _, m := range zoo.A100() {
		p, err := profile.Linear(m.Alpha, m.Beta, 256)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Base{m.Name, p, m.SLO})
	}
	return out
}

// small is four hours of a small cluster.
func small(t testing.TB) Config {
	return Config{
		GPUs: 96, Models: 200, SubClusters: 6, PerHost: 8, Memory: 80 << 30, Base: bases(t), Popularity: "zipf:0.8", Peak: 60, Length: 4 * 3600 * mono.Second, Seed: 1,
		Partition: Greedy{}, MovesMax: 3, Limits: plan.Limits{Loads: 128, Drained: 32}, Changes: 24, Failures: 12, Away: 900 * mono.Second, Restarts: 3,
		LoadFail: 0.001, LoadLost: 0.0005, LoadRate: 2e9, Regular: 4, RollOuts: 8, Stretch: mono.Second, Warmup: mono.Second / 2,
	}
}

// runDay goes through a day and all of its windows.
func runDay(t testing.TB, c Config) (*Day, []WindowResult) {
	d, err := NewDay(c)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := d.Run(nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("the day took %v", time.Since(begin))
	begin = time.Now()
	var out []WindowResult
	for _, w := range d.Windows() {
		r, err := d.Simulate(w)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	t.Logf("%d windows took %v", len(out), time.Since(begin))
	return d, out
}

func text(t testing.TB, v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDay(t *testing.T) {
	d, results := runDay(t, small(t))
	var all, calm WindowResult
	for i, w := range d.Windows() {
		if r := results[i]; w.Epoch >= 0 && !w.Still {
			all.Add(r)
		} else {
			calm.Add(r)
		}
	}
	t.Logf("%s", text(t, d.Totals))
	t.Logf("roll-outs %+v %.4f", all, all.BadRate())
	t.Logf("calm %+v %.4f", calm, calm.BadRate())
	for _, e := range d.Epochs {
		t.Logf("%+v", e)
	}
	for i, k := range d.Ticks {
		if i%20 == 0 {
			t.Logf("%+v", k)
		}
	}
}
