package lead

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Task is a partition to be computed aside: it may take a second. Partitioned brings it back.
type Task struct {
	ID    uint64
	Parts []Part
	Aside error // what a solver failed with, where the search's result stands
}

// Part is a device type's problem.
type Part struct {
	DeviceType string
	Problem    *partition.Problem // nil: there is nothing to divide
	Result     *partition.Result  // the answer; nil with an Err
	Err        error

	keys  []string // of the problem's models, in its order
	local []string // models of backends' own folders: with their GPUs, they stay in the unplanned sub-cluster
	kept  int      // those GPUs
	gpus  int      // the others
	over  string   // why its models do not fit into its GPUs' memory, and what to do; "": they may
}

// Solve computes the task's parts. more is asked now and then whether to go on.
func (t *Task) Solve(seed uint64, more func(steps int64) bool, solver partition.Solver, limit mono.Dur) {
	for i := range t.Parts {
		p := &t.Parts[i]
		if p.Problem == nil {
			continue
		}
		var aside error // the solver's: the search's result stands
		p.Result, aside, p.Err = partition.Solve(p.Problem, partition.Effort{Seed: seed, More: more, Solver: solver, SolverLimit: limit})
		t.Aside = errors.Join(t.Aside, aside)
	}
}

// draft is what a plan is made from: the wishes and the facts of one instant.
type draft struct {
	parts  []Part
	homes  map[string]string // device type by key; none where there is no GPU of a type that it may run on
	locals locals
}

// sketch divides the wishes by device type.
func (l *Lead) sketch() draft {
	d := draft{homes: map[string]string{}, locals: l.localsNow()}
	types, open := l.world.types(), l.open()
	byType := map[string]*Part{}
	for _, t := range types {
		byType[t] = &Part{DeviceType: t}
	}
	for _, name := range names(l.known) {
		for i := range l.known[name].versions {
			v := &l.known[name].versions[i]
			if !l.wanted(v.key) || l.localOnly(v.key) {
				continue
			}
			t := l.typeOf(v, open)
			if t == "" {
				continue
			}
			d.homes[v.key] = t
			byType[t].keys = append(byType[t].keys, v.key)
		}
	}
	for _, name := range names(l.world.gpus) {
		g := l.world.gpus[name]
		p := byType[g.facts.DeviceType]
		switch {
		case p == nil || g.planned().State == plan.Out || l.world.leaves(name):
		case g.local > 0:
			p.kept++
			for _, key := range names(g.stock) {
				if s := g.stock[key]; s.Local && s.State != catalog.StateFailed && !slices.Contains(p.local, key) {
					p.local = append(p.local, key)
				}
			}
		default:
			p.gpus++
		}
	}
	for _, t := range types {
		p := byType[t]
		slices.Sort(p.keys)
		slices.Sort(p.local)
		if n := l.subClusters(p); n > 1 {
			p.Problem = l.problem(p, n)
		}
		p.over = l.overfull(p)
		d.parts = append(d.parts, *p)
	}
	return d
}

// localOnly reports whether a backend has the version of its own folder: nobody need order it.
func (l *Lead) localOnly(key string) bool {
	return slices.ContainsFunc(l.world.holders[key], func(g *gpu) bool { return g.stock[key].Local })
}

// subClusters is how many sub-clusters a type's models and GPUs form: as configured, else as
// few as memory and one rank loop carry.
func (l *Lead) subClusters(p *Part) int {
	n := l.cfg.SubClusters
	if n == 0 {
		static, dynamic := int64(0), int64(0)
		for _, key := range p.keys {
			a := l.world.aboutOf(key, p.DeviceType)
			static, dynamic = static+a.static, max(dynamic, a.dynamic)
		}
		n = (len(p.keys) + l.cfg.ModelsMax - 1) / l.cfg.ModelsMax
		if room := l.room(p) - dynamic; room > 0 {
			n = max(n, int((static+room-1)/room))
		}
	}
	return max(1, min(n, p.gpus, len(p.keys)))
}

