package coretest

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Section 3.2: the smallest id first lets GPUs with high ids stay idle. 10
// models of ResNet50 (1080Ti) at 3,000 requests/s on 24 GPUs: nobody is late,
// and at least 10 GPUs, those with the highest ids, are nearly idle.
func TestLoadGathersOnLowIDs(t *testing.T) {
	w := workload{models: slices.Repeat([]line{{2.05, 5.378, 100}}, 10), gpus: 24, shape: 1}
	const seconds = 20
	busy := make([]mono.Dur, w.gpus)
	w.ran = func(r Run) { busy[r.GPU] += r.End.Sub(r.Start) }
	res := w.play(t, batching.PolicyTarget, 3000, seconds, 1)
	if res.bad > 0.001 {
		t.Errorf("bad rate %.4f, want at most 0.001", res.bad)
	}
	idle := 0
	for id := w.gpus - 1; id >= 0 && busy[id].Seconds() < 0.05*seconds; id-- {
		idle++
	}
	t.Logf("bad rate %.5f, %d GPUs with the highest ids under 5 %% busy", res.bad, idle)
	if idle < 10 {
		t.Errorf("only %d GPUs idle; busy: %v", idle, busy)
	}
}
