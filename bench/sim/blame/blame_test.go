package blame

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestBlocked: of two GPUs both run from 10 to 20, so whoever could have started
// within that alone was blocked.
func TestBlocked(t *testing.T) {
	g := gatherer{batches: []batch{{0, 0, 20}, {1, 10, 30}, {1, 20, 25}, {0, 25, 30}}}
	for _, c := range []struct {
		from, to mono.Time
		blocked  float64
	}{{12, 18, 1}, {5, 15, 0}, {22, 28, 1}, {10, 30, 1}, {10, 31, 0}, {40, 50, 0}, {0, 9, 0}} {
		g.lost = []lost{{1, c.from, c.to}, {0, 12, 18}}
		if got := g.blocked(1, 2); got != c.blocked {
			t.Errorf("from %d to %d: %g, want %g", c.from, c.to, got, c.blocked)
		}
	}
	if got := g.behind(1); got != 20 {
		t.Errorf("behind %v", got)
	}
}

// TestCountedSpan: the requests that are blamed are those that the result counts as bad, neither
// those of the warm-up nor of the tail, and a wired run's by when the answer is back.
func TestCountedSpan(t *testing.T) {
	policy, err := scenario.PolicyOf("eager")
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Linear(mono.Millisecond, 5*mono.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	for name, network := range map[string]sim.Network{"no network": {}, "a network": {Ctrl: sim.TCPLike()}, "a bound": {Ctrl: sim.TCPLike(), Bound: batching.Delay{Ctrl: 4 * mono.Millisecond}}} {
		cfg := &sim.Config{Models: []sim.Model{{Profile: p, SLO: mono.FromMillis(20), Stream: workload.Stream{Process: workload.Poisson, Rate: 1500}}}, GPUs: 1,
			Warmup: 2 * mono.Second, Duration: mono.Second, Seed: 1, NewPolicy: policy.New, Network: network}
		g := newGatherer(cfg)
		cfg.Observer = g.observer()
		r, err := sim.Run(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(len(g.lost)); n != r.All.Bad() || n < 100 || r.All.Late == 0 && name != "no network" {
			t.Errorf("%s: %d are blamed, %d are bad: %+v", name, n, r.All.Bad(), r.All)
		}
	}
}

// TestRun: a model whose batches fill the only GPU costs the other, whose SLO is
// shorter than they are, its requests: blocked, nearly all of them.
func TestRun(t *testing.T) {
	model := func(alpha, beta, slo, rate float64) sim.Model {
		p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), 64)
		if err != nil {
			t.Fatal(err)
		}
		return sim.Model{Profile: p, SLO: mono.FromMillis(slo), Stream: workload.Stream{Process: workload.Poisson, Rate: rate}}
	}
	policy, err := scenario.PolicyOf("eager")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &sim.Config{Models: []sim.Model{model(1, 40, 1000, 15), model(0.5, 0.5, 5, 5)}, GPUs: 1, Duration: 20 * mono.Second, Seed: 1, NewPolicy: policy.New}
	b, err := Run(cfg, nil)
	if err != nil || b.Model != 1 || b.Failing != 1 || b.ModelBad < 0.2 || b.Blocked < 0.99 || b.Longest < mono.FromMillis(41) {
		t.Errorf("%+v, %v, want model 1 blocked by the batches of model 0", b, err)
	}
	for _, want := range []string{"1 of 2 models", "number 1, l(1) 1 ms, SLO 5 ms", "no GPU was free", "longest batch of another"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q lacks %q", b, want)
		}
	}
}