// room is what the models of a sub-cluster may take of each GPU, bytes; 0: no bound. The largest
// one's size is left: a new version is loaded beside the one before.
func (l *Lead) room(p *Part) int64 {
	memory, largest := l.memory(p.DeviceType), int64(0)
	for _, key := range p.keys {
		largest = max(largest, l.world.aboutOf(key, p.DeviceType).static)
	}
	if largest >= memory/2 { // GPUs for one model or two: nothing can be left
		return memory
	}
	return memory - largest
}

// memory is what the smallest GPU of a type has for models; 0: no bound.
func (l *Lead) memory(deviceType string) int64 {
	least := int64(0)
	for _, name := range names(l.world.gpus) {
		g := l.world.gpus[name]
		if m := g.facts.Memory; g.facts.DeviceType == deviceType && g.facts.State != "out" && m > 0 && (least == 0 || m < least) {
			least = m
		}
	}
	return least
}

// problem is a type's models to be divided among n sub-clusters.
func (l *Lead) problem(p *Part, n int) *partition.Problem {
	q := &partition.Problem{SubClusters: n, MemoryMax: l.room(p), ModelsMax: l.cfg.ModelsMax, RateMax: l.cfg.RateMax, Objective: l.cfg.Objective}
	total, fresh := 0.0, 0.0
	home := l.homes()
	for _, key := range p.keys {
		a := l.world.aboutOf(key, p.DeviceType)
		m := l.world.models[key]
		static := a.static
		if v := l.version(key); static == 0 && v != nil { // it is nowhere yet: what its files take
			static = max(1, v.source.Bytes)
		}
		cost := max(1, float64(static))
		total += cost
		batch, slack := gathered(a.spec, m.Rate)
		q.Models = append(q.Models, partition.Model{Name: key, Rate: max(m.Rate, rateLeast), Need: m.Need, Batch: batch, Slack: slack, Static: static, Dynamic: a.dynamic, Cost: cost})
		from := placeOf(p.DeviceType, m.In)
		if !l.routed(key) { // on its way there, or the scheduler has just started
			from = placeOf(p.DeviceType, home[key])
		}
		q.From = append(q.From, from)
		if from < 0 {
			fresh += cost // it must be loaded wherever it goes
		} else if from >= n {
			fresh += 2 * cost // its sub-cluster is given up
		}
	}
	q.CostMax = fresh + float64(2*l.cfg.MovesMax*total) // a move is paid for where it begins and where it ends
	return q
}

// homes are the sub-clusters of models by the last plan.
func (l *Lead) homes() map[string]string {
	home := map[string]string{}
	for i := range l.plan.SubClusters {
		for _, key := range l.plan.SubClusters[i].Models {
			home[key] = l.plan.SubClusters[i].Name
		}
	}
	return home
}

// gathered is how many requests a batch has at that rate, and how many seconds one may wait
// before a batch of its own would be late; 0: that is not known yet.
func gathered(spec *catalog.ModelSpec, rate float64) (batch, slack float64) {
	if spec == nil {
		return 0, 0
	}
	p, err := profile.FromDoc(spec.Profile, spec.MaxBatch)
	if err != nil {
		return 0, 0
	}
	return batching.Gathered(p, spec.SLO, rate/float64(mono.Second)), max(0, float64(spec.SLO-p.Latency(1))/float64(mono.Second))
}

// rateLeast is what a model counts that nobody asks, so that those are divided too; requests/s.
const rateLeast = 0.01

// nameOf names the i-th sub-cluster of a type.
func nameOf(deviceType string, i int) string { return fmt.Sprintf("%s-%d", deviceType, i) }

// placeOf is the number in a sub-cluster's name; -1: it is none of ours.
func placeOf(deviceType, name string) int {
	rest, ours := strings.CutPrefix(name, deviceType+"-")
	n := 0
	if _, err := fmt.Sscanf(rest, "%d", &n); !ours || err != nil || nameOf(deviceType, n) != name {
		return -1
	}
	return n
}

