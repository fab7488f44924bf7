package lead

import (
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Preview is a plan that could be made now.
type Preview struct {
	Task  *Task
	Notes []string // once previewed: device types that no plan could be made of, which keep their part of the last one
	draft draft
}

// Preview begins one: its Task is to be solved, then Previewed says what the plan would be.
// Nothing of the Lead changes.
func (l *Lead) Preview() (*Preview, error) {
	if !l.world.whole {
		return nil, ErrNoScheduler
	}
	p := &Preview{draft: l.sketch()}
	p.Task = &Task{Parts: p.draft.parts}
	return p, nil
}

// Previewed is the plan of a Preview whose Task is solved.
func (l *Lead) Previewed(p *Preview) (plan.Plan, error) {
	p.draft.parts = p.Task.Parts
	why := unplanned(p.draft.parts)
	for _, t := range names(why) {
		p.Notes = append(p.Notes, "device type "+t+": "+why[t]+"; its part of the last plan goes on")
	}
	over := overfull(p.draft.parts)
	for _, t := range names(over) {
		p.Notes = append(p.Notes, "device type "+t+": "+over[t])
	}
	target := l.target(&p.draft)
	if l.byHand {
		target = l.amended(&p.draft, &target)
	}
	target.Epoch = l.next()
	return target, nil
}

// Plan is the last plan; Epoch 0: none was made yet.
func (l *Lead) Plan() plan.Plan { return l.plan }

// Steps are how many steps of the last plan's roll-out were ordered so far, and how many of them
// are done.
func (l *Lead) Steps() (epoch uint64, ordered, done int) { return l.plan.Epoch, l.flown, l.done }

// World is what a roll-out would begin with now. Of models that are nowhere yet it has the bytes of
// their files.
func (l *Lead) World() plan.Facts {
	f := l.all()
	for i := range f.Models {
		m := &f.Models[i]
		if v := l.version(m.Key); m.Static == 0 && v != nil {
			m.Static = v.source.Bytes
		}
	}
	return f
}

// Where is the sub-cluster, by plan's name, that a model's requests go to; "": nowhere.
func (l *Lead) Where(key string) string {
	m, there := l.world.models[key]
	if !there {
		return ""
	}
	return subCluster(m.DeviceType, m.In)
}

// Routed are the keys of all models that requests go to, in order.
func (l *Lead) Routed() []string { return names(l.world.models) }

// Now has a plan made at once, whatever called for none, and what failed tried again; a plan of people's
// own ends with it. While the scheduler is away that is so once it is back (ErrNoScheduler).
func (l *Lead) Now(now mono.Time) error {
	l.forgiveAll()
	l.due, l.cause, l.byHand = now, causeCatalogue, false // which is made while epochs are paused, too
	if !l.world.whole {
		return ErrNoScheduler
	}
	return nil
}

// Sketched is how many plans were begun, and Finished the last of them that came to an end: with a plan,
// or with none where nothing is to change.
func (l *Lead) Sketched() uint64 { return l.sketched }

// Finished: see Sketched.
func (l *Lead) Finished() uint64 { return l.finished }
