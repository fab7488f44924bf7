package plan

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Phase of a Rollout.
type Phase uint8

const (
	// Running: there are steps to take or to wait for.
	Running Phase = iota
	// Done: the world is as the plan wants it.
	Done
	// Marked: it ended with something left undone, which Problems tells.
	Marked
)

func (p Phase) String() string {
	switch p {
	case Running:
		return "running"
	case Done:
		return "done"
	case Marked:
		return "marked"
	}
	return "unknown"
}

// Rollout takes the world to a plan, step by step. It is not safe for several goroutines.
type Rollout struct {
	world
	limits  Limits
	plan    Plan
	now     mono.Time
	nextID  uint64
	flights []*flight // under way, oldest first
	byID    map[uint64]*flight
	tries   map[attempt]int
	wakes   []wake // ends of back-offs, the earliest first

	aimless []string // device types whose GPUs are to be dealt anew
	dirty   []*sub
	hungry  []*sub   // had something to load, and enough was under way
	waiting []*sub   // had something else to do, and its limit was reached
	sets    []*model // with settings to be changed
	garbage []*gpu   // with models that nobody wants; made once all else has ended

	under   [kinds]int // steps under way by kind
	warming int        // models that are active
	drained int        // GPUs that count for Limits.Drained
	loose   bool       // limits that only save work are lifted: nothing else can go on
	ended   bool       // nothing is left to do
	swaps   int        // of goals between GPUs, and GPUs lent (stuck.go)

	givenUp        []*model // since GivenUp was called
	out            []Step   // of the present Next
	scratch, union set
}

// flight is a step under way.
type flight struct {
	step  Step
	gpu   *gpu
	model *model // load, route, measure, set
	to    *sub   // route, seat
	gone  set    // unload
	due   mono.Time
	over  bool
}

// attempt names what is tried again.
type attempt struct {
	kind  Kind
	gpu   *gpu
	model *model
	to    *sub
}

// wake is when sub-clusters are to be looked at again.
type wake struct {
	at   mono.Time
	subs [2]*sub
	sets *model
}

// New begins a roll-out of a plan in the world of the facts. Nothing but these two matters: one
// that was under way before goes on.
func New(p Plan, f Facts, l Limits) (*Rollout, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	l.fill()
	r := &Rollout{world: newWorld(), limits: l, byID: map[uint64]*flight{}, tries: map[attempt]int{}}
	for i := range p.SubClusters { // before the facts, which may name them without a type
		r.sub(p.SubClusters[i].Name, p.SubClusters[i].DeviceType)
	}
	keys := make([]string, 0, len(f.Models))
	for i := range p.SubClusters {
		keys = append(keys, p.SubClusters[i].Models...)
	}
	for i := range f.Models {
		keys = append(keys, f.Models[i].Key)
	}
	slices.SortFunc(keys, order) // the order of indices is the order of steps
	for _, key := range slices.Compact(keys) {
		r.model(key)
	}
	for i := range f.GPUs {
		if err := r.SetGPU(f.GPUs[i]); err != nil {
			return nil, err
		}
	}
	for i := range f.Models {
		if err := r.SetModel(f.Models[i]); err != nil {
			return nil, err
		}
	}
	r.aimAt(p)
	return r, nil
}

// Overtake replaces the plan. What is under way is waited for; what was made for the old plan
// and is not of use for the new one is taken back.
func (r *Rollout) Overtake(p Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	clear(r.tries)
	r.wakes = r.wakes[:0]
	for _, g := range r.gpus {
		g.barred = nil
		g.stays = g.stays[:0]
		clear(g.retry)
	}
	r.aimAt(p)
	return nil
}

