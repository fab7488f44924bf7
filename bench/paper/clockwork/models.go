package clockwork

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/policy/clockwork"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// system is a scheduler that every figure runs.
type system struct {
	name string // in plots and tables: package plot knows its beginning, and gives each its colour
	key  string // in the description of its jobs
	make sim.PolicyFactory
}

// Ours is the key of this project's, oursDeferred that of the same with a limited headroom: nothing is early.
const Ours, oursDeferred = "symphony", "symphony/deferred"

// systems are Clockwork's own and ours, in this order: `compare` divides the second by the first.
func systems() []system {
	return []system{
		{"Clockwork", "", func(c policy.Config) policy.Scheduler { return clockwork.NewPaged(c, clockwork.Whole()) }},
		{"Symphony", Ours, func(c policy.Config) policy.Scheduler { return deferred.NewPaged(c, deferred.PagedOptions{}) }},
	}
}

// factory is the system of that key.
func factory(key string) sim.PolicyFactory {
	if key == oursDeferred {
		return func(c policy.Config) policy.Scheduler {
			return deferred.NewPaged(c, deferred.PagedOptions{Deferred: true})
		}
	}
	all := systems()
	return all[max(0, slices.IndexFunc(all, func(s system) bool { return s.key == key }))].make
}

// seedFirst is the first seed of every figure.
const seedFirst = 11

// resnet50 is the model of sections 6.1 to 6.4: 7 pages, 8.33 ms to load.
func resnet50() (zoo.Weighted, error) {
	all := zoo.V100()
	i := slices.IndexFunc(all, func(w zoo.Weighted) bool { return w.Name == "resnet50_v1" })
	if i < 0 {
		return zoo.Weighted{}, fmt.Errorf("Table 1 has no resnet50_v1")
	}
	return all[i], nil
}

// model is one of the simulation's.
func model(w *zoo.Weighted, slo mono.Dur) sim.Model {
	return sim.Model{Name: w.Name, Profile: w.Profile(), SLO: slo, Pages: w.Pages(zoo.PageSize), LoadTime: w.Transfer}
}

// ResNets are n copies of the model.
func ResNets(n int, slo mono.Dur) ([]sim.Model, error) {
	w, err := resnet50()
	if err != nil {
		return nil, err
	}
	out := make([]sim.Model, n)
	for i := range out {
		out[i] = model(&w, slo)
	}
	return out, nil
}

// varieties are copies of each of the 61 models, in the order of their names.
func varieties(copies int, slo mono.Dur) []sim.Model {
	all := zoo.V100Varieties()
	slices.SortFunc(all, func(a, b zoo.Weighted) int { return strings.Compare(a.Name, b.Name) })
	var out []sim.Model
	for i := range all {
		m := model(&all[i], slo)
		for range copies {
			out = append(out, m)
		}
	}
	return out
}

// Cluster is a configuration, for the system of that key, of GPUs with Clockwork's memory.
func Cluster(key string, models []sim.Model, gpus int, source workload.Source, warmup, duration mono.Dur, seed uint64) *sim.Config {
	return &sim.Config{Models: models, GPUs: gpus, Source: source, Warmup: warmup, Duration: duration, NeedSpan: 60 * mono.Second,
		Paging: sim.Paging{Pages: zoo.V100Pages}, NewPolicy: factory(key), Seed: seed}
}

// everywhere has all models on all GPUs at the beginning.
func everywhere(models, gpus int) [][]wire.ModelID {
	all := make([]wire.ModelID, models)
	for i := range all {
		all[i] = wire.ModelID(i)
	}
	out := make([][]wire.ModelID, gpus)
	for i := range out {
		out[i] = all
	}
	return out
}
