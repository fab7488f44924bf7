package plan

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Done hands in that a step was carried out. Steps that nobody waits for any more are passed
// over: the facts will tell.
func (r *Rollout) Done(now mono.Time, id uint64) {
	r.now = max(r.now, now)
	f := r.byID[id]
	if f == nil {
		return
	}
	r.end(f)
	g, m := f.gpu, f.model
	delete(r.tries, f.attempt())
	switch f.step.Kind {
	case Load:
		g.loading.del(m.index)
		g.leaving.del(m.index)
		g.resident.add(m.index)
	case Unload:
		g.leaving.drop(f.gone)
		r.touch(g.in)
	case Route:
		r.forget(m)
		r.routedTo(m, f.to)
		r.reached(m)
	case Drain:
		g.drain = false
		g.facts.Idle = false
		r.place(g, Free, nil, nil)
	case Seat:
		g.facts.Idle = false
		r.place(g, Serving, f.to, nil)
		r.arrived(g)
	case Measure:
		r.appoint(m, nil)
		r.Profiled(m.facts.Key, g.facts.DeviceType)
	case Set:
		m.facts.Settings = *f.step.Settings
		r.wishes(m)
	}
}

// forget what nobody knew of a model's routes.
func (r *Rollout) forget(m *model) {
	for _, s := range m.coming {
		s.coming.del(m.index)
		r.touch(s)
	}
	m.coming = m.coming[:0]
}

// reached: a model that is where it was to be makes way for others.
func (r *Rollout) reached(m *model) {
	if m.routed != m.target {
		return
	}
	if m.active {
		m.active = false
		r.warming--
		r.admit()
	}
	if m.home != m.target { // a detour's end: it goes on to where the plan wants it
		m.target.target.del(m.index)
		m.target = m.home
		m.target.target.add(m.index)
		r.touch(m.target)
	}
}

// arrived: a GPU does not count for Limits.Drained any more.
func (r *Rollout) arrived(g *gpu) {
	if g.drained {
		g.drained = false
		r.drained--
		r.admit()
	}
}

// attempt is what a step tries.
func (f *flight) attempt() attempt {
	a := attempt{kind: f.step.Kind, gpu: f.gpu, model: f.model, to: f.to}
	if a.kind == Drain {
		a.to = f.gpu.in
	}
	return a
}

// Failed hands in that a step was not carried out, and left everything as it was.
func (r *Rollout) Failed(now mono.Time, id uint64, reason string) {
	r.now = max(r.now, now)
	f := r.byID[id]
	if f == nil {
		return
	}
	r.end(f)
	g, m := f.gpu, f.model
	switch f.step.Kind {
	case Load:
		g.loading.del(m.index)
	case Unload:
		g.resident.or(f.gone)
		g.leaving.drop(f.gone)
	case Route:
		if f.to != nil && !slices.ContainsFunc(r.flights, func(o *flight) bool { return o.model == m && o.to == f.to }) {
			f.to.coming.del(m.index)
			m.coming = slices.DeleteFunc(m.coming, func(s *sub) bool { return s == f.to })
		}
	case Drain:
		g.drain = false
	case Seat:
		r.place(g, g.state, g.in, nil)
	}
	r.retry(f, reason)
}

// expire gives up waiting for steps that have taken too long. Nobody knows what becomes of
// them: until the facts say, a GPU may have what it was to load and lack what it was to unload,
// and requests may go where they were to be routed.
func (r *Rollout) expire() {
	var late []*flight
	for _, f := range r.flights {
		if f.due <= r.now {
			late = append(late, f)
		}
	}
	for _, f := range late {
		r.end(f)
		if f.step.Kind == Load && !f.achieved() {
			f.gpu.loading.add(f.model.index)
		}
		r.retry(f, fmt.Sprintf("took longer than %v", r.limits.Timeouts[f.step.Kind]))
	}
}

// achieved tells whether the facts have what a step was for.
func (f *flight) achieved() bool {
	g, m := f.gpu, f.model
	switch f.step.Kind {
	case Load:
		return g.resident.has(m.index)
	case Unload:
		for i := range f.gone.all() {
			if g.resident.has(i) || g.leaving.has(i) {
				return false
			}
		}
		return true
	case Route:
		return m.routed == f.to
	case Drain:
		return g.state == Free
	case Seat:
		return g.state == Serving && g.in == f.to
	case Measure:
		return m.profiled(g.facts.DeviceType)
	case Set:
		return m.facts.Settings == *f.step.Settings
	}
	return false
}

