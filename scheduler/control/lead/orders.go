package lead

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// flight is an order under way.
type flight struct {
	step  plan.Step
	of    *plan.Rollout // nil: an order of names, or of unloadOthers
	names []catalog.Name
	due   mono.Time // after which nobody waits for its outcome any more
	done  bool      // it has come: the facts are waited for
}

const (
	// namesWithin is how long an order of names may take.
	namesWithin = 10 * mono.Second
	// outcomeRest is how much later than the scheduler gives an order up its outcome may come.
	outcomeRest = 5 * mono.Second
)

// send has an order sent, and waits for its outcome for as long as it may take.
func (l *Lead) send(now mono.Time, o catalog.Order, f flight, out *Effects) {
	f.due = now.Add(o.Within).Add(outcomeRest)
	l.lapses = min(l.lapses, f.due)
	l.orders[o.ID] = f
	out.Orders = append(out.Orders, o)
}

// lapse gives up waiting for outcomes that do not come. The roll-out has given those of its steps
// up before, and tries again; what was not heard of names is told again.
func (l *Lead) lapse(now mono.Time, out *Effects) {
	if now < l.lapses {
		return
	}
	l.lapses = mono.Never
	for _, id := range slices.Sorted(maps.Keys(l.orders)) {
		f := l.orders[id]
		switch {
		case f.due > now:
			l.lapses = min(l.lapses, f.due)
			continue
		case f.done && f.of == l.rollout:
			l.stepDone(now, f, out)
		case f.of == nil && f.names != nil:
			l.namesOrdered(now, f.names, fmt.Sprintf("no outcome within %v", namesWithin+outcomeRest), out)
		}
		delete(l.orders, id)
	}
}

// stamp is the epoch that orders carry: the last plan's, or a later one that the scheduler has
// seen, of a controller that ended before it was stored. Orders of an older one are refused.
func (l *Lead) stamp() uint64 { return max(l.plan.Epoch, l.world.plan) }

// order is a step as the scheduler takes it.
func (l *Lead) order(s plan.Step) catalog.Order {
	o := catalog.Order{ID: l.orderID, Plan: l.stamp(), GPU: s.GPU, Keys: s.Models, Within: s.Within}
	switch s.Kind {
	case plan.Load:
		o.Kind, o.Keys = catalog.OrderLoad, nil
		for _, key := range s.Models {
			o.Sources = append(o.Sources, l.source(key, s.GPU))
		}
	case plan.Unload:
		o.Kind = catalog.OrderUnload
	case plan.Route:
		o.Kind = catalog.OrderRoute
		o.To, o.DeviceType = l.place(s.To)
	case plan.Drain:
		o.Kind = catalog.OrderDrain
	case plan.Seat:
		o.Kind = catalog.OrderSeat
		o.To, o.DeviceType = l.place(s.To)
	case plan.Measure:
		o.Kind = catalog.OrderMeasure
	case plan.Set:
		o.Kind = catalog.OrderSet
		slo, drop, most := int64(s.Settings.SLO), s.Settings.Drop, s.Settings.MaxBatch
		o.Settings = &catalog.Settings{SLO: &slo, MaxBatch: &most, DropPolicy: &drop}
	}
	return o
}

// place is a plan's sub-cluster as the scheduler names it.
func (l *Lead) place(to string) (name, deviceType string) {
	if to == "" {
		return catalog.Nowhere, ""
	}
	if t, unplanned := strings.CutPrefix(to, plan.Unplanned("")); unplanned {
		return "", t
	}
	if s := l.plan.Find(to); s != nil {
		return to, s.DeviceType
	}
	return to, ""
}

// source is where a model comes from, with what is known of it on the GPU's type.
func (l *Lead) source(key, gpu string) catalog.Source {
	v := l.version(key)
	if v == nil { // of a plan of people's own: it is on other GPUs, or the order fails and says so
		name, number := splitKey(key)
		return catalog.Source{Name: name, Version: number}
	}
	s := v.source
	s.Digest, s.Bytes = l.filesOf(v)
	if g := l.world.gpus[gpu]; g != nil {
		s.Profile = l.profile(key, g.facts.DeviceType)
	}
	return s
}

// version finds one that people have added; nil: there is none.
func (l *Lead) version(key string) *version {
	name, _ := splitKey(key)
	if k := l.known[name]; k != nil {
		return k.find(key)
	}
	return nil
}

// splitKey takes a key apart: a version has no slash.
func splitKey(key string) (name, version string) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return key, ""
	}
	return key[:i], key[i+1:]
}

