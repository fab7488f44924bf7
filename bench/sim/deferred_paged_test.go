package sim_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/bench/policy/clockwork"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// deferring is cfg under deferred batch scheduling with pages.
func deferring(cfg *sim.Config, opts deferred.PagedOptions) *sim.Config {
	cfg.NewPolicy = func(c policy.Config) policy.Scheduler { return deferred.NewPaged(c, opts) }
	return cfg
}

// The rules of package policy, while GPUs fail and come back, the network delays and lengths
// are not what was planned; and nothing waits or runs at the end that nobody knows of.
func TestDeferredPagedKeepsTheRules(t *testing.T) {
	for _, rule := range []residency.Rule{residency.BySaving, residency.ByPriority, residency.ByPriorityCode} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("rule=%d,seed=%d", rule, seed), func(t *testing.T) {
				set := batching.Setting{}
				if seed%2 == 1 {
					set = batching.Setting{Haste: 8, Alone: true}
				}
				cfg := deferring(pagedConfig(60, 3, 100, 300*float64(1+seed), clockwork.Whole()), deferred.PagedOptions{Setting: set, Policy: batching.Policy(seed / 3),
					Residency: residency.Config{Rule: rule}})
				cfg.Seed = seed
				rough(cfg)
				r := checked(t, cfg)
				if r.Loads.Done == 0 || r.Loads.Unloads == 0 || r.All.Cold == 0 || r.All.BadRate() > 0.6 {
					t.Errorf("%+v, bad rate %g, %d cold", r.Loads, r.All.BadRate(), r.All.Cold)
				}
				s := r.Scheduler.(*deferred.Paged)
				for id := range cfg.Models {
					if d, n := s.Residency().Demand(wire.ModelID(id)); d != 0 || n != 0 {
						t.Errorf("model %d: %d requests of %v wait at the end, by what residency knows", id, n, d)
					}
				}
			})
		}
	}
}

// Where every GPU holds every model it decides, deferred and without leads, what deferred decides: each batch is the same, below the
// peak and beyond it, with the same GPU.
func TestDeferredPagedWithRoomIsDeferred(t *testing.T) {
	const models, gpus = 6, 4
	for _, rate := range []float64{500, 2000, 6000} {
		for _, set := range []batching.Setting{{}, {ByLatest: true}, {Haste: 8}, {Haste: batching.HasteAll, Alone: true}, {Cap: 80}} {
			var logs [2]bytes.Buffer
			for i := range logs {
				cfg := deferring(pagedConfig(models, gpus, 1376, rate, clockwork.Whole()), deferred.PagedOptions{Setting: set, Deferred: true, NoLead: true, NoCrowd: true})
				cfg.Duration = mono.Second
				for range gpus {
					cfg.Paging.Held = append(cfg.Paging.Held, []wire.ModelID{0, 1, 2, 3, 4, 5})
				}
				if i == 1 {
					cfg.Paging = sim.Paging{}
					cfg.NewPolicy = func(c policy.Config) policy.Scheduler { return deferred.New(c, deferred.Options{Setting: set}) }
				}
				cfg.Network.Ctrl, cfg.Network.Data = sim.RDMALike(), sim.RDMALike()
				cfg.Network.Bound.Ctrl, cfg.Network.Bound.Data = cfg.Network.Ctrl.P9999(), cfg.Network.Data.P9999()
				cfg.Jitter.Errors = sim.InferLike()
				cfg.Observer.Executed = func(e *sim.Execution) { fmt.Fprintln(&logs[i], logged(e)) }
				checked(t, cfg)
			}
			if logs[0].Len() < 1000 || !bytes.Equal(logs[0].Bytes(), logs[1].Bytes()) {
				t.Errorf("%v requests/s, setting %v: the batches are not those of deferred", rate, set)
			}
		}
	}
}

// logged is a batch without what the two tell apart and decides nothing: whose counts a request is in.
func logged(e *sim.Execution) sim.Execution {
	k := *e
	k.Requests = slices.Clone(k.Requests)
	for i := range k.Requests {
		k.Requests[i].Model = 0
	}
	return k
}

// A calm load of more models than there is room for: all is served, though much is cold.
func TestDeferredPagedServesCold(t *testing.T) {
	r := checked(t, deferring(pagedConfig(200, 2, 400, 100, clockwork.Whole()), deferred.PagedOptions{}))
	if r.All.BadRate() > 0.01 || float64(r.All.Cold) < 0.2*float64(r.All.Arrived) {
		t.Errorf("bad rate %g, %d of %d cold", r.All.BadRate(), r.All.Cold, r.All.Arrived)
	}
}

// Where loads take as long as requests have, none is in time for the request that it is ordered for. All that come later
// are served, by ours and by Clockwork's.
func TestPagedLoadsForThoseToCome(t *testing.T) {
	for _, ours := range []bool{true, false} {
		cfg := pagedConfig(10, 2, 1376, 200, clockwork.Whole())
		if ours {
			deferring(cfg, deferred.PagedOptions{})
		}
		cfg.Warmup = 2 * mono.Second
		for i := range cfg.Models {
			cfg.Models[i].SLO, cfg.Models[i].LoadTime = 60*ms, 60*ms
		}
		if r := checked(t, cfg); r.All.Arrived < 500 || r.All.BadRate() > 0.02 {
			t.Errorf("ours %v: bad rate %g of %d, %d cold", ours, r.All.BadRate(), r.All.Arrived, r.All.Cold)
		}
	}
}

// What no load can save is told so at once, with the reason cold.
func TestDeferredPagedDropsCold(t *testing.T) {
	cfg := deferring(pagedConfig(200, 1, 100, 600, clockwork.Whole()), deferred.PagedOptions{})
	waited := mono.Dur(0)
	cold := 0
	cfg.Observer.Drop = func(now mono.Time, d *batching.Drop) {
		if d.Reason == wire.ReasonCold {
			cold++
			waited += now.Sub(d.Request.Arrival)
			if now > d.Request.Deadline {
				t.Errorf("dropped at %v, after its deadline %v", now, d.Request.Deadline)
			}
		}
	}
	r := checked(t, cfg)
	if cold < 100 || r.All.Dropped[wire.ReasonCold] == 0 {
		t.Errorf("%d were dropped as cold, of %+v", cold, r.All)
	}
	t.Logf("%d cold of %d, after %v on average", cold, r.All.Arrived, waited/mono.Dur(max(1, cold)))
}