// retry has a step tried again after a while, or gives it up.
func (r *Rollout) retry(f *flight, reason string) {
	a := f.attempt()
	if f.achieved() {
		delete(r.tries, a)
		return
	}
	r.tries[a]++
	n := r.tries[a]
	g, m := f.gpu, f.model
	if n >= r.limits.Tries {
		delete(r.tries, a)
		r.giveUp(f, fmt.Sprintf("%s, %d times: %s", f.step.Kind, n, reason))
		return
	}
	at := r.now.Add(r.limits.backOff(n))
	var subs [2]*sub
	var sets *model
	switch f.step.Kind {
	case Load:
		g.retry[m.index] = at
		subs = [2]*sub{g.in, g.goal}
	case Unload, Drain, Seat:
		g.retry[ofGPU] = at
		subs = [2]*sub{g.in, g.goal}
	case Route, Measure:
		m.retry = at
		subs = [2]*sub{m.routed, m.target}
	case Set:
		m.retry, sets = at, m
	}
	r.again(at, subs[0], subs[1], sets)
}

// ofGPU is the key in gpu.retry of what concerns the GPU as a whole.
const ofGPU = -1

// giveUp goes on without what a step was for.
func (r *Rollout) giveUp(f *flight, reason string) {
	g, m := f.gpu, f.model
	switch f.step.Kind {
	case Load:
		r.cannotLoad(g, m, reason)
	case Measure:
		r.fail(m, g.facts.Name+": "+reason)
	case Route:
		r.fail(m, reason)
	case Unload:
		g.stays.or(f.gone)
	case Drain:
		g.barred = append(g.barred, nil) // it stays where it is
		g.in.missed = g.facts.Name + " could not leave: " + reason
		r.unaimed(g.facts.DeviceType)
	case Seat:
		r.bar(g, f.to, reason)
	case Set:
		m.unset = reason
	}
}

// cannotLoad: it is the GPU that fails, if others serve the model; else it is the model. Nothing
// fails if nobody waits for it any more.
func (r *Rollout) cannotLoad(g *gpu, m *model, reason string) {
	switch to, s := m.target, g.goal; {
	case s != nil && g.state != Serving && (s.routed.has(m.index) || s.coming.has(m.index)):
		r.bar(g, s, m.facts.Key+": "+reason)
	case to == nil || m.routed == to || to.coming.has(m.index):
	case to.counts(g) || s == to || m.gauge == g:
		r.fail(m, g.facts.Name+": "+reason)
	}
}

// hold goes on without a model that is not to be tried now. The next plan, or the same once
// more (Overtake), asks again.
func (r *Rollout) hold(m *model) {
	if m.facts.Held != "" && m.failed == "" && m.target != nil && m.target != m.routed && !m.target.coming.has(m.index) {
		r.without(m, m.facts.Held)
	}
}

// GivenUp are the models that failed too often since it was called last; those that were held
// are not among them.
func (r *Rollout) GivenUp() (out []Problem) {
	for _, m := range r.givenUp {
		if m.failed != "" {
			out = append(out, Problem{Model: m.facts.Key, SubCluster: m.home.name, Reason: m.failed, GaveUp: true})
		}
	}
	r.givenUp = nil
	return out
}

// fail gives a model up.
func (r *Rollout) fail(m *model, reason string) {
	if m.failed == "" && m.home != nil {
		r.givenUp = append(r.givenUp, m)
	}
	r.without(m, reason)
}

// without goes on without a model: it stays where its requests go now.
func (r *Rollout) without(m *model, reason string) {
	if m.failed != "" {
		return
	}
	m.failed = reason
	if m.active {
		m.active = false
		r.warming--
		r.admit()
	}
	r.appoint(m, nil)
	if m.target != nil {
		m.target.target.del(m.index)
		r.touch(m.target)
	}
	r.touch(m.routed)
	r.moved()
}

// remember takes over a failure that a backend reports.
func (r *Rollout) remember(m *model, f Failure) {
	g := r.byName[f.GPU]
	if g == nil || g.state == Out || f.Tries < r.limits.Tries || m.target == nil {
		return
	}
	if m.target != m.routed && !m.target.coming.has(m.index) && g.facts.DeviceType == m.target.deviceType {
		r.fail(m, f.GPU+": "+f.Reason)
	}
}

// bar keeps a GPU out of a sub-cluster that it could not join. After some of them the
// sub-cluster goes without.
func (r *Rollout) bar(g *gpu, s *sub, reason string) {
	s.missed = g.facts.Name + " could not join: " + reason
	g.barred = append(g.barred, s)
	if s.lent > 0 {
		s.lent--
	} else if s.misses++; s.misses >= r.limits.GPUTries {
		s.less++
	}
	r.unaimed(g.facts.DeviceType)
	r.moved()
}
