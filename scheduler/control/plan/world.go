package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// model is one that the facts or the plan name.
type model struct {
	facts  Model // what Routed says is in routed
	index  int
	routed *sub // nil: nowhere
	target *sub // where the plan wants it; nil: nowhere
	home   *sub // target, or where it goes on to after a detour

	to      *sub      // where a route under way leads
	routing bool      // a route is under way
	coming  []*sub    // sub-clusters that a route may have led to: under way, or nobody knows
	after   []*model  // it goes nowhere until these are routed
	before  []*model  // those that wait for this one
	want    *Settings // nil: as they are
	setting bool      // a set is under way
	retry   mono.Time // it is not routed, set or measured before
	failed  string    // why the roll-out goes on without it
	unset   string    // why its settings are as they were
	active  bool      // GPUs in service load it
	loads   int       // of it under way
	strayed bool      // it has made its detour
	gauge   *gpu      // measures it, or is to (appoint)
	gauging bool      // a measure is under way

	squeezed bool // it may be measured in the gaps of a GPU that serves
}

// gpu is one device.
type gpu struct {
	facts GPU // what State and Resident say is kept up to date in the fields below
	host  *host
	state State
	in    *sub // Serving, Draining
	goal  *sub // where it is to be; nil: free

	drain   bool // an order to drain was sent, and nobody knows that it was not carried out
	seating *sub // an order to seat was sent there, likewise
	drained bool // counts for Limits.Drained
	measure bool // measures
	gauges  int  // models that it measures, or is to
	loads   int  // steps of memory under way
	flights int  // steps under way

	resident set
	ordered  set // loads under way
	loading  set // by the facts, or by loads of which nobody knows how they ended
	leaving  set // unloads under way, or of which nobody knows how they ended: neither resident nor gone
	unload   set // unloads under way
	stays    set // what could not be unloaded
	retry    map[int]mono.Time
	barred   []*sub // that it could not join
}

// sub is a sub-cluster of the plan, of the facts, or of both.
type sub struct {
	name, deviceType string
	planned          bool
	count            int    // GPUs by the plan
	less             int    // by which it goes without, since GPUs could not join
	spare            int    // by which it has more: GPUs that could go nowhere else
	lent             int    // by which it has more for a while
	misses           int    // GPUs that could not join
	missed           string // why the last one could not join, or leave

	target set    // models of the plan, without those that failed
	routed set    // models routed here
	coming set    // models of which a route here was sent
	gpus   []*gpu // in it, or perhaps: state Serving or Draining, or seating; by name
	due    []*gpu // goal is this one, and not in it; by name

	dirty, hungry, waits bool
}

// host has GPUs.
type host struct {
	gpus   []*gpu
	loads  int
	hungry []*sub // its limit kept them waiting
}

// world is what the roll-out knows: the mirror of the facts, by index.
type world struct {
	models []*model
	byKey  map[string]*model
	gpus   []*gpu // by name
	byName map[string]*gpu
	subs   []*sub // by name
	named  map[string]*sub
	hosts  map[string]*host
}

func newWorld() world {
	return world{byKey: map[string]*model{}, byName: map[string]*gpu{}, named: map[string]*sub{}, hosts: map[string]*host{}}
}

// model finds one, or begins to know it.
func (w *world) model(key string) *model {
	m := w.byKey[key]
	if m == nil {
		m = &model{facts: Model{Key: key}, index: len(w.models), retry: mono.Past}
		w.models, w.byKey[key] = append(w.models, m), m
	}
	return m
}

// sub finds a sub-cluster, or begins to know it.
func (w *world) sub(name, deviceType string) *sub {
	s := w.named[name]
	if s == nil {
		s = &sub{name: name, deviceType: deviceType}
		at, _ := slices.BinarySearchFunc(w.subs, s, func(a, b *sub) int { return order(a.name, b.name) })
		w.subs, w.named[name] = slices.Insert(w.subs, at, s), s
	}
	if s.deviceType == "" {
		s.deviceType = deviceType
	}
	return s
}

// gpu finds one, or begins to know it.
func (w *world) gpu(name, hostName string) *gpu {
	g := w.byName[name]
	if g != nil {
		return g
	}
	if hostName == "" {
		hostName, _, _ = strings.Cut(name, "/")
	}
	h := w.hosts[hostName]
	if h == nil {
		h = &host{}
		w.hosts[hostName] = h
	}
	g = &gpu{facts: GPU{Name: name}, host: h, state: Out, retry: map[int]mono.Time{}}
	h.gpus = append(h.gpus, g)
	w.gpus, w.byName[name] = insert(w.gpus, g), g
	return g
}

func insert(list []*gpu, g *gpu) []*gpu {
	at, there := slices.BinarySearchFunc(list, g, func(a, b *gpu) int { return order(a.facts.Name, b.facts.Name) })
	if there {
		return list
	}
	return slices.Insert(list, at, g)
}

func without(list []*gpu, g *gpu) []*gpu {
	at, there := slices.BinarySearchFunc(list, g, func(a, b *gpu) int { return order(a.facts.Name, b.facts.Name) })
	if !there {
		return list
	}
	return slices.Delete(list, at, at+1)
}