// aimAt makes a plan the target.
func (r *Rollout) aimAt(p Plan) {
	r.plan = p
	for _, s := range r.subs {
		s.planned, s.count, s.less, s.spare, s.lent, s.misses, s.missed = false, 0, 0, 0, 0, 0, ""
		s.target = s.target[:0]
		r.unaimed(s.deviceType)
	}
	for _, m := range r.models {
		if m.active {
			m.active = false
			r.warming--
		}
		m.target, m.home, m.failed, m.unset, m.retry, m.want, m.after, m.before = nil, nil, "", "", mono.Past, nil, nil, nil
		if m.strayed = false; !m.gauging {
			r.appoint(m, nil)
		}
	}
	for i := range p.SubClusters {
		s := r.sub(p.SubClusters[i].Name, p.SubClusters[i].DeviceType)
		s.planned, s.count = true, p.SubClusters[i].GPUs
		r.unaimed(s.deviceType)
		for _, key := range p.SubClusters[i].Models {
			m := r.model(key)
			m.target, m.home = s, s
			s.target.add(m.index)
		}
	}
	for _, c := range p.Successions {
		old, heir := r.model(c.Old), r.model(c.New)
		old.after, heir.before = append(old.after, heir), append(heir.before, old)
	}
	r.swaps = 0
	r.sets = r.sets[:0]
	for i := range p.Settings {
		m := r.model(p.Settings[i].Key)
		m.want = &p.Settings[i].Settings
		r.wishes(m)
	}
	for _, m := range r.models {
		for _, failure := range m.facts.Failed {
			r.remember(m, failure)
		}
		r.hold(m)
	}
	for _, s := range r.subs {
		r.touch(s)
	}
	r.moved()
}

// wishes queues a model whose settings are to be changed.
func (r *Rollout) wishes(m *model) {
	if m.want != nil && *m.want != m.facts.Settings && !m.setting && m.unset == "" {
		r.sets = append(r.sets, m)
	}
}

// touch has a sub-cluster looked at.
func (r *Rollout) touch(s *sub) {
	if s != nil && !s.dirty {
		s.dirty = true
		r.dirty = append(r.dirty, s)
	}
}

// unaimed has the GPUs of a type dealt anew.
func (r *Rollout) unaimed(deviceType string) {
	if !slices.Contains(r.aimless, deviceType) {
		r.aimless = append(r.aimless, deviceType)
	}
}

// moved: what has changed may have opened a way.
func (r *Rollout) moved() { r.ended, r.garbage = false, nil }

// Next appends the steps to take now. Call it when a result or facts have been handed in, and
// at Wake.
func (r *Rollout) Next(now mono.Time, out []Step) []Step {
	r.now, r.out = max(r.now, now), out
	before := len(out)
	r.expire()
	r.wakeUp()
	for {
		r.settle()
		r.feed()
		r.settings()
		if len(r.out) > before || len(r.flights) > 0 || len(r.wakes) > 0 || r.ended {
			break
		}
		if !r.unstick() { // nothing is under way, and nothing can go on as it is
			r.ended = true
		}
	}
	out, r.out = r.out, nil
	return out
}

// settle looks at all sub-clusters of which something has changed.
func (r *Rollout) settle() {
	for len(r.aimless) > 0 || len(r.dirty) > 0 {
		for len(r.aimless) > 0 {
			deviceType := r.aimless[0]
			r.aimless = r.aimless[1:]
			r.deal(deviceType)
		}
		dirty := r.dirty
		r.dirty = nil
		for _, s := range dirty {
			s.dirty = false
			r.work(s)
		}
	}
}

// feed lets those go on, in turn, that a limit kept waiting.
func (r *Rollout) feed() {
	for n := len(r.hungry); n > 0; n-- {
		if r.enough() {
			return
		}
		s := r.hungry[0]
		r.hungry = r.hungry[1:]
		s.hungry = false
		r.work(s)
	}
}

// starve notes that enough is being loaded.
func (r *Rollout) starve(s *sub) {
	if !s.hungry {
		s.hungry = true
		r.hungry = append(r.hungry, s)
	}
}

// wait notes that another limit was reached.
func (r *Rollout) wait(s *sub) {
	if !s.waits {
		s.waits = true
		r.waiting = append(r.waiting, s)
	}
}

