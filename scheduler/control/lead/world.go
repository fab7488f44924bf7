package lead

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// gpu is a GPU as the scheduler says it is.
type gpu struct {
	facts catalog.GPUFacts // but for Stock
	stock map[string]catalog.Stocked
	local int // models that its backend has of its own folder
}

// about is what GPUs have said of a model on their type.
type about struct {
	spec            *catalog.ModelSpec // as its backends serve it; nil: not known yet
	own             *catalog.Settings  // what its config.yaml says, where its order said other settings
	static, dynamic int64
	stored          *catalog.Profile // was measured before; nil: not
	digest          catalog.Digest   // with these files
}

// world is what the scheduler has said.
type world struct {
	epoch     uint64 // of the scheduler; 0: nothing is known
	whole     bool   // the first whole facts have come, to their end
	plan      uint64 // the newest that the scheduler was ordered of
	gpus      map[string]*gpu
	models    map[string]catalog.ModelFacts // that are routed
	about     map[string]map[string]about   // by model's key, then device type
	subs      map[string]catalog.SubClusterFacts
	holders   map[string][]*gpu        // that have anything of a model, by key
	sorted    []string                 // see types; nil: to be made
	counted   map[string]int           // GPUs in service by type; likewise
	measuring map[string]bool          // types whose GPUs measure; made with sorted
	sizes     map[string]int64         // see largest; likewise
	changed   map[string]bool          // GPUs, since the roll-out was told
	moved     map[string]bool          // models, likewise
	rated     []string                 // models of which only the need did
	brought   map[string]catalog.Files // that are told of models that were ordered, since learn
	bad       map[string][]string      // GPU -> keys that are there, and that the scheduler does not use; since unloadOthers
	learned   map[string]string        // device types of models whose spec is known now, by key
	answers   map[string]answers       // by sub-cluster
	leaving   map[string]bool          // backends that are to go (Leave)
}

func newWorld() world {
	return world{gpus: map[string]*gpu{}, models: map[string]catalog.ModelFacts{}, about: map[string]map[string]about{}, holders: map[string][]*gpu{},
		subs:    map[string]catalog.SubClusterFacts{},
		changed: map[string]bool{}, moved: map[string]bool{}, learned: map[string]string{}, brought: map[string]catalog.Files{}, bad: map[string][]string{}, answers: map[string]answers{}}
}

// anew is the world of a new link: nothing is known but what models take, which was measured.
func (w *world) anew() world {
	next := newWorld()
	next.leaving = w.leaving
	for _, key := range names(w.about) {
		for _, t := range names(w.about[key]) {
			a := w.about[key][t]
			next.learn(key, t, about{static: a.static, dynamic: a.dynamic, stored: a.stored, digest: a.digest})
		}
	}
	return next
}

// aboutOf is what is known of a model on a device type.
func (w *world) aboutOf(key, deviceType string) about { return w.about[key][deviceType] }

func (w *world) learn(key, deviceType string, a about) {
	of := w.about[key]
	if of == nil {
		of = map[string]about{}
		w.about[key] = of
	}
	of[deviceType] = a
}

// take learns what became of the scheduler's world. What is gone comes first: a backend that was lost and is back
// between two looks of the scheduler's has its GPUs among both.
func (w *world) take(f *catalog.Facts) {
	w.epoch, w.whole, w.plan = f.Epoch, w.whole || !f.More, max(w.plan, f.Plan)
	for _, name := range f.GoneGPUs {
		if g := w.gpus[name]; g != nil {
			for _, key := range names(g.stock) {
				w.drop(g, key)
			}
			delete(w.gpus, name)
			w.sorted, w.sizes = nil, nil
			w.changed[name] = true
		}
	}
	for _, key := range f.GoneModels {
		delete(w.models, key)
		w.moved[key] = true
	}
	for i := range f.GPUs {
		w.takeGPU(&f.GPUs[i])
	}
	for i := range f.Models {
		w.takeModel(&f.Models[i])
	}
	for _, s := range f.SubClusters {
		w.takeSub(s)
	}
}

// takeModel learns of a model that is routed. Rates come each second: what they change is its need.
func (w *world) takeModel(m *catalog.ModelFacts) {
	old, there := w.models[m.Key]
	if there {
		w.countAnswers(&old, m)
	}
	w.models[m.Key] = *m
	needs := old.Need != m.Need
	old.Rate, old.Need, old.Served, old.Late, old.Dropped, old.Waiting = m.Rate, m.Need, m.Served, m.Late, m.Dropped, m.Waiting
	switch {
	case !there || old != *m:
		w.moved[m.Key] = true
	case needs:
		w.rated = append(w.rated, m.Key)
	}
}

