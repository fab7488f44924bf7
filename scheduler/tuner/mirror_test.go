package tuner

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// TestMirror: 20 models like ResNet50 on 32 GPUs, SLO 20 ms, near the peak. The whole
// deferral has two states there. Its shadow is in the good one from the begin, the mirror comes
// from another setting and is in the bad one: that is seen, and something else is chosen.
func TestMirror(t *testing.T) {
	long(t)
	hasty := batching.Setting{Haste: batching.HasteAll, Alone: true, ByLatest: true}
	tu := New(Config{Scheduler: policy.Config{RequestsMax: 1 << 14}, Share: 0.05, Settings: []batching.Setting{hasty, {Frontrun: true, ByLatest: true}, {}}})
	tu.SetGPUs(32)
	p, err := profile.Linear(mono.FromMillis(1.053), mono.FromMillis(5.072), 256)
	if err != nil {
		t.Fatal(err)
	}
	const models, rate, slo = 20, 16900.0, 20 * mono.Millisecond
	for id := range models {
		tu.AddModel(wire.ModelID(id), policy.Model{Profile: p, SLO: slo})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	now, next := mono.Time(0), mono.Time(0)
	var drifted bool
	for now < mono.Time(20*mono.Second) {
		now = now.Add(mono.FromSeconds(rng.ExpFloat64() / rate))
		if now >= next {
			next = now.Add(Turn)
			tu.Spent(float64(tu.Work(now, 1<<20)) / ReplaysPerSecond)
			before := tu.Choice().Setting
			tu.Choose(now)
			if before == (batching.Setting{}) && tu.Choice().Setting != before && tu.shadows[2].debt > 0 {
				drifted = true
			}
			if tu.mirror.setting != tu.Choice().Setting {
				t.Fatalf("the mirror has %v, in force is %v", tu.mirror.setting, tu.Choice().Setting)
			}
		}
		tu.Arrive(now, wire.ModelID(rng.IntN(models)), now.Add(slo))
	}
	t.Logf("%v, drifted %v", tu.Choice(), drifted)
	m := tu.mirror.lately
	if bad := m.bad / (m.bad + m.served); bad > 0.007 {
		t.Errorf("the mirror loses %.4f with %v", bad, tu.Choice().Setting)
	}
	if len(tu.Outlooks()) != 3 {
		t.Errorf("%d outlooks of 3 settings", len(tu.Outlooks()))
	}
}