// admit: such a limit is not reached any more.
func (r *Rollout) admit() {
	for _, s := range r.waiting {
		s.waits = false
		r.touch(s)
	}
	r.waiting = r.waiting[:0]
}

// settings emits what changes without loading anything.
func (r *Rollout) settings() {
	for len(r.sets) > 0 && r.under[Set] < r.limits.Others {
		m := r.sets[0]
		r.sets = r.sets[1:]
		if m.want == nil || *m.want == m.facts.Settings || m.setting || m.unset != "" || m.retry > r.now {
			continue
		}
		m.setting = true
		r.emit(&flight{step: Step{Kind: Set, Models: []string{m.facts.Key}, Settings: m.want}, model: m})
	}
}

// emit sends a step on its way.
func (r *Rollout) emit(f *flight) {
	r.nextID++
	f.step.ID = r.nextID
	if f.gpu != nil {
		f.step.GPU = f.gpu.facts.Name
		f.gpu.flights++
	}
	if f.model != nil && f.step.Models == nil {
		f.step.Models = []string{f.model.facts.Key}
	}
	if f.to != nil {
		f.step.To = f.to.name
	}
	f.step.Within = r.limits.Timeouts[f.step.Kind]
	f.due = r.now.Add(f.step.Within)
	r.under[f.step.Kind]++
	r.flights = append(r.flights, f)
	r.byID[r.nextID] = f
	r.out = append(r.out, f.step)
}

// end takes a step out of the books.
func (r *Rollout) end(f *flight) {
	if f.over {
		return
	}
	f.over = true
	r.under[f.step.Kind]--
	delete(r.byID, f.step.ID)
	r.flights = slices.DeleteFunc(r.flights, func(o *flight) bool { return o == f })
	g, m := f.gpu, f.model
	if g != nil {
		g.flights--
	}
	switch f.step.Kind {
	case Load:
		g.ordered.del(m.index)
		g.loads--
		g.host.loads--
		m.loads--
		r.freed(g)
	case Unload:
		g.unload.drop(f.gone)
		g.loads--
		g.host.loads--
		r.freed(g)
	case Route:
		m.routing, m.to = false, nil
	case Measure:
		m.gauging, g.measure = false, false
	case Set:
		m.setting = false
	}
	if r.under[f.step.Kind] == r.limits.Others-1 {
		r.admit()
	}
	if g != nil {
		r.touch(g.in)
		r.touch(g.goal)
	}
	if m != nil {
		r.touch(m.target)
		r.touch(m.routed)
	}
	r.moved()
}

// freed lets a host's GPUs load again.
func (r *Rollout) freed(g *gpu) {
	for _, s := range g.host.hungry {
		r.touch(s)
	}
	g.host.hungry = g.host.hungry[:0]
}

// Wake is when Next is due though nothing happens: a step has taken too long, or may be tried
// again. Never, if that is not so.
func (r *Rollout) Wake() mono.Time {
	at := mono.Never
	for _, f := range r.flights {
		at = min(at, f.due)
	}
	if len(r.wakes) > 0 {
		at = min(at, r.wakes[0].at)
	}
	return at
}

// wakeUp looks again at what waited for the end of a back-off.
func (r *Rollout) wakeUp() {
	for len(r.wakes) > 0 && r.wakes[0].at <= r.now {
		w := r.wakes[0]
		r.wakes = r.wakes[1:]
		r.touch(w.subs[0])
		r.touch(w.subs[1])
		if w.sets != nil {
			r.wishes(w.sets)
		}
		r.moved()
	}
}

// again has sub-clusters looked at after a back-off.
func (r *Rollout) again(at mono.Time, a, b *sub, sets *model) {
	i, _ := slices.BinarySearchFunc(r.wakes, at, func(w wake, at mono.Time) int {
		if w.at <= at {
			return -1
		}
		return 1
	})
	r.wakes = slices.Insert(r.wakes, i, wake{at, [2]*sub{a, b}, sets})
}
