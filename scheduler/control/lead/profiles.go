package lead

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Which profiles are known. A backend measures a model that comes without one as part of loading
// it, so roll-outs load it on one GPU first, which has nothing else to do, and the others are
// given what was measured there. An order to measure is needed only where a load is done and
// nobody says what was measured.

// profiled reports whether a model need not be measured on a device type: it was, now or before,
// or devices of the type have no need to, as emulated ones.
func (l *Lead) profiled(key, deviceType string) bool {
	return !l.world.measures(deviceType) || l.profile(key, deviceType) != nil
}

// profile is what is known of a model's latencies on a device type; nil: nothing. What was
// stored is of the files that have the digest, and of no others.
func (l *Lead) profile(key, deviceType string) *catalog.Profile {
	a := l.world.aboutOf(key, deviceType)
	if a.spec != nil {
		p := a.spec.Profile
		return &p
	}
	v := l.version(key)
	if a.stored == nil || v == nil || !l.world.measures(deviceType) {
		return nil
	}
	if digest, _ := l.filesOf(v); digest == "" || digest != a.digest {
		return nil
	}
	return a.stored
}

// stores notes what was measured of a version on a device type.
func (a *about) stores(m *schema.Measured) {
	a.static, a.dynamic = max(a.static, m.Static), max(a.dynamic, m.Dynamic)
	p := m.Profile
	a.stored, a.digest = &p, catalog.Digest(m.Digest)
}

// unsaid reports whether a load is done whose profile the facts have not said yet: they come a
// moment later. Until then the others cannot be given it, and would measure it as well.
func (l *Lead) unsaid(s plan.Step) bool {
	g := l.world.gpus[s.GPU]
	return s.Kind == plan.Load && g != nil && slices.ContainsFunc(s.Models, func(key string) bool { return !l.profiled(key, g.facts.DeviceType) })
}

// said hands in the loads whose profiles have been said since.
func (l *Lead) said(now mono.Time, out *Effects) {
	waiting := l.waiting
	l.waiting = nil
	for _, id := range waiting {
		switch f, there := l.orders[id]; {
		case !there || f.of != l.rollout:
		case l.unsaid(f.step):
			l.waiting = append(l.waiting, id)
		default:
			delete(l.orders, id)
			l.stepDone(now, f, out)
		}
	}
}

// measures reports whether GPUs of a type measure what has no profile.
func (w *world) measures(deviceType string) bool {
	w.types()
	return w.measuring[deviceType]
}

// idle reports whether GPUs of a sub-cluster have nothing to do: no requests have come for some
// time, or none can. They may measure.
func (w *world) idle(name string) bool {
	s, there := w.subs[name]
	return there && (s.Models == 0 || s.Rate == 0)
}

// takeSub learns what became of a sub-cluster.
func (w *world) takeSub(s catalog.SubClusterFacts) {
	name := subCluster(s.DeviceType, s.Name)
	idle := w.idle(name)
	if w.subs[name] = s; s.GPUs == 0 && s.Models == 0 {
		delete(w.subs, name)
	}
	if idle == w.idle(name) || !w.measures(s.DeviceType) {
		return
	}
	for _, gpu := range names(w.gpus) {
		if g := w.gpus[gpu]; g.facts.DeviceType == s.DeviceType && g.facts.In == s.Name {
			w.changed[gpu] = true
		}
	}
}

// retell has the roll-out told again of the models that a plan has where the one before had them
// not, or on GPUs of another type: what there is to be known of them there it does not know.
func (l *Lead) retell(before, p *plan.Plan) {
	types := map[string]string{}
	for i := range before.SubClusters {
		for _, key := range before.SubClusters[i].Models {
			types[key] = before.SubClusters[i].DeviceType
		}
	}
	for i := range p.SubClusters {
		for _, key := range p.SubClusters[i].Models {
			if types[key] != p.SubClusters[i].DeviceType {
				l.world.moved[key] = true
			}
		}
	}
}

// typesChanged has that done where GPUs of another type have come, or measure now.
func (l *Lead) typesChanged(count map[string]int, measuring map[string]bool) {
	now := l.world.count()
	for _, t := range l.world.types() {
		if count[t] == 0 && now[t] > 0 || measuring[t] != l.world.measuring[t] {
			l.retell(&plan.Plan{}, &l.plan)
			return
		}
	}
}