// Outcome takes what came of an order.
func (l *Lead) Outcome(now mono.Time, o catalog.Outcome, out *Effects) {
	f, there := l.orders[o.ID]
	if !there {
		return
	}
	if o.Error == "" && f.of != nil && f.of == l.rollout && l.unsaid(f.step) {
		f.due, f.done = now.Add(outcomeRest), true
		l.orders[o.ID], l.waiting, l.lapses = f, append(l.waiting, o.ID), min(l.lapses, f.due)
		return
	}
	delete(l.orders, o.ID)
	if f.of == nil && f.names == nil {
		if o.Error != "" {
			out.Notes = append(out.Notes, "other files of a model could not be unloaded: "+o.Error)
		}
		return
	}
	if f.of == nil {
		l.namesOrdered(now, f.names, o.Error, out)
		return
	}
	if f.of != l.rollout {
		return
	}
	for _, key := range f.step.Models {
		l.dirty[key] = true
	}
	if o.Error != "" {
		l.rollout.Failed(now, f.step.ID, o.Error)
		if f.step.Kind == plan.Load {
			for _, key := range f.step.Models {
				l.notLoaded(now, key, f.step.GPU, o.Error)
			}
		}
		out.Notes = append(out.Notes, fmt.Sprintf("plan %d: %s failed: %s", l.plan.Epoch, f.step, o.Error))
		return
	}
	l.stepDone(now, f, out)
}

// stepDone hands in that a step was carried out.
func (l *Lead) stepDone(now mono.Time, f flight, out *Effects) {
	l.done++
	l.rollout.Done(now, f.step.ID)
	switch f.step.Kind {
	case plan.Set:
		for _, key := range f.step.Models {
			l.inForce[key] = *f.step.Settings
		}
	case plan.Load:
		l.measured(f.step, out)
	}
}

// measured keeps the profile of what was loaded: other GPUs of the type need not measure it.
func (l *Lead) measured(s plan.Step, out *Effects) {
	g := l.world.gpus[s.GPU]
	if g == nil {
		return
	}
	for _, key := range s.Models {
		a := l.world.aboutOf(key, g.facts.DeviceType)
		v := l.version(key)
		if a.spec == nil || v == nil {
			continue
		}
		digest, _ := l.filesOf(v)
		m := schema.Measured{Model: v.name, Version: v.source.Version, DeviceType: g.facts.DeviceType,
			Digest: string(digest), Profile: a.spec.Profile, Static: a.static, Dynamic: a.dynamic}
		a.stores(&m)
		l.world.learn(key, g.facts.DeviceType, a)
		out.Measured = append(out.Measured, m)
	}
}

// namesAtOnce is how many names one order tells.
const namesAtOnce = 1000

// name orders which versions answer, where that has changed.
func (l *Lead) name(now mono.Time, out *Effects) {
	if l.naming || now < l.nameAt {
		return
	}
	var changed []catalog.Name
	for _, name := range names(l.unnamed) {
		if len(changed) == namesAtOnce {
			break
		}
		delete(l.unnamed, name)
		n := catalog.Name{Name: name}
		if k := l.known[name]; k != nil {
			n = k.name(l.routed)
		}
		if before, told := l.named[name]; !l.doubted[name] && (told || len(n.Shares) == 0) && equalNames(before, n) {
			continue
		}
		changed = append(changed, n)
	}
	if len(changed) == 0 {
		return
	}
	l.orderID++
	l.naming = true
	l.send(now, catalog.Order{ID: l.orderID, Plan: l.stamp(), Kind: catalog.OrderNames, Names: changed, Within: namesWithin}, flight{names: changed}, out)
}

func equalNames(a, b catalog.Name) bool {
	if len(a.Shares) != len(b.Shares) {
		return false
	}
	for i := range a.Shares {
		if a.Shares[i] != b.Shares[i] {
			return false
		}
	}
	return true
}

// namesOrdered takes the outcome of an order of names. What was refused is tried again later.
func (l *Lead) namesOrdered(now mono.Time, told []catalog.Name, failed string, out *Effects) {
	l.naming = false
	if failed != "" {
		l.nameAt = now.Add(l.cfg.RetryMin)
		out.Notes = append(out.Notes, fmt.Sprintf("the scheduler refuses which versions of %d models answer, beginning with %s; tried again in %v: %s", len(told), told[0].Name, l.cfg.RetryMin, failed))
	}
	for _, n := range told {
		if failed == "" {
			delete(l.doubted, n.Name)
		}
		switch {
		case failed != "":
			l.unnamed[n.Name] = true
		case len(n.Shares) == 0:
			delete(l.named, n.Name)
		default:
			l.named[n.Name] = n
		}
	}
}
