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
	fatal  interface{ Fatalf(string, ...any) }
	lead   *Lead
	now    mono.Time
	epoch  uint64
	gpus   map[string]*catalog.GPUFacts
	stock  map[string]map[string]string // GPU -> key -> state
	routes map[string]catalog.ModelFacts
	names  map[string]catalog.Name
	set    map[string]int64         // SLOs by order
	broken map[string]string        // key -> why it does not load
	local  map[string]bool          // GPU key: its backend has the model of its own folder
	refuse string                   // why it takes no names
	plan   uint64                   // the newest of its orders
	mute   func(catalog.Order) bool // orders that it never answers, nor carries out; nil: none
	late   bool                     // facts come after the outcomes of what they tell
	held   []*catalog.Facts         // such
	strict bool                     // nothing may be measured twice
	probed []string                 // "GPU key" of models that were loaded without a profile where GPUs measure, and "serving" where it served

	observed map[string]schema.Observation
	heads    map[uint64]schema.Plan
	story    []string
}

func newCluster(t testing.TB, cfg Config, gpus ...string) *cluster {
	c := &cluster{fatal: t, lead: New(cfg), epoch: 1, gpus: map[string]*catalog.GPUFacts{}, stock: map[string]map[string]string{}, routes: map[string]catalog.ModelFacts{},
		names: map[string]catalog.Name{}, set: map[string]int64{}, broken: map[string]string{}, local: map[string]bool{}, observed: map[string]schema.Observation{}, heads: map[uint64]schema.Plan{}}
	for _, name := range gpus {
		c.gpus[name] = &catalog.GPUFacts{Name: name, DeviceType: "t", State: catalog.GPUServing, Memory: 1000}
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
			}
			if s.State == catalog.StateFailed {
				s.Error = c.broken[key]
			}
			g.Stock = append(g.Stock, s)
			if s.State == catalog.StateGone {
				delete(c.stock[name], key)
			}
		}
		f.GPUs = append(f.GPUs, g)
	}
	for _, key := range keys {
		if m, there := c.routes[key]; there {
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

// carryOut does what an order says, and refuses what the scheduler would refuse.
func (c *cluster) carryOut(o catalog.Order) catalog.Outcome {
	line := o.Kind
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
			c.stock[o.GPU][s.Key()] = catalog.StateReady
			why := c.broken[s.Key()]
			if s.URL == "" { // its wish went a moment ago
				why = "no source"
			}
			if why != "" {
				c.stock[o.GPU][s.Key()], failed = catalog.StateFailed, why
			}
		}
	case catalog.OrderUnload:
		for _, key := range o.Keys {
			if m, there := c.routes[key]; there && m.In == c.gpus[o.GPU].In {
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
			if c.routes[key].In == o.To && c.stock[o.GPU][key] != catalog.StateReady {
				c.fatal.Fatalf("%s: it lacks %s", line, key)
			}
		}
		c.gpus[o.GPU].State, c.gpus[o.GPU].In = catalog.GPUServing, o.To
	case catalog.OrderSet:
		for _, key := range o.Keys {
			c.set[key] = *o.Settings.SLO
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
	_, routed := c.routes[s.Key()] // and lost by all since: it was measured before
	for _, other := range names(c.gpus) {
		if c.strict && !routed && c.stock[other][s.Key()] == catalog.StateReady && c.gpus[other].State != catalog.GPUOut && s.URL != "" {
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
		for _, name := range names(c.gpus) {
			if g := c.gpus[name]; g.State == catalog.GPUServing && g.In == o.To && c.stock[name][key] != catalog.StateReady {
				c.fatal.Fatalf("route %s to %q: %s lacks it", key, o.To, name)
			}
		}
		c.routes[key] = catalog.ModelFacts{Key: key, DeviceType: "t", In: o.To, Need: 0.1}
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
