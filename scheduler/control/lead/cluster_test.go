package lead

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// cluster is a scheduler and its backends as a Lead sees them: orders are carried out in their
// order, each with its outcome after the facts, and what no scheduler may be told fails the test.
type cluster struct {
	fatal      interface{ Fatalf(string, ...any) }
	lead       *Lead
	now        mono.Time
	epoch      uint64
	gpus       map[string]*catalog.GPUFacts
	stock      map[string]map[string]string // GPU -> key -> state
	routes     map[string]catalog.ModelFacts
	names      map[string]catalog.Name
	set        map[string]int64            // SLOs by order
	inForce    map[string]catalog.Settings // all that such orders said
	broken     map[string]string           // key, or key and device type -> why it does not load
	local      map[string]bool             // GPU key: its backend has the model of its own folder
	loads      int                         // orders of them
	lies       map[string]catalog.Digest   // GPU key, or key -> the files that lie at its source [digest of the key]
	files      map[string]catalog.Digest   // GPU key -> those that it has loaded
	bad        map[string]bool             // GPU key: they are not those of others, and not used
	sets       int                         // orders of settings
	loadedWith map[string]mono.Dur         // GPU key -> the SLO that its order said
	refuse     string                      // why it takes no names
	plan       uint64                      // the newest of its orders
	mute       func(catalog.Order) bool    // orders that it never answers, nor carries out; nil: none
	late       bool                        // facts come after the outcomes of what they tell
	held       []*catalog.Facts            // such
	strict     bool                        // nothing may be measured twice on one device type
	probed     []string                    // "GPU key" of models that were loaded without a profile where GPUs measure, and "serving" where it served

	observed map[string]schema.Observation
	heads    map[uint64]schema.Plan
	story    []string
}

func newCluster(t testing.TB, cfg Config, gpus ...string) *cluster {
	c := &cluster{fatal: t, lead: New(cfg), epoch: 1, gpus: map[string]*catalog.GPUFacts{}, stock: map[string]map[string]string{}, routes: map[string]catalog.ModelFacts{},
		names: map[string]catalog.Name{}, set: map[string]int64{}, inForce: map[string]catalog.Settings{}, broken: map[string]string{}, local: map[string]bool{}, lies: map[string]catalog.Digest{}, loadedWith: map[string]mono.Dur{}, files: map[string]catalog.Digest{}, bad: map[string]bool{}, observed: map[string]schema.Observation{}, heads: map[uint64]schema.Plan{}}
	for _, name := range gpus {
		c.gpus[name] = &catalog.GPUFacts{Name: name, DeviceType: strings.Split(name, "/")[1], State: catalog.GPUServing, Memory: 1000}
		c.stock[name] = map[string]string{}
	}
	return c
}

// facts are those of the GPUs and models named; of all where none is.
func (c *cluster) facts(gpus, keys []string) *catalog.Facts {
	f := &catalog.Facts{Epoch: c.epoch, Plan: c.plan, Whole: gpus == nil && keys == nil}
	if f.Whole {
		gpus, keys = names(c.gpus), names(c.routes)
	}
	for _, name := range gpus {
		g := *c.gpus[name]
		for _, key := range names(c.stock[name]) {
			n, v := splitKey(key)
			s := catalog.Stocked{Key: key, State: c.stock[name][key], Static: 100, Dynamic: 10, Local: c.local[name+" "+key]}
			if s.State == catalog.StateReady {
				s.Spec = &catalog.ModelSpec{Name: n, Version: v, SLO: mono.Second, MaxBatch: 8, Profile: catalog.Profile{Alpha: mono.Millisecond, Beta: mono.Millisecond}}
				if loaded := c.loadedWith[name+" "+key]; loaded > 0 {
					own := int64(s.Spec.SLO)
					s.Spec.SLO, s.Own = loaded, &catalog.Settings{SLO: &own}
				}
			}
			if s.Digest = c.files[name+" "+key]; s.Local {
				s.Digest = ""
			}
			if s.State == catalog.StateReady && s.Digest != "" && c.bad[name+" "+key] {
				s.State, s.Error, s.Spec = catalog.StateFailed, "its files are not those of others", nil
			}
			if s.State == catalog.StateFailed {
				s.Error = c.why(key, name)
			}
			g.Stock = append(g.Stock, s)
			if s.State == catalog.StateGone {
				delete(c.stock[name], key)
				delete(c.files, name+" "+key)
				delete(c.bad, name+" "+key)
			}
		}
		f.GPUs = append(f.GPUs, g)
	}
	for _, key := range keys {
		if m, there := c.routes[key]; there {
			if slo := c.set[key]; slo > 0 {
				set := c.inForce[key]
				m.Set = &set
			}
			f.Models = append(f.Models, m)
		} else {
			f.GoneModels = append(f.GoneModels, key)
		}
	}
	return f
}

// connect is a new link of the scheduler.
func (c *cluster) connect() { c.lead.Facts(c.now, c.facts(nil, nil)) }

