package sim_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/bench/policy/clockwork"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pagedConfig has n models of Clockwork's table on GPUs with room for some of them.
func pagedConfig(n, gpus, pages int, rate float64, opts clockwork.PagedOptions) *sim.Config {
	cfg := &sim.Config{GPUs: gpus, Duration: 4 * mono.Second, Paging: sim.Paging{Pages: pages}, Seed: 5,
		NewPolicy: func(c policy.Config) policy.Scheduler { return clockwork.NewPaged(c, opts) }}
	varieties := zoo.V100Varieties()
	for i := range n {
		w := varieties[i*7%len(varieties)]
		cfg.Models = append(cfg.Models, sim.Model{Name: fmt.Sprint(w.Name, i), Profile: w.Profile(), SLO: 100 * ms, Pages: w.Pages(zoo.PageSize), LoadTime: w.Transfer,
			Stream: workload.Stream{Process: workload.Poisson, Rate: 2 * rate * float64(i+1) / float64(n*(n+1))}})
	}
	return cfg
}

// checked runs cfg; each request is to be answered exactly once, and nothing that a policy
// must not do may happen: Run says so.
func checked(t *testing.T, cfg *sim.Config) *sim.Result {
	t.Helper()
	r, err := sim.Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	ways := r.All.Served + r.All.Late
	for _, n := range r.All.Dropped {
		ways += n
	}
	if ways != r.All.Arrived {
		t.Errorf("%d requests arrived, %d were answered or dropped", r.All.Arrived, ways)
	}
	return r
}

// rough has GPUs fail and come back, the network delay, and lengths other than what was planned.
func rough(cfg *sim.Config) {
	cfg.Network.Ctrl, cfg.Network.Data = sim.RDMALike(), sim.RDMALike()
	cfg.Network.Bound.Ctrl, cfg.Network.Bound.Data = cfg.Network.Ctrl.P9999(), cfg.Network.Data.P9999()
	cfg.Jitter.Errors, cfg.Paging.LoadErrors = sim.InferLike(), sim.LoadLike()
	cfg.Detection = 20 * ms
	cfg.Events = []sim.GPUEvent{{At: mono.Time(900 * ms), GPU: 1, Kind: sim.Fail}, {At: mono.Time(1500 * ms), GPU: 1, Kind: sim.Join},
		{At: mono.Time(2000 * ms), GPU: 0, Kind: sim.Leave}, {At: mono.Time(2100 * ms), GPU: 0, Kind: sim.Join},
		{At: mono.Time(2500 * ms), GPU: 2, Kind: sim.Fail}, {At: mono.Time(2505 * ms), GPU: 2, Kind: sim.Join}}
}

// All readings keep the rules while GPUs fail and come back, the network delays and lengths
// are not what was planned.
func TestPagedKeepsTheRules(t *testing.T) {
	for _, sizes := range []clockwork.BatchSizes{clockwork.Arbitrary, clockwork.PowersOfTwo} {
		for _, heads := range []clockwork.Heads{clockwork.OldestRequest, clockwork.EveryRequest} {
			for _, rule := range []residency.Rule{residency.BySaving, residency.ByPriority, residency.ByPriorityCode} {
				t.Run(fmt.Sprintf("sizes=%d,heads=%d,rule=%d", sizes, heads, rule), func(t *testing.T) {
					cfg := pagedConfig(60, 3, 100, 500, clockwork.PagedOptions{BatchSizes: sizes, Heads: heads, Rule: rule, Reserve: 5 * ms})
					rough(cfg)
					r := checked(t, cfg)
					if r.Loads.Done == 0 || r.Loads.Unloads == 0 || r.All.Cold == 0 || r.All.BadRate() > 0.5 {
						t.Errorf("%+v, bad rate %g, %d cold", r.Loads, r.All.BadRate(), r.All.Cold)
					}
				})
			}
		}
	}
}

// Where everything fits and is there, nothing is loaded and nothing is cold.
func TestPagedWithRoom(t *testing.T) {
	cfg := pagedConfig(10, 2, 1376, 500, clockwork.Whole())
	all := []wire.ModelID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	cfg.Paging.Held = [][]wire.ModelID{all, all}
	r := checked(t, cfg)
	if r.All.BadRate() > 0 || r.All.Cold != 0 || r.Loads.Done != 0 || r.Loads.Resident != 20 {
		t.Errorf("bad rate %g, %d cold, %+v", r.All.BadRate(), r.All.Cold, r.Loads)
	}
}

// A calm load of more models than there is room for: all is served, though much is cold.
func TestPagedServesCold(t *testing.T) {
	r := checked(t, pagedConfig(200, 2, 400, 100, clockwork.Whole()))
	if r.All.BadRate() > 0.01 || float64(r.All.Cold) < 0.2*float64(r.All.Arrived) {
		t.Errorf("bad rate %g, %d of %d cold", r.All.BadRate(), r.All.Cold, r.All.Arrived)
	}
}

// Twice the same bytes.
func TestPagedRepeats(t *testing.T) {
	run := func() []byte {
		var b bytes.Buffer
		cfg := pagedConfig(100, 2, 200, 400, clockwork.Whole())
		cfg.Jitter.Errors, cfg.Paging.LoadErrors = sim.InferLike(), sim.LoadLike()
		cfg.Observer.Executed = func(e *sim.Execution) { fmt.Fprintln(&b, *e) }
		cfg.Observer.Copied = func(c *sim.Copy) { fmt.Fprintln(&b, *c) }
		checked(t, cfg)
		return b.Bytes()
	}
	if first := run(); len(first) < 1000 || !bytes.Equal(first, run()) {
		t.Error("two runs of one seed differ")
	}
}