// place says where a GPU is. Its old sub-cluster and the new one are to be looked at.
func (r *Rollout) place(g *gpu, state State, in, seating *sub) {
	for _, s := range []*sub{g.in, g.seating} {
		if s != nil {
			s.gpus = without(s.gpus, g)
			r.touch(s)
		}
	}
	g.state, g.in, g.seating = state, in, seating
	for _, s := range []*sub{in, seating} {
		if s != nil {
			s.gpus = insert(s.gpus, g)
			r.touch(s)
		}
	}
	r.aim(g, g.goal)
}

// aim says where a GPU is to be.
func (r *Rollout) aim(g *gpu, goal *sub) {
	if g.goal != nil {
		g.goal.due = without(g.goal.due, g)
		r.touch(g.goal)
	}
	if g.goal = goal; goal != nil && g.state != Out {
		if g.in != goal || g.state != Serving {
			goal.due = insert(goal.due, g)
		}
		r.touch(goal)
	}
	r.touch(g.in)
	if goal == nil && g.state == Free {
		r.arrived(g)
	}
}

// serving is the GPUs that the sub-cluster can count on.
func (s *sub) serving() (n int) {
	for _, g := range s.gpus {
		if g.in == s && g.state == Serving && !g.drain {
			n++
		}
	}
	return n
}

// everywhere tells whether all of its GPUs have a model which get requests, or may get them at
// any moment. False, if there are none.
func (s *sub) everywhere(m *model) (all bool) {
	for _, g := range s.gpus {
		if s.counts(g) {
			if !g.resident.has(m.index) {
				return false
			}
			all = true
		}
	}
	return all
}

// counts tells whether requests of the sub-cluster may go to a GPU, as far as is known.
func (s *sub) counts(g *gpu) bool { return g.seating == s || g.in == s && g.state == Serving }

// needOn is the GPUs that the model needs on a device type.
func (m *model) needOn(deviceType string) float64 {
	for i := range m.facts.Profiles {
		if m.facts.Profiles[i].DeviceType == deviceType {
			return max(0, m.facts.Profiles[i].Need)
		}
	}
	return 0
}

func (m *model) profiled(deviceType string) bool {
	return slices.ContainsFunc(m.facts.Profiles, func(p Profile) bool { return p.DeviceType == deviceType })
}

// required is the GPUs below which no step takes the sub-cluster, with `more` routed to it too
// (nil: as it is).
func (r *Rollout) required(s *sub, more *model) int {
	sum, n := 0.0, 0
	r.union.copyOf(s.routed)
	r.union.or(s.coming)
	for i := range r.union.all() {
		sum += r.models[i].needOn(s.deviceType)
		n++
	}
	if more != nil {
		sum += more.needOn(s.deviceType)
		n++
	}
	return r.gpusFor(sum, n)
}

// gpusFor is how many GPUs n models with needs of sum in all must have.
func (r *Rollout) gpusFor(sum float64, n int) int {
	if n == 0 {
		return 0
	}
	const rounding = 1e-9
	return max(1, int(math.Ceil(min(math.MaxInt32, sum+float64(r.limits.Burst*math.Sqrt(sum))-rounding))))
}

// requiredAtEnd is the same with the plan's models alone.
func (r *Rollout) requiredAtEnd(s *sub) int {
	sum, n := 0.0, 0
	for i := range s.target.all() {
		sum += r.models[i].needOn(s.deviceType)
		n++
	}
	return r.gpusFor(sum, n)
}

// fits tells whether a GPU has room for m beside all that is there, or may be.
func (r *Rollout) fits(g *gpu, m *model) bool { return r.fitsBeside(g, m, nil) }

// fitsBeside tells whether it has room also for all that is served in a sub-cluster (nil: none).
func (r *Rollout) fitsBeside(g *gpu, m *model, s *sub) bool {
	if g.facts.Memory <= 0 {
		return true
	}
	static, dynamic := m.facts.Static, m.facts.Dynamic
	r.scratch.copyOf(g.resident)
	if s != nil {
		r.scratch.or(s.routed)
		r.scratch.or(s.coming)
	}
	r.scratch.or(g.ordered)
	r.scratch.or(g.loading)
	r.scratch.or(g.leaving)
	r.scratch.del(m.index)
	for i := range r.scratch.all() {
		static += r.models[i].facts.Static
		dynamic = max(dynamic, r.models[i].facts.Dynamic)
	}
	return static <= g.facts.Memory-dynamic
}

