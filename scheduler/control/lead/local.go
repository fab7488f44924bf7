package lead

import (
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// locals are the models that backends have of their own folders, by type, and the GPUs that
// have any. A plan is made with those of its instant in mind.
type locals struct {
	models map[string]map[string]bool // keys, by device type
	gpus   map[string]int
	all    map[string]int // GPUs in service, with or without
}

// locals counts them, of GPUs in service. What people have added is not among them: a backend
// that comes back with it is in the plan. One that has failed nobody serves until its files are
// other ones: it is no part of a plan.
func (l *Lead) localsNow() locals {
	n := locals{models: map[string]map[string]bool{}, gpus: map[string]int{}, all: l.world.count()}
	for _, name := range names(l.world.gpus) {
		g := l.world.gpus[name]
		if g.local == 0 || g.planned().State == plan.Out || l.world.leaves(name) {
			continue
		}
		t, some := g.facts.DeviceType, false
		all := n.models[t]
		if all == nil {
			all = map[string]bool{}
			n.models[t] = all
		}
		for _, key := range names(g.stock) {
			if s := g.stock[key]; s.Local && s.State != catalog.StateFailed && l.version(key) == nil {
				all[key], some = true, true
			}
		}
		if some {
			n.gpus[t]++
		}
	}
	return n
}

// know reports whether a plan that was made with these in mind knows all of now. GPUs that
// went may come back: what they had stays in the plan until GPUs have settled.
func (then *locals) know(now *locals) bool {
	for _, t := range names(now.gpus) {
		if now.gpus[t] > then.gpus[t] {
			return false
		}
		for _, key := range names(now.models[t]) {
			if !then.models[t][key] {
				return false
			}
		}
	}
	for _, t := range names(then.models) {
		if (now.gpus[t] == then.gpus[t] || now.all[t] >= then.all[t]) && len(now.models[t]) < len(then.models[t]) {
			return false // a folder went, not its GPUs
		}
	}
	return true
}

// recount finds out whether backends have brought models, or taken them back, that the plan
// does not know of. Until the next plan does, soon, the roll-out rests: it would take from
// them what it does not know.
func (l *Lead) recount(now mono.Time) {
	n := l.localsNow()
	if l.unaware = !l.locals.know(&n); l.unaware {
		l.want(now, causeCatalogue)
	}
}