// run steps until nothing is left to do, for a while of the cluster's time.
func (c *cluster) run(span mono.Dur) {
	for end := c.now.Add(span); ; {
		var out Effects
		c.lead.Step(c.now, &out)
		for c.take(&out); len(out.Orders) > 0 || out.Task != nil; c.take(&out) {
			orders, task := out.Orders, out.Task
			out.Reset()
			if task != nil {
				task.Solve(1, func(steps int64) bool { return steps < 1e5 }, nil, 0)
				c.lead.Partitioned(c.now, task, &out)
			}
			for _, o := range orders {
				if c.mute != nil && c.mute(o) {
					continue
				}
				c.lead.Outcome(c.now, c.carryOut(o), &out)
			}
			c.lead.Step(c.now, &out)
			for len(c.held) > 0 {
				c.lead.Facts(c.now, c.held[0])
				c.held = c.held[1:]
				c.lead.Step(c.now, &out)
			}
		}
		if c.now = max(c.now+1, c.lead.Wake()); c.now > end {
			c.now = end
			return
		}
	}
}

func (c *cluster) take(out *Effects) {
	for _, o := range out.Observed {
		if err := o.Check(); err != nil {
			c.fatal.Fatalf("%v", err)
		}
		c.observed[o.Model+"/"+o.Version] = o
	}
	for _, o := range out.Gone {
		delete(c.observed, o.Model+"/"+o.Version)
	}
	for _, h := range out.Heads {
		if err := h.Check(); err != nil {
			c.fatal.Fatalf("%v", err)
		}
		c.heads[h.Epoch] = h
	}
	out.Observed, out.Gone, out.Heads = nil, nil, nil
}

// needs tells other needs of the routed models, by their sub-cluster.
func (c *cluster) needs(of func(in string) float64) {
	sums := map[string]float64{}
	for _, key := range names(c.routes) {
		m := c.routes[key]
		m.Need = of(m.In)
		m.Rate = 100 * m.Need
		c.routes[key] = m
		sums[m.In] += m.Need
	}
	f := c.facts([]string{}, names(c.routes))
	for _, in := range names(sums) {
		s := catalog.SubClusterFacts{Name: in, DeviceType: "t", Models: 1, Need: sums[in], Rate: 100 * sums[in]}
		for _, g := range c.gpus {
			if g.In == in {
				s.GPUs++
			}
		}
		f.SubClusters = append(f.SubClusters, s)
	}
	c.lead.Facts(c.now, f)
}

// load is what a GPU does with a source, and why it does not have it then.
func (c *cluster) load(gpu string, s *catalog.Source) string {
	at := gpu + " " + s.Key()
	if c.stock[gpu][s.Key()] == catalog.StateReady {
		if c.bad[at] {
			return "its files are not those of others"
		}
		return ""
	}
	c.stock[gpu][s.Key()], c.loadedWith[at] = catalog.StateReady, mono.Dur(s.SLO)
	why := c.why(s.Key(), gpu)
	switch {
	case s.URL == "": // its wish went a moment ago
		why = "no source"
	case s.Digest != "" && s.Digest != c.lying(gpu, s.Key()):
		why = "its files have another digest"
	case why == "" && !c.get(gpu, s.Key()): // it is there, and not used
		return "its files are not those of others"
	}
	if why != "" {
		c.stock[gpu][s.Key()] = catalog.StateFailed
	}
	return why
}

// lying are the files at a GPU's source of a model.
func (c *cluster) lying(gpu, key string) catalog.Digest {
	for _, at := range []string{gpu + " " + key, key} {
		if d := c.lies[at]; d != "" {
			return d
		}
	}
	return catalog.DigestOf([]byte(key))
}

// get has a GPU get files of a model; false: others have other ones, and the scheduler does not use
// these.
func (c *cluster) get(gpu, key string) bool {
	at, d := gpu+" "+key, c.lying(gpu, key)
	c.files[at] = d
	delete(c.bad, at)
	for _, name := range names(c.gpus) {
		if other := name + " " + key; name != gpu && c.stock[name][key] == catalog.StateReady && !c.bad[other] && c.files[other] != d {
			c.bad[at] = true
		}
	}
	return !c.bad[at]
}

// why a model does not load on a GPU.
func (c *cluster) why(key, gpu string) string {
	if why := c.broken[key]; why != "" {
		return why
	}
	return c.broken[key+" "+c.gpus[gpu].DeviceType]
}