// target is the plan that a draft's results make. It has no epoch yet.
func (l *Lead) target(d *draft) plan.Plan {
	var t plan.Plan
	for i := range d.parts {
		p := &d.parts[i]
		if p.Err != nil {
			t.SubClusters = append(t.SubClusters, l.lasting(p)...)
			continue
		}
		whole := plan.SubCluster{Name: plan.Unplanned(p.DeviceType), DeviceType: p.DeviceType, Models: slices.Clone(p.local), GPUs: p.kept}
		if p.Result == nil {
			whole.Models = append(whole.Models, p.keys...)
			whole.GPUs += p.gpus
		} else {
			t.SubClusters = append(t.SubClusters, l.divided(p)...)
		}
		slices.Sort(whole.Models)
		for _, key := range whole.Models {
			whole.Need += l.world.models[key].Need
		}
		if len(whole.Models) > 0 || whole.GPUs > 0 {
			t.SubClusters = append(t.SubClusters, whole)
		}
	}
	l.succeed(d, &t)
	t.Settings = l.settings(d.homes)
	return t
}

// settings are those of the models that are wanted and known, by the device types that they
// are served on.
func (l *Lead) settings(homes map[string]string) (out []plan.ModelSettings) {
	for _, name := range names(l.known) {
		for i := range l.known[name].versions {
			v := &l.known[name].versions[i]
			if a := l.world.aboutOf(v.key, homes[v.key]); v.wanted && a.spec != nil {
				out = append(out, plan.ModelSettings{Key: v.key, Settings: l.world.wished(v, homes[v.key])})
			}
		}
	}
	return out
}

// divided are a part's sub-clusters.
func (l *Lead) divided(p *Part) []plan.SubCluster {
	out := make([]plan.SubCluster, p.Problem.SubClusters)
	for j, n := range partition.Deal(partition.Wants(p.Result.Loads), p.gpus) {
		out[j] = plan.SubCluster{Name: nameOf(p.DeviceType, j), DeviceType: p.DeviceType, GPUs: n, Need: p.Result.Loads[j].Need}
	}
	for i, j := range p.Result.Of {
		out[j].Models = append(out[j].Models, p.keys[i])
	}
	return out
}

// succeed keeps versions that are not wanted any more served until those that are have come.
func (l *Lead) succeed(d *draft, t *plan.Plan) {
	for _, name := range names(l.known) {
		k := l.known[name]
		heir := ""
		for i := range k.versions {
			if v := &k.versions[i]; d.homes[v.key] != "" {
				heir = v.key
			}
		}
		if heir == "" || l.routed(heir) {
			continue
		}
		for i := range k.versions {
			v := &k.versions[i]
			switch {
			case v.wanted || !l.routed(v.key):
			case has(t, heir):
				t.Successions = append(t.Successions, plan.Succession{Old: v.key, New: heir})
			default: // the heir has no place yet
				l.stay(v.key, t)
			}
		}
	}
}

// has reports whether a plan whose models are sorted has one.
func has(t *plan.Plan, key string) bool {
	return slices.ContainsFunc(t.SubClusters, func(s plan.SubCluster) bool {
		_, found := slices.BinarySearch(s.Models, key)
		return found
	})
}

// stay keeps a model in the plan where it is served, or near.
func (l *Lead) stay(key string, t *plan.Plan) {
	m := l.world.models[key]
	var best *plan.SubCluster
	for i := range t.SubClusters {
		s := &t.SubClusters[i]
		if s.DeviceType == m.DeviceType && s.GPUs > 0 && (best == nil || s.Name == subCluster(m.DeviceType, m.In)) {
			best = s
		}
	}
	if best != nil && !slices.Contains(best.Models, key) {
		best.Models = append(best.Models, key)
		slices.Sort(best.Models)
	}
}

// routed reports whether requests of a model go anywhere.
func (l *Lead) routed(key string) bool {
	_, there := l.world.models[key]
	return there
}
