package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/bench/policy/clockwork"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// asked is a Source: a request each gap of one model after the other.
type asked struct {
	gap, first  mono.Dur
	models, all int
	n           int
}

func (a *asked) Next() (mono.Time, int, bool) {
	if a.n == a.all {
		return mono.Never, 0, false
	}
	at, model := mono.Time(a.first+mono.Dur(a.n)*a.gap), a.n%a.models
	a.n++
	return at, model, true
}

// ofResNet50 has so many ResNet50 of 7 pages on GPUs with room for so many.
func ofResNet50(models, gpus, room int, slo mono.Dur, source sim.Source) *sim.Config {
	cfg := pagedConfig(models, gpus, 7*room, 1, clockwork.Whole())
	all := zoo.V100()
	w := all[slices.IndexFunc(all, func(w zoo.Weighted) bool { return w.Name == "resnet50_v1" })]
	for i := range cfg.Models {
		cfg.Models[i].Profile, cfg.Models[i].SLO, cfg.Models[i].Pages, cfg.Models[i].LoadTime = w.Profile(), slo, w.Pages(zoo.PageSize), w.Transfer
	}
	cfg.Source = source
	return cfg
}

// More models are asked than fit, at once or one after the other, twice: nothing waits that keeps pages from others, so all are
// served, and no model is loaded more often than it is asked for. (Deferred, with nothing done about pages: 3 to 53 of 60.)
func TestMoreModelsAskedThanFit(t *testing.T) {
	for _, only := range []bool{false, true} {
		for _, gap := range []mono.Dur{0, 5 * ms, 10 * ms, 40 * ms} {
			t.Run(fmt.Sprintf("deferred=%v,gap=%v", only, gap), func(t *testing.T) {
				cfg := ofResNet50(30, 1, 10, 500*ms, &asked{gap: gap, first: ms, models: 30, all: 60})
				if r := checked(t, deferring(cfg, deferred.PagedOptions{Deferred: only})); r.All.Served != 60 || r.Loads.Done > 60 {
					t.Errorf("%d of 60 served, %d loads", r.All.Served, r.Loads.Done)
				}
			})
		}
	}
}

// Models that are there, asked at one instant, are served as fast as the GPUs are.
func TestManyModelsAtOneInstant(t *testing.T) {
	for _, slo := range []mono.Dur{20 * ms, 100 * ms} {
		cfg := ofResNet50(8, 2, 10, slo, &asked{first: ms, models: 8, all: 8})
		cfg.Paging.Held = [][]wire.ModelID{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}
		if r := checked(t, deferring(cfg, deferred.PagedOptions{})); r.All.Served != 8 || r.Loads.Done != 0 {
			t.Errorf("SLO %v: %d of 8 served, %d loads", slo, r.All.Served, r.Loads.Done)
		}
	}
}
