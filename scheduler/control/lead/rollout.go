package lead

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// adopt makes a plan the one that is rolled out.
func (l *Lead) adopt(now mono.Time, p plan.Plan, cause string, out *Effects) {
	if l.plan.Epoch > 0 && (l.head.State == schema.RollsOut || l.head.State == schema.Proposed) {
		l.head.State = schema.Overtaken
		out.Heads = append(out.Heads, l.head)
	}
	moves, before := l.moves(&p), l.plan
	p.Epoch = l.next()
	l.plan, l.planned, l.current = p, now, true
	l.head = schema.Plan{Epoch: p.Epoch, Cause: cause, State: schema.RollsOut, SubClusters: len(p.SubClusters), Moves: moves}
	for _, s := range p.SubClusters {
		l.head.Models, l.head.GPUs, l.head.Need = l.head.Models+len(s.Models), l.head.GPUs+s.GPUs, l.head.Need+s.Need
		out.Parts = append(out.Parts, schema.SubCluster{Epoch: p.Epoch, Name: s.Name, DeviceType: s.DeviceType, Models: s.Models, GPUs: s.GPUs, Need: s.Need})
	}
	out.Heads = append(out.Heads, l.head)
	l.flown, l.done, l.phase = 0, 0, plan.Running
	switch {
	case l.rollout == nil || len(l.orders) == 0:
		l.begin() // anew: what models and GPUs of long ago took is given back
	default:
		for _, name := range names(l.world.gpus) {
			l.world.changed[name] = true // see device
		}
		l.retell(&before, &p)
		l.tell()
		_ = l.rollout.Overtake(p) // it was checked
	}
}

// begin starts the roll-out of the plan in the world as it is.
func (l *Lead) begin() {
	l.rollout = nil
	if l.plan.Epoch == 0 {
		return // a first plan is on its way
	}
	r, err := plan.New(l.plan, l.all(), l.cfg.Limits)
	if err != nil { // facts that contradict themselves: the next ones may not
		return
	}
	l.world.told()
	l.rollout = r
}

// outdated reports whether the scheduler has been ordered of a newer plan than the one that was taken
// over: the controller that made it ended before it was stored. The roll-out rests until there is
// another plan, soon: it would take out of service what came with the one that is lost.
func (l *Lead) outdated() bool { return !l.current && l.world.plan > l.plan.Epoch }

// all is the world as roll-outs know it.
func (l *Lead) all() (f plan.Facts) {
	for _, name := range names(l.world.gpus) {
		f.GPUs = append(f.GPUs, l.device(l.world.gpus[name]))
	}
	for _, key := range l.keys() {
		f.Models = append(f.Models, l.facts(key))
	}
	return f
}

// keys are the models that anybody wants, has, or routes.
func (l *Lead) keys() []string {
	all := map[string]bool{}
	for _, name := range names(l.known) {
		for i := range l.known[name].versions {
			all[l.known[name].versions[i].key] = true
		}
	}
	for _, key := range names(l.world.models) {
		all[key] = true
	}
	for _, key := range names(l.world.holders) {
		all[key] = true
	}
	return names(all)
}

// facts is a model as roll-outs know it.
func (l *Lead) facts(key string) plan.Model {
	m := plan.Model{Key: key, Settings: l.inForce[key], Held: l.held(key)}
	// What was ordered holds, and beside it what backends say.
	if r, there := l.world.models[key]; there {
		m.Routed = subCluster(r.DeviceType, r.In)
	}
	for _, t := range l.world.types() {
		a := l.world.aboutOf(key, t)
		if a.static > m.Static {
			m.Static = a.static
		}
		m.Dynamic = max(m.Dynamic, a.dynamic)
		need := 0.0
		if r := l.world.models[key]; r.DeviceType == t {
			need = r.Need
		}
		if l.profiled(key, t) {
			m.Profiles = append(m.Profiles, plan.Profile{DeviceType: t, Need: need})
		}
	}
	if a := l.world.aboutOf(key, l.world.models[key].DeviceType); a.spec != nil {
		m.Settings = filled(m.Settings, a.spec)
	}
	for _, g := range l.world.holders[key] {
		if s := g.stock[key]; s.State == catalog.StateFailed {
			m.Failed = append(m.Failed, plan.Failure{GPU: g.facts.Name, Reason: s.Error, Tries: 1})
		}
	}
	return m
}