func (w *world) takeGPU(f *catalog.GPUFacts) {
	g := w.gpus[f.Name]
	if g == nil {
		g = &gpu{stock: map[string]catalog.Stocked{}}
		w.gpus[f.Name] = g
	}
	w.changed[f.Name] = true
	if g.facts.State != f.State || g.facts.DeviceType != f.DeviceType || g.facts.Memory != f.Memory || g.facts.Measures != f.Measures {
		w.sorted, w.sizes = nil, nil
	}
	g.facts = *f
	g.facts.Stock = nil
	for _, s := range f.Stock {
		w.drop(g, s.Key)
		if s.State == catalog.StateGone {
			continue
		}
		if s.Local {
			g.local++
		}
		if s.State == catalog.StateFailed && s.Digest != "" {
			w.bad[f.Name] = append(w.bad[f.Name], s.Key)
		}
		if s.State != catalog.StateReady {
			s.Files = catalog.Files{Digest: s.Digest} // which the scheduler does not use
		}
		if before := w.brought[s.Key]; s.State == catalog.StateReady && !s.Local {
			w.brought[s.Key] = s.Files
		} else if !s.Local {
			w.brought[s.Key] = before
		}
		a := w.aboutOf(s.Key, f.DeviceType)
		if s.Spec != nil || s.Own != nil {
			a.own = s.Own
		}
		if s.Spec != nil {
			if a.spec == nil {
				w.learned[s.Key] = f.DeviceType
			}
			a.spec = s.Spec
		}
		a.static, a.dynamic = max(a.static, s.Static), max(a.dynamic, s.Dynamic)
		w.learn(s.Key, f.DeviceType, a)
		s.Spec = nil
		g.stock[s.Key] = s
		w.holders[s.Key] = append(w.holders[s.Key], g)
	}
}

// drop forgets what a GPU has of a model.
func (w *world) drop(g *gpu, key string) {
	w.moved[key] = true
	s, there := g.stock[key]
	if !there {
		return
	}
	if s.Local {
		g.local--
	}
	delete(g.stock, key)
	rest := slices.DeleteFunc(w.holders[key], func(h *gpu) bool { return h == g })
	if w.holders[key] = rest; len(rest) == 0 {
		delete(w.holders, key)
	}
}

// names are the keys of a map in their order.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// subCluster is how plans name one.
func subCluster(deviceType, in string) string {
	if in == "" {
		return plan.Unplanned(deviceType)
	}
	return in
}

// planned is the GPU as roll-outs know it.
func (g *gpu) planned() plan.GPU {
	p := plan.GPU{Name: g.facts.Name, DeviceType: g.facts.DeviceType, Memory: g.facts.Memory}
	switch g.facts.State {
	case catalog.GPUServing:
		p.State, p.In = plan.Serving, subCluster(p.DeviceType, g.facts.In)
	case catalog.GPUDraining:
		p.State, p.In = plan.Draining, subCluster(p.DeviceType, g.facts.In)
	case catalog.GPUFree:
		p.State = plan.Free
	default:
		p.State = plan.Out
	}
	if p.In == catalog.Nowhere {
		p.State, p.In = plan.Free, ""
	}
	for _, key := range names(g.stock) {
		switch s := g.stock[key]; s.State {
		case catalog.StateReady:
			p.Resident = append(p.Resident, key)
		case catalog.StateFetching, catalog.StateLoading, catalog.StateMeasuring:
			p.Loading = append(p.Loading, key)
		}
	}
	return p
}

// types are the device types that there are GPUs of in service, the largest first.
func (w *world) types() []string {
	if w.sorted == nil {
		w.sorted = w.sortTypes()
	}
	return w.sorted
}

// largest is what the GPU of a type has for models that has most; 0: one has no bound.
func (w *world) largest(deviceType string) int64 {
	if w.sizes == nil {
		w.sizes = map[string]int64{}
		for _, name := range names(w.gpus) {
			f := &w.gpus[name].facts
			if n, there := w.sizes[f.DeviceType]; f.State != catalog.GPUOut && !(there && n == 0) {
				w.sizes[f.DeviceType] = max(n, f.Memory)
				if f.Memory == 0 {
					w.sizes[f.DeviceType] = 0
				}
			}
		}
	}
	return w.sizes[deviceType]
}

// count is the GPUs in service by type. Whoever has it may keep it, and changes nothing in it.
func (w *world) count() map[string]int {
	w.types()
	return w.counted
}

func (w *world) sortTypes() []string {
	count := map[string]int{}
	w.counted, w.measuring = count, map[string]bool{}
	for _, name := range names(w.gpus) {
		if g := w.gpus[name]; g.facts.State != catalog.GPUOut && !w.leaves(name) {
			count[g.facts.DeviceType]++
			w.measuring[g.facts.DeviceType] = w.measuring[g.facts.DeviceType] || g.facts.Measures
		}
	}
	out := append([]string{}, names(count)...)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	return out
}

// Loads are the rates and needs of all models that people have added, by key.
func (l *Lead) Loads() (out []schema.Load) {
	for _, key := range names(l.world.models) {
		m := l.world.models[key]
		if v := l.version(key); v != nil {
			out = append(out, schema.Load{Model: v.name, Version: v.source.Version, Rate: m.Rate, Needs: []schema.Need{{DeviceType: m.DeviceType, GPUs: m.Need}}})
		}
	}
	return out
}

// SubClusters are those of the scheduler, by plan's name. The map is the caller's own.
func (l *Lead) SubClusters() map[string]catalog.SubClusterFacts { return maps.Clone(l.world.subs) }

// GPUs counts those in service.
func (l *Lead) GPUs() (n int) {
	for _, name := range names(l.world.gpus) {
		if l.world.gpus[name].facts.State != catalog.GPUOut {
			n++
		}
	}
	return n
}

// Backends counts those that have a GPU.
func (l *Lead) Backends() int {
	all := map[string]bool{}
	for _, name := range names(l.world.gpus) {
		backend, _, _ := strings.Cut(name, "/")
		all[backend] = true
	}
	return len(all)
}
