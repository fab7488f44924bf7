package lead

import (
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// locals are the models that backends have of their own folders, by type, and the GPUs that
// have any. A plan is made with those of its instant in mind.
type locals struct {
	models map[kind]bool
	gpus   map[string]int // by device type
}

// locals counts them, of GPUs in service.
func (w *world) locals() locals {
	n := locals{models: map[kind]bool{}, gpus: map[string]int{}}
	for _, name := range names(w.gpus) {
		g := w.gpus[name]
		if g.local == 0 || g.planned().State == plan.Out {
			continue
		}
		n.gpus[g.facts.DeviceType]++
		for key, s := range g.stock {
			if s.Local {
				n.models[kind{key, g.facts.DeviceType}] = true
			}
		}
	}
	return n
}

// know reports whether a plan that was made with these in mind knows all of now. GPUs that
// went may come back: what they had stays in the plan until GPUs have settled.
func (then *locals) know(now *locals) bool {
	for t, n := range now.gpus {
		if n > then.gpus[t] {
			return false
		}
	}
	for k := range now.models {
		if !then.models[k] {
			return false
		}
	}
	for k := range then.models {
		if !now.models[k] && now.gpus[k.deviceType] == then.gpus[k.deviceType] {
			return false // its folder went, not its GPUs
		}
	}
	return true
}

// recount finds out whether backends have brought models, or taken them back, that the plan
// does not know of. Until the next plan does, soon, the roll-out rests: it would take from
// them what it does not know.
func (l *Lead) recount(now mono.Time) {
	n := l.world.locals()
	if l.unaware = !l.locals.know(&n); l.unaware {
		l.want(now, causeCatalogue)
	}
}
