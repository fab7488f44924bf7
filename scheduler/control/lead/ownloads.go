package lead

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A model of a backend's own folder that was not added (symphony model add) is loaded, and measured, by its backend alone. A step that
// loads it needs no order: it is done when the backend says that the model is ready, and has failed when the backend
// says that. A model that no backend has, or is about to have, fails at once: the next plan is without it.

// ownLoad is a step that a backend carries out by itself.
type ownLoad struct {
	step plan.Step
	of   *plan.Rollout
}

// awaitOwn takes a step that loads a model that nothing has added; false: its backend does not load it.
func (l *Lead) awaitOwn(s plan.Step) bool {
	switch l.stockOf(s).State {
	case catalog.StateFetching, catalog.StateLoading, catalog.StateMeasuring, catalog.StateReady:
		l.own = append(l.own, ownLoad{s, l.rollout})
		return true
	}
	return false
}

// settleOwn ends the steps of which the backends have said how they ended. One that takes too long is ended by the
// roll-out, as all are.
func (l *Lead) settleOwn(now mono.Time) {
	l.own = slices.DeleteFunc(l.own, func(o ownLoad) bool {
		if o.of != l.rollout {
			return true
		}
		switch s := l.stockOf(o.step); s.State {
		case catalog.StateFetching, catalog.StateLoading, catalog.StateMeasuring:
			return false
		case catalog.StateReady:
			l.rollout.Done(now, o.step.ID)
		case catalog.StateFailed:
			l.rollout.Failed(now, o.step.ID, s.Error)
		default:
			l.rollout.Failed(now, o.step.ID, "its backend does not have it any more")
		}
		return true
	})
}

// stockOf is what a step's GPU has of its model, of its backend's own folder.
func (l *Lead) stockOf(s plan.Step) catalog.Stocked {
	if g := l.world.gpus[s.GPU]; g != nil {
		if has := g.stock[s.Models[0]]; has.Local {
			return has
		}
	}
	return catalog.Stocked{}
}
