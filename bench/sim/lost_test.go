package sim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const ms = mono.Millisecond

// config is four models like ResNet50 on GPUs that lie a network away.
func config(t *testing.T, policy string, gpus int, rate float64, network mono.Dur) *sim.Config {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(1.053), mono.FromMillis(5.072), 256)
	if err != nil {
		t.Fatal(err)
	}
	of, err := scenario.PolicyOf(strings.NewReplacer(":K", ":0.3", ":H", ":0.25", ":S", ":0.5+shed+cap88").Replace(policy))
	if err != nil {
		t.Fatal(err)
	}
	cfg := &sim.Config{GPUs: gpus, NewPolicy: of.New, Frontends: max(1, of.Frontends), Warmup: 100 * ms, Duration: 2 * mono.Second, Seed: 1}
	cfg.Network = sim.Network{Ctrl: sim.Constant(network), Bound: batching.Delay{Ctrl: network}}
	for i := range 4 {
		cfg.Models = append(cfg.Models, sim.Model{Name: fmt.Sprint("ResNet50#", i), Profile: p, SLO: 25 * ms,
			Stream: workload.Stream{Process: workload.Poisson, Rate: rate / 4}})
	}
	return cfg
}

// watched runs cfg and tells what became of each request, by what an observer
// sees: how often it was served by a batch that counts, and dropped.
func watched(t *testing.T, cfg *sim.Config) (r *sim.Result, kept, dropped map[wire.RequestID]int, lost int) {
	t.Helper()
	kept, dropped = map[wire.RequestID]int{}, map[wire.RequestID]int{}
	cfg.Observer.Executed = func(e *sim.Execution) {
		if !e.Kept {
			lost++
			return
		}
		for i := range e.Requests {
			kept[e.Requests[i].ID]++
		}
	}
	cfg.Observer.Drop = func(_ mono.Time, d *batching.Drop) { dropped[d.Request.ID]++ }
	r, err := sim.Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, kept, dropped, lost
}

func counts(t *testing.T, r *sim.Result) {
	t.Helper()
	for i := range r.Models {
		c := &r.Models[i]
		sum := c.Served + c.Late
		for _, n := range c.Dropped {
			sum += n
		}
		if sum != c.Arrived {
			t.Errorf("model %d: %d served, late or dropped of %d that arrived: %+v", i, sum, c.Arrived, c)
		}
	}
}

// TestEachRequestCountsOnce where batches are cut while their reports are under
// way: by preemption, by a GPU that leaves, fails, or fails and joins again
// before that is known.
func TestEachRequestCountsOnce(t *testing.T) {
	for _, policy := range scenario.Policies() {
		t.Run(policy, func(t *testing.T) {
			cfg := config(t, policy, 4, 3000, 2*ms)
			cfg.Detection = 3 * ms
			for i := range 24 {
				at, gpu := mono.Time(200*ms+mono.Dur(i)*61*ms), wire.GPUID(i%4)
				kind, back := sim.Leave, 7*ms
				switch i % 3 {
				case 1:
					kind = sim.Fail
				case 2:
					kind, back = sim.Fail, 2*ms
				}
				cfg.Events = append(cfg.Events, sim.GPUEvent{At: at, GPU: gpu, Kind: kind}, sim.GPUEvent{At: at.Add(back), GPU: gpu, Kind: sim.Join})
			}
			r, kept, dropped, lost := watched(t, cfg)
			counts(t, r)
			if r.All.Served == 0 || lost < 12 || r.Lost == 0 {
				t.Errorf("%d served, %d batches lost, %v of GPU time: the run is not what it should be", r.All.Served, lost, r.Lost)
			}
			for id, n := range kept {
				if n+dropped[id] != 1 {
					t.Fatalf("request %d: %d batches that count, %d drops", id, n, dropped[id])
				}
			}
		})
	}
}

// TestPreemptedAfterItsEnd: Shepherd preempts batches that have ended, since it
// has no report of them yet.
func TestPreemptedAfterItsEnd(t *testing.T) {
	r, kept, dropped, lost := watched(t, config(t, "shepherd", 4, 3000, 2*ms))
	counts(t, r)
	for id, n := range kept {
		if n+dropped[id] != 1 {
			t.Fatalf("request %d: %d batches that count, %d drops", id, n, dropped[id])
		}
	}
	if lost < 50 {
		t.Errorf("only %d batches were preempted", lost)
	}
}

// TestJoinBeforeDetection: the GPU is back before its failure is known, and
// stays. Its second life serves as if nothing had been; the late message does
// not end it.
func TestJoinBeforeDetection(t *testing.T) {
	for _, policy := range scenario.Policies() {
		cfg := config(t, policy, 1, 60, 0)
		cfg.Detection = 500 * ms
		cfg.Events = []sim.GPUEvent{{At: mono.Time(200 * ms), Kind: sim.Fail}, {At: mono.Time(230 * ms), Kind: sim.Join}}
		r, _, _, _ := watched(t, cfg)
		counts(t, r)
		// Some are lost: those of 30 ms, and what waited at the join. Without the
		// second life 80 would be.
		if bad := r.All.Bad(); bad > 25 || r.All.Arrived < 90 {
			t.Errorf("%s: %d bad of %d", policy, bad, r.All.Arrived)
		}
	}
}

// TestFailureIsDetected: without a join, the message ends the life.
func TestFailureIsDetected(t *testing.T) {
	cfg := config(t, "eager", 1, 60, 0)
	cfg.Detection = 500 * ms
	cfg.Events = []sim.GPUEvent{{At: mono.Time(200 * ms), Kind: sim.Fail}}
	r, _, dropped, _ := watched(t, cfg)
	counts(t, r)
	if n := r.All.Dropped[wire.ReasonUnavailable]; n < 60 || len(dropped) == 0 {
		t.Errorf("%d requests dropped because no GPU is there, after %v", n, cfg.Detection)
	}
}
