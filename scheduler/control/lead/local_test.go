package lead

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// joins is a backend that comes with one GPU and models of its own folder, which are routed as
// soon as it is there.
func (c *cluster) joins(gpu string, keys ...string) {
	c.gpus[gpu] = &catalog.GPUFacts{Name: gpu, DeviceType: "t", State: catalog.GPUServing, Memory: 1000}
	c.stock[gpu] = map[string]string{}
	for _, key := range keys {
		c.stock[gpu][key], c.local[gpu+" "+key] = catalog.StateReady, true
		c.routes[key] = catalog.ModelFacts{Key: key, DeviceType: "t", Need: 0.1}
	}
	c.lead.Facts(c.now, c.facts([]string{gpu}, keys))
}

// taken are the orders that take a model from a GPU or from its requests, or a GPU out of service.
func (c *cluster) taken() (lines []string) {
	for _, s := range c.story {
		if strings.HasPrefix(s, "route -") || strings.HasPrefix(s, "unload") || strings.HasPrefix(s, "drain") {
			lines = append(lines, s)
		}
	}
	return lines
}

// A plan that was made before a backend came, of no GPU or of others, takes nothing of what
// that backend has of its own folder: not before the next plan, and not by it.
func TestLocalModelsStay(t *testing.T) {
	for name, before := range map[string][]string{"no GPU": nil, "others": {"a/t/0", "a/t/1"}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, Config{}, before...)
			for _, gpu := range before {
				c.joins(gpu, "digits/1")
			}
			c.connect()
			c.run(2 * second)
			for i, more := range []string{"b/t/0", "c/t/0"} {
				keys := []string{"digits/1", "own/1"}
				for gpu := range c.gpus { // a type's backends have the same models
					for _, key := range keys {
						c.stock[gpu][key], c.local[gpu+" "+key] = catalog.StateReady, true
					}
				}
				c.joins(more, keys...)
				c.run(20 * second)
				if got := c.serving(); !slices.Equal(got, keys) {
					t.Errorf("backend %d: routed %v, want %v", i, got, keys)
				}
			}
			if got := c.taken(); len(got) > 0 {
				t.Errorf("taken away:\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// While epochs are paused, and where people's plan holds, what backends bring is served, too;
// what people leave out of their plan goes.
func TestLocalModelsBesideAPlanByHand(t *testing.T) {
	c := newCluster(t, Config{})
	c.connect()
	c.joins("a/t/0", "digits/1", "old/1")
	c.run(10 * second)
	c.lead.Pause(c.now, true)
	var out Effects
	p := plan.Plan{SubClusters: []plan.SubCluster{{Name: plan.Unplanned("t"), DeviceType: "t", Models: []string{"digits/1"}, GPUs: 1}}}
	if err := c.lead.Apply(c.now, p, &out); err != nil {
		t.Fatal(err)
	}
	c.take(&out)
	c.run(10 * second)
	if got := c.serving(); !slices.Equal(got, []string{"digits/1"}) {
		t.Fatalf("by people's plan: %v", got)
	}
	c.story = nil
	c.stock["a/t/0"]["new/1"], c.local["a/t/0 new/1"] = catalog.StateReady, true
	c.joins("b/t/0", "digits/1", "new/1")
	c.run(20 * second)
	if got := c.serving(); !slices.Equal(got, []string{"digits/1", "new/1"}) || len(c.taken()) > 0 {
		t.Errorf("routed %v, taken %v", got, c.taken())
	}
}

// A model of a backend's own folder that does not load is failed, with the reason; nobody is
// ordered to load it, for only the backend knows where its files are; it is served when they
// are mended.
func TestLocalModelFails(t *testing.T) {
	c := newCluster(t, Config{})
	c.connect()
	c.joins("a/t/0", "digits/1")
	c.run(10 * second)
	c.stock["a/t/0"]["half/1"], c.local["a/t/0 half/1"], c.broken["half/1"] = catalog.StateFailed, true, "no end of file"
	c.lead.Facts(c.now, c.facts([]string{"a/t/0"}, nil))
	c.run(100 * second)
	if o := c.observed["half/1"]; o.State != schema.Failed || !strings.Contains(o.Reason, "no end of file") || len(c.story) > 0 {
		t.Errorf("observed %+v, story %v", o, c.story)
	}
	c.joins("a/t/0", "digits/1", "half/1")
	c.run(10 * second)
	if got := c.serving(); !slices.Equal(got, []string{"digits/1", "half/1"}) || c.observed["half/1"].State != schema.Serving || len(c.story) > 0 {
		t.Errorf("after the mend: routed %v, observed %+v, story %v", got, c.observed["half/1"], c.story)
	}
}

// A model whose folder goes leaves the plan, and nobody is ordered to load it, though one GPU of its
// backend lets go of it before the other, and also where it was the backend's only one.
func TestLocalModelGoes(t *testing.T) {
	for name, keys := range map[string][]string{"one of two": {"digits/1", "own/1"}, "the only one": {"own/1"}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, Config{})
			c.connect()
			gpus := []string{"a/t/0", "a/t/1"}
			for _, gpu := range gpus {
				c.joins(gpu, keys...)
			}
			c.run(20 * second)
			c.story = nil
			delete(c.routes, "own/1") // members serves it no more once a GPU is without it
			for _, gpu := range gpus {
				c.stock[gpu]["own/1"] = catalog.StateGone
				c.lead.Facts(c.now, c.facts([]string{gpu}, []string{"own/1"}))
				c.run(50 * mono.Millisecond)
			}
			c.run(2 * second)
			if len(c.story) > 0 {
				t.Errorf("orders: %v", c.story)
			}
			last := c.lead.Plan()
			for _, s := range last.SubClusters {
				if slices.Contains(s.Models, "own/1") {
					t.Errorf("the plan has it still: %+v", last)
				}
			}
			if h := c.heads[last.Epoch]; h.State != schema.InForce {
				t.Errorf("plan %+v", h)
			}
			for _, gpu := range gpus { // it comes back
				c.joins(gpu, keys...)
			}
			c.run(10 * second)
			if got := c.serving(); !slices.Equal(got, keys) || len(c.taken()) > 0 {
				t.Errorf("back again: routed %v, taken %v", got, c.taken())
			}
		})
	}
}