// device is the GPU as roll-outs of the plan know it. What failed there, and the plan does not
// have on its type, counts as resident: so it is unloaded, or its backend would try for ever.
func (l *Lead) device(g *gpu) plan.GPU {
	p := g.planned()
	p.Idle = p.State == plan.Serving && l.world.idle(p.In)
	p.Leaving = l.world.leaves(p.Name)
	for _, key := range names(g.stock) {
		s := g.stock[key]
		if m, routed := l.world.models[key]; s.State != catalog.StateFailed || s.Local || routed && m.DeviceType == p.DeviceType {
			continue
		}
		if !slices.ContainsFunc(l.plan.SubClusters, func(s plan.SubCluster) bool {
			return s.DeviceType == p.DeviceType && slices.Contains(s.Models, key)
		}) {
			p.Resident = append(p.Resident, key)
		}
	}
	slices.Sort(p.Resident)
	return p
}

// tell lets the roll-out know what has changed in the world.
func (l *Lead) tell() {
	if l.rollout == nil {
		return
	}
	for _, key := range names(l.world.moved) {
		for _, g := range l.world.holders[key] {
			if g.stock[key].State == catalog.StateFailed { // whether it is to go depends on where others are routed: see device
				l.world.changed[g.facts.Name] = true
			}
		}
	}
	for _, name := range names(l.world.changed) {
		if g := l.world.gpus[name]; g != nil {
			_ = l.rollout.SetGPU(l.device(g)) // what contradicts itself now is told again when it changes
		} else {
			l.rollout.RemoveGPU(name)
		}
	}
	for _, key := range names(l.world.moved) {
		_ = l.rollout.SetModel(l.facts(key))
	}
	for _, key := range l.world.rated {
		if m := l.world.models[key]; !l.world.moved[key] { // else it is told
			l.rollout.SetNeed(key, m.DeviceType, m.Need)
		}
	}
	l.world.told()
}

// told: the roll-out knows all.
func (w *world) told() {
	clear(w.changed)
	clear(w.moved)
	w.rated = w.rated[:0]
}

// roll takes the roll-out's next steps.
func (l *Lead) roll(now mono.Time, out *Effects) {
	if l.rollout == nil || l.unaware || l.outdated() {
		return
	}
	l.settleOwn(now)
	for _, s := range l.rollout.Next(now, nil) {
		own := s.Kind == plan.Load && l.version(s.Models[0]) == nil
		if own && l.awaitOwn(s) {
			continue
		}
		if own { // no user has added it: its backend brings it back, or the next plan is without it
			l.rollout.Failed(now, s.ID, "nobody has added it (symphony model add): only a backend that has it in its own folder can load it")
			continue
		}
		if s.Kind == plan.Load && l.renew[s.Models[0]] { // the next plan, soon, is without it
			l.rollout.Failed(now, s.ID, "its files are other ones now: those of before are unloaded first")
			continue
		}
		l.orderID++
		l.flown++
		l.send(now, l.order(s), flight{step: s, of: l.rollout}, out)
	}
	l.gaveUp(now)
	if phase := l.rollout.Phase(); phase != l.phase {
		l.phase = phase
		l.ended(now, out)
	}
}

// ended tells how the roll-out stands, and says when what failed is tried again.
func (l *Lead) ended(now mono.Time, out *Effects) {
	h := &l.head
	h.Steps, h.StepsDone, h.Reason = l.flown, l.done, ""
	switch l.phase {
	case plan.Running:
		return // a GPU has come, or gone: the plan is in force all the same
	case plan.Done:
		h.State, l.failed.others = schema.InForce, map[string]*failure{}
	case plan.Marked:
		h.State = schema.GaveUp
		for i, p := range l.rollout.Problems() {
			if i == problemsTold {
				h.Reason += "; and more"
				break
			}
			if i > 0 {
				h.Reason += "; "
			}
			h.Reason += p.String()
		}
		h.Reason = cut(h.Reason)
		l.undone(now)
	}
	for _, name := range names(l.known) {
		l.look(name)
	}
	out.Heads = append(out.Heads, *h)
	text := fmt.Sprintf("plan %d (%s): %s, %s, %s, %s, %s, %s", h.Epoch, h.Cause, h.State, count(h.SubClusters, "sub-cluster"), count(h.Models, "model"), count(h.GPUs, "GPU"), count(h.Moves, "move"), count(h.Steps, "step"))
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	out.Notes = append(out.Notes, text)
}

