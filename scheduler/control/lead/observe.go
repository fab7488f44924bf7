package lead

import (
	"cmp"
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// observe tells what became of the versions of which something has changed.
func (l *Lead) observe(out *Effects) {
	if len(l.dirty) == 0 {
		return
	}
	failed := map[string]string{}
	if l.rollout != nil && l.phase == plan.Marked { // while it goes on nothing is told of them
		for _, p := range l.rollout.Problems() {
			if p.Model != "" {
				failed[p.Model] = p.Reason
			}
		}
	}
	for _, key := range names(l.dirty) {
		before, told := l.told[key]
		if told && !l.world.whole && !(l.version(key) == nil && nothingOf(before)) {
			continue // what it was is the best guess, until the scheduler is there again
		}
		delete(l.dirty, key)
		o, known := l.observation(key, failed[key])
		if !known {
			l.giveUp(key)
		}
		switch {
		case !known && told:
			delete(l.told, key)
			out.Gone = append(out.Gone, before)
		case known && (!told || o != before):
			l.told[key] = o
			out.Observed = append(out.Observed, o)
		}
	}
}

// nothingOf reports whether no backend had anything of a version, as was told of it last.
func nothingOf(o schema.Observation) bool {
	return (o.State == schema.Waiting || o.State == schema.Idle) && o.GPUs == 0
}

// giveUp forgets a version that nobody wants or has: another may come under its name.
func (l *Lead) giveUp(key string) {
	delete(l.world.about, key)
	delete(l.inForce, key)
	delete(l.failed.versions, key)
	delete(l.before, key)
	delete(l.files, key)
	delete(l.renew, key)
}

// observation is what there is to say of a version; false: nobody wants or has it.
func (l *Lead) observation(key, problem string) (schema.Observation, bool) {
	name, number := splitKey(key)
	o := schema.Observation{Model: name, Version: number, State: schema.Waiting}
	v := l.version(key)
	if f, known := l.files[key]; known {
		o.Digest, o.Bytes, o.Files = string(f.digest), f.bytes, f.of
	}
	holders := l.world.holders[key]
	m, routed := l.world.models[key]
	if v == nil && len(holders) == 0 && !routed {
		return o, false
	}
	var worst catalog.Stocked
	nowhere, home, outdated := "", "", ""
	if v != nil && v.wanted && !routed && !l.localOnly(key) {
		nowhere, home = l.whyNowhere(v), l.destined(v)
	}
	for _, g := range holders {
		s := g.stock[key]
		outdated = cmp.Or(outdated, g.outdated(&s))
		switch s.State {
		case catalog.StateReady:
			o.GPUs++
		case catalog.StateFailed:
			if v != nil && !v.mayBeOn(g.facts.DeviceType) || home != "" && home != g.facts.DeviceType {
				continue // of before its device types were changed, or another one is tried
			}
			worst = s
			worst.Error = g.facts.Name + ": " + s.Error
		default:
			if worst.State != catalog.StateFailed {
				worst = s
			}
		}
	}
	if routed {
		o.State, o.SubCluster = schema.Serving, subCluster(m.DeviceType, m.In)
		o.Reason = l.remark(key, v, m, outdated)
		return o, true
	}
	switch {
	case (v == nil || !v.wanted) && !l.localOnly(key):
		o.State = schema.Idle
		if len(holders) > 0 {
			o.State = schema.Unloading
		}
	case nowhere != "" && (worst.State == "" || worst.State == catalog.StateFailed):
		o.State, o.Reason = schema.Failed, cut(nowhere)
	case worst.State == catalog.StateFailed:
		o.State, o.Reason = schema.Failed, cut(worst.Error)
	case l.phase == plan.Marked && problem != "" && (home == "" || home == l.homeType(key)):
		o.State, o.Reason = schema.Failed, cut(problem)
	case worst.State == catalog.StateFetching:
		o.State, o.Done, o.Total = schema.Fetching, worst.Done, worst.Total
	case worst.State == catalog.StateLoading:
		o.State = schema.Loading
	case worst.State == catalog.StateMeasuring:
		o.State = schema.Measuring
	default:
		o.Reason = l.waits(v)
	}
	if o.State == schema.Failed {
		o.Tries, o.Next = l.tried(key)
	}
	return o, true
}

// remark is what there is to say of a version that is served; "": nothing.
func (l *Lead) remark(key string, v *version, m catalog.ModelFacts, outdated string) string {
	a := l.world.aboutOf(key, m.DeviceType)
	switch {
	case v != nil && !v.wanted:
		return "until another version is served"
	case outdated != "":
		return cut(outdated)
	case a.spec != nil:
		return cut(servedAs(a.spec, m.Set).Infeasible())
	}
	return ""
}

// outdated says that a GPU serves files of a model that have changed since, and why not those; "": that is not so.
func (g *gpu) outdated(s *catalog.Stocked) string {
	if s.Outdated == "" {
		return ""
	}
	return "its files have changed, and what was served goes on, as they cannot be served: " + g.facts.Name + ": " + s.Outdated
}

// servedAs is a model as backends have it, with the settings that orders have put in force.
func servedAs(spec *catalog.ModelSpec, set *catalog.Settings) *catalog.ModelSpec {
	if set == nil || set.SLO == nil {
		return spec
	}
	with := *spec
	with.SLO = mono.Dur(*set.SLO)
	return &with
}

// waits is what a version waits for.
func (l *Lead) waits(v *version) string {
	switch {
	case v == nil:
		return "for all GPUs of its type to have it" // of a backend's own folder
	case !l.world.whole:
		return "for a scheduler"
	case l.renew[v.key]:
		return "for its files of before to be unloaded"
	case len(l.world.gpus) == 0:
		return "for a GPU"
	case l.typeOf(v, l.open()) == "":
		return cut(fmt.Sprintf("for a GPU of the types %v; there are %v", v.settings.DeviceTypes, l.open()))
	}
	if t := l.destined(v); l.noPlan[t] != "" && l.homeType(v.key) == "" {
		return cut("for a plan; device type " + t + ": " + l.noPlan[t])
	}
	return "for its turn"
}