// carryOut does what an order says, and refuses what the scheduler would refuse.
func (c *cluster) carryOut(o catalog.Order) catalog.Outcome {
	line := o.Kind
	if o.Kind == catalog.OrderLoad {
		c.loads++
	}
	for _, part := range []string{o.GPU, o.To, fmt.Sprint(o.Keys)} {
		if part != "" && part != "[]" {
			line += " " + part
		}
	}
	failed := ""
	if o.Plan < c.plan {
		return catalog.Outcome{ID: o.ID, Error: "of an older plan"}
	}
	c.plan = o.Plan
	switch o.Kind {
	case catalog.OrderLoad:
		for _, s := range o.Sources {
			line += " " + s.Key()
			c.probe(o.GPU, &s)
			if why := c.load(o.GPU, &s); why != "" {
				failed = why
			}
		}
	case catalog.OrderUnload:
		for _, key := range o.Keys {
			if m, there := c.routes[key]; there && m.In == c.gpus[o.GPU].In && m.DeviceType == c.gpus[o.GPU].DeviceType {
				c.fatal.Fatalf("%s: it is routed there", line)
			}
			c.stock[o.GPU][key] = catalog.StateGone
		}
	case catalog.OrderRoute:
		failed = c.route(o)
	case catalog.OrderDrain:
		c.gpus[o.GPU].State, c.gpus[o.GPU].In = catalog.GPUFree, catalog.Nowhere
	case catalog.OrderSeat:
		for _, key := range names(c.routes) {
			if c.routes[key].In == o.To && c.routes[key].DeviceType == c.gpus[o.GPU].DeviceType && c.stock[o.GPU][key] != catalog.StateReady {
				c.fatal.Fatalf("%s: it lacks %s", line, key)
			}
		}
		c.gpus[o.GPU].State, c.gpus[o.GPU].In = catalog.GPUServing, o.To
	case catalog.OrderSet:
		for _, key := range o.Keys {
			c.set[key], c.inForce[key] = *o.Settings.SLO, *o.Settings
			c.sets++
		}
	case catalog.OrderNames:
		failed = c.refuse
		for _, n := range o.Names {
			c.names[n.Name] = n
			line += fmt.Sprint(" ", n)
		}
	}
	c.story = append(c.story, line)
	var gpus []string
	if o.GPU != "" {
		gpus = []string{o.GPU}
	}
	f := c.facts(append([]string{}, gpus...), append([]string{}, o.Keys...))
	if c.late {
		c.held = append(c.held, f)
	} else {
		c.lead.Facts(c.now, f)
	}
	return catalog.Outcome{ID: o.ID, Error: failed}
}

// probe notes who measures a model.
func (c *cluster) probe(gpu string, s *catalog.Source) {
	g := c.gpus[gpu]
	if !g.Measures || s.Profile != nil || c.stock[gpu][s.Key()] == catalog.StateReady {
		return
	}
	if v := c.lead.version(s.Key()); v == nil || !v.wanted { // the wish went while its loads were on their way
		return
	}
	_, routed := c.routes[s.Key()] // and lost by all since: it was measured before
	for _, other := range names(c.gpus) {
		if c.strict && !routed && c.gpus[other].DeviceType == g.DeviceType && c.stock[other][s.Key()] == catalog.StateReady && !c.bad[other+" "+s.Key()] && c.gpus[other].State != catalog.GPUOut && s.URL != "" {
			c.fatal.Fatalf("%s measures %s, which %s has\n%s", gpu, s.Key(), other, strings.Join(c.story, "\n"))
		}
	}
	line := gpu + " " + s.Key()
	if g.State == catalog.GPUServing {
		line += " serving"
	}
	c.probed = append(c.probed, line)
}

func (c *cluster) route(o catalog.Order) string {
	for _, key := range o.Keys {
		if o.To == catalog.Nowhere {
			delete(c.routes, key)
			continue
		}
		files := map[catalog.Digest]bool{}
		for _, name := range names(c.gpus) {
			if g := c.gpus[name]; g.State == catalog.GPUServing && g.In == o.To && g.DeviceType == o.DeviceType && c.stock[name][key] != catalog.StateReady {
				c.fatal.Fatalf("route %s to %q: %s lacks it", key, o.To, name)
			}
			if g := c.gpus[name]; g.State == catalog.GPUServing && g.In == o.To && g.DeviceType == o.DeviceType {
				if c.bad[name+" "+key] {
					c.fatal.Fatalf("route %s to %q: %s has other files of it", key, o.To, name)
				}
				if files[c.files[name+" "+key]] = true; len(files) > 1 {
					c.fatal.Fatalf("route %s to %q: two files of one version: %v", key, o.To, c.files)
				}
			}
		}
		c.routes[key] = catalog.ModelFacts{Key: key, DeviceType: o.DeviceType, In: o.To, Need: 0.1}
	}
	return ""
}

// wants is a model with versions 1 to n.
func wants(name string, n int) schema.Model {
	m := schema.Model{Name: name, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyLatest}}
	for v := 1; v <= n; v++ {
		m.Versions = append(m.Versions, schema.ModelVersion{Version: fmt.Sprint(v), Source: "file:///models/" + name})
	}
	return m
}

func (c *cluster) states() map[string]schema.State {
	out := map[string]schema.State{}
	for key, o := range c.observed {
		out[key] = o.State
	}
	return out
}

// serving are the keys that are routed, in order.
func (c *cluster) serving() []string { return slices.Clone(names(c.routes)) }