// count is a number of things, of which one is called word and others words.
func count(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// problemsTold is how many of a roll-out's problems are told.
const problemsTold = 5

// cut keeps a text to what the store takes.
func cut(s string) string {
	if len(s) > schema.TextMax {
		return s[:schema.TextMax-3] + "..."
	}
	return s
}

// moves counts the models that a plan takes from one sub-cluster to another.
func (l *Lead) moves(p *plan.Plan) (n int) {
	for _, s := range p.SubClusters {
		for _, key := range s.Models {
			if m, there := l.world.models[key]; there && subCluster(m.DeviceType, m.In) != s.Name {
				n++
			}
		}
	}
	return n
}

// same reports whether two plans want the same.
func same(a, b *plan.Plan) bool {
	return slices.EqualFunc(a.SubClusters, b.SubClusters, func(x, y plan.SubCluster) bool {
		return x.Name == y.Name && x.DeviceType == y.DeviceType && x.GPUs == y.GPUs && slices.Equal(x.Models, y.Models)
	}) && slices.Equal(a.Successions, b.Successions) && slices.EqualFunc(a.Settings, b.Settings, func(x, y plan.ModelSettings) bool { return x == y })
}

// amended is a plan of people's own with what the catalogue has become since: what is not
// wanted any more leaves it, what is new goes where GPUs have most to spare.
func (l *Lead) amended(d *draft, wanted *plan.Plan) plan.Plan {
	p := plan.Plan{Settings: wanted.Settings}
	home := map[string]bool{}
	for _, s := range l.plan.SubClusters {
		s.Models = slices.DeleteFunc(slices.Clone(s.Models), func(key string) bool { return !l.wanted(key) && !l.localOnly(key) })
		slices.Sort(s.Models)
		for _, key := range s.Models {
			home[key] = true
		}
		p.SubClusters = append(p.SubClusters, s)
	}
	for i := range d.parts {
		l.keep(&d.parts[i], home, &p)
	}
	none := unplanned(d.parts)
	for _, key := range names(d.homes) {
		if home[key] || none[d.homes[key]] != "" {
			continue
		}
		var best *plan.SubCluster
		for i := range p.SubClusters {
			s := &p.SubClusters[i]
			if s.DeviceType == d.homes[key] && s.GPUs > 0 && (best == nil || cmp.Less(spare(best), spare(s))) {
				best = s
			}
		}
		if best != nil {
			best.Models = append(best.Models, key)
			slices.Sort(best.Models)
		}
	}
	l.succeed(d, &p)
	return p
}

// keep adds the models that backends have of their own folders and the plan does not know.
func (l *Lead) keep(part *Part, home map[string]bool, p *plan.Plan) {
	name := plan.Unplanned(part.DeviceType)
	for _, key := range part.local {
		if home[key] || l.locals.models[part.DeviceType][key] { // people's plan leaves it out
			continue
		}
		if p.Find(name) == nil {
			p.SubClusters = append(p.SubClusters, plan.SubCluster{Name: name, DeviceType: part.DeviceType})
		}
		s := p.Find(name)
		s.GPUs = max(s.GPUs, part.kept)
		s.Models = append(s.Models, key)
		slices.Sort(s.Models)
	}
}

// spare is how much of a sub-cluster's GPUs nothing needs, fewer models first among equals.
func spare(s *plan.SubCluster) float64 {
	return 1 - s.Need/float64(s.GPUs) - float64(float64(len(s.Models))*1e-6)
}