// SetGPU hands in what is known of a GPU: at least as new as all results handed in before.
func (r *Rollout) SetGPU(f GPU) error {
	if f.Name == "" || f.DeviceType == "" || (f.In == "") == (f.State == Serving || f.State == Draining) {
		return fmt.Errorf("%w: GPU %q of type %q, %s, in %q: it must have a name and a type, and a sub-cluster if and only if it serves or drains", ErrInvalid, f.Name, f.DeviceType, f.State, f.In)
	}
	var in *sub
	if f.In != "" {
		if in = r.sub(f.In, f.DeviceType); in.deviceType != f.DeviceType {
			return fmt.Errorf("%w: GPU %s of type %s is in sub-cluster %s of type %s", ErrInvalid, f.Name, f.DeviceType, f.In, in.deviceType)
		}
	}
	g := r.gpu(f.Name, f.Host)
	others := f.DeviceType != g.facts.DeviceType || f.Leaving != g.facts.Leaving || (f.State == Out) != (g.state == Out) || f.State != g.state || in != g.in
	if g.facts = f; f.State == Out {
		r.lose(g)
	} else {
		r.learn(g, f, in)
	}
	if others {
		r.unaimed(f.DeviceType)
	}
	r.touch(g.in)
	r.touch(g.goal)
	r.moved()
	return nil
}

// learn takes over what a GPU has, but for what steps under way will tell.
func (r *Rollout) learn(g *gpu, f GPU, in *sub) {
	seating, draining := (*sub)(nil), false
	for _, fl := range r.flights {
		if fl.gpu == g {
			switch fl.step.Kind {
			case Seat:
				seating = fl.to
			case Drain:
				draining = true
			}
		}
	}
	if f.State == Serving && seating == in {
		seating = nil
	}
	g.drain = draining && f.State == Serving
	g.resident, g.loading = g.resident[:0], g.loading[:0]
	for _, key := range f.Resident {
		g.resident.add(r.model(key).index)
	}
	for _, key := range f.Loading {
		g.loading.add(r.model(key).index)
	}
	g.leaving.copyOf(g.unload)
	g.leaving.and(g.resident)
	g.resident.drop(g.unload)
	g.stays.and(g.resident)
	if g.state != f.State || g.in != in || g.seating != seating {
		r.place(g, f.State, in, seating)
	}
}

// lose ends what is under way on a GPU that is gone.
func (r *Rollout) lose(g *gpu) {
	for _, fl := range slices.Clone(r.flights) {
		if fl.gpu == g {
			r.end(fl)
		}
	}
	for _, list := range []*set{&g.resident, &g.ordered, &g.loading, &g.leaving, &g.unload, &g.stays} {
		*list = (*list)[:0]
	}
	for _, m := range r.models {
		if m.gauge == g {
			m.gauging = false
			r.appoint(m, nil)
		}
	}
	clear(g.retry)
	r.arrived(g)
	g.drain, g.measure, g.barred = false, false, nil
	r.place(g, Out, nil, nil)
	r.aim(g, nil)
}

// RemoveGPU forgets that a GPU is there.
func (r *Rollout) RemoveGPU(name string) {
	if g := r.byName[name]; g != nil && g.state != Out {
		f := g.facts
		f.State, f.In = Out, ""
		_ = r.SetGPU(f) // it has been checked
	}
}

// SetModel hands in what is known of a model: at least as new as all results handed in before.
func (r *Rollout) SetModel(f Model) error {
	if f.Key == "" || f.Static < 0 || f.Dynamic < 0 {
		return fmt.Errorf("%w: model %q of %d and %d bytes: must have a key, and sizes not below 0", ErrInvalid, f.Key, f.Static, f.Dynamic)
	}
	var routed *sub
	if f.Routed != "" {
		if routed = r.named[f.Routed]; routed == nil {
			deviceType, unplanned := strings.CutPrefix(f.Routed, "/")
			if !unplanned {
				deviceType = "" // its GPUs will say
			}
			routed = r.sub(f.Routed, deviceType)
		}
	}
	m := r.model(f.Key)
	m.facts = f
	m.facts.Profiles = slices.Clone(f.Profiles) // SetNeed writes there
	for _, s := range m.coming {                // what was not known is now; a route under way still may lead there
		if !(m.routing && m.to == s) {
			s.coming.del(m.index)
			r.touch(s)
		}
	}
	m.coming = slices.DeleteFunc(m.coming, func(s *sub) bool { return !(m.routing && m.to == s) })
	r.routedTo(m, routed)
	for _, failure := range f.Failed {
		r.remember(m, failure)
	}
	r.hold(m)
	r.gauged(m)
	r.wishes(m)
	r.touch(m.target)
	r.moved()
	return nil
}

// SetNeed hands in what a model that is known needs on a device type now: SetModel for nothing else.
func (r *Rollout) SetNeed(key, deviceType string, need float64) {
	m := r.byKey[key]
	if m == nil {
		return
	}
	for i := range m.facts.Profiles {
		if p := &m.facts.Profiles[i]; p.DeviceType == deviceType && p.Need != need {
			p.Need = need
			r.touch(m.routed)
			r.touch(m.target)
			r.moved()
		}
	}
}

// routedTo notes where a model's requests go.
func (r *Rollout) routedTo(m *model, to *sub) {
	if m.routed != nil {
		m.routed.routed.del(m.index)
		r.touch(m.routed)
	}
	if m.routed = to; to != nil {
		to.routed.add(m.index)
		r.touch(to)
	}
	r.touch(m.target)
	for _, old := range m.before {
		r.touch(old.routed)
	}
}
