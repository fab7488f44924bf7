package sim_test

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// GPUs that are brought and taken while a run goes on serve from then until then, and each request
// counts once.
func TestSteer(t *testing.T) {
	cfg := config(t, "symphony", 1, 400, 0)
	cfg.NeedSpan = 100 * mono.Millisecond
	span := mono.Time(cfg.Warmup + cfg.Duration)
	var asked []mono.Time
	cfg.Steer = func(now mono.Time) []sim.GPUEvent {
		asked = append(asked, now)
		switch len(asked) {
		case 2:
			return []sim.GPUEvent{{At: now.Add(10 * mono.Millisecond), GPU: 1, Kind: sim.Join}, {At: now.Add(20 * mono.Millisecond), GPU: 2, Kind: sim.Join}}
		case 4:
			return []sim.GPUEvent{{At: 0, GPU: 2, Kind: sim.Leave}} // the past is now
		}
		return nil
	}
	ran := map[wire.GPUID][2]mono.Time{}
	cfg.Observer.Executed = func(e *sim.Execution) {
		r, there := ran[e.GPU]
		if !there {
			r[0] = e.Start
		}
		r[1] = e.End
		ran[e.GPU] = r
	}
	r, err := sim.Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts(t, r)
	if len(asked) < 5 || asked[len(asked)-1] > span {
		t.Fatalf("asked at %v", asked)
	}
	if r := ran[1]; r[0] < asked[1].Add(10*mono.Millisecond) || r[1] < asked[4] {
		t.Errorf("GPU 1 ran from %v to %v", r[0], r[1])
	}
	if r, there := ran[2]; there && (r[0] < asked[1].Add(20*mono.Millisecond) || r[1] > asked[3].Add(50*mono.Millisecond)) {
		t.Errorf("GPU 2 ran from %v to %v, and went at %v", r[0], r[1], asked[3])
	}
}
