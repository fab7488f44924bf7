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

const second = mono.Second

// A model that is added is loaded on all GPUs, and routed after that; a second version takes
// over before the first one goes; one that is removed goes.
func TestVersionsComeAndGo(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1", "b/t/0")
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(second)
	if got := c.observed["m/1"]; got.State != schema.Waiting || got.Reason != "for a scheduler" {
		t.Errorf("before the scheduler is there: %+v", got)
	}
	c.connect()
	c.run(10 * second)
	if got := c.serving(); !slices.Equal(got, []string{"m/1"}) || c.observed["m/1"].State != schema.Serving || c.observed["m/1"].GPUs != 3 {
		t.Fatalf("served: %v, observed %+v\n%s", got, c.observed["m/1"], strings.Join(c.story, "\n"))
	}
	c.story = nil
	c.lead.SetModel(c.now, wants("m", 2))
	c.run(10 * second)
	if got := c.serving(); !slices.Equal(got, []string{"m/2"}) {
		t.Fatalf("served: %v\n%s", got, strings.Join(c.story, "\n"))
	}
	to2 := slices.IndexFunc(c.story, func(s string) bool { return strings.HasPrefix(s, "route") && strings.Contains(s, "m/2") })
	from1 := slices.IndexFunc(c.story, func(s string) bool { return strings.HasPrefix(s, "route -") && strings.Contains(s, "m/1") })
	if to2 < 0 || from1 < to2 {
		t.Errorf("the new version must be routed before the old one is not:\n%s", strings.Join(c.story, "\n"))
	}
	if got := c.states(); got["m/1"] != schema.Idle || got["m/2"] != schema.Serving {
		t.Errorf("states %v", got)
	}
	c.lead.RemoveModel(c.now, "m")
	c.run(10 * second)
	if len(c.routes) > 0 || len(c.observed) > 0 || len(c.stock["a/t/0"]) > 0 {
		t.Errorf("after the removal: routed %v, observed %v, stock %v\n%s", c.routes, c.observed, c.stock, strings.Join(c.story, "\n"))
	}
	if h := c.heads[c.lead.plan.Epoch]; h.State != schema.InForce {
		t.Errorf("the last plan: %+v", h)
	}
}

// A version that does not load is Failed with the reason, the version before stays, other
// models are served, and it is tried again.
func TestBrokenVersion(t *testing.T) {
	c := newCluster(t, Config{RetryMin: 5 * second}, "a/t/0", "a/t/1")
	c.connect()
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(5 * second)
	c.broken["m/2"] = "no such file"
	c.lead.SetModel(c.now, wants("m", 2))
	c.lead.SetModel(c.now, wants("other", 1))
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"m/1", "other/1"}) {
		t.Errorf("served: %v\n%s", got, strings.Join(c.story, "\n"))
	}
	if o := c.observed["m/2"]; o.State != schema.Failed || !strings.Contains(o.Reason, "no such file") {
		t.Errorf("observed: %+v", o)
	}
	if h := c.heads[c.lead.plan.Epoch]; h.State != schema.GaveUp || !strings.Contains(h.Reason, "m/2") {
		t.Errorf("the plan: %+v", h)
	}
	delete(c.broken, "m/2")
	c.run(700 * second)
	if got := c.serving(); !slices.Equal(got, []string{"m/2", "other/1"}) {
		t.Errorf("after the mend, served: %v\n%s", got, strings.Join(c.story, "\n"))
	}
}

// A version that failed and that nobody wants any more, or not on that type, is taken from the
// GPUs that tried it, and is gone.
func TestFailedVersionGoes(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	c.connect()
	c.broken["m/1"], c.broken["n/1"] = "no such file", "no such file"
	c.lead.SetModel(c.now, wants("m", 1))
	n := wants("n", 1)
	c.lead.SetModel(c.now, n)
	c.run(5 * second)
	if c.observed["m/1"].State != schema.Failed || c.observed["n/1"].State != schema.Failed {
		t.Fatalf("observed %v", c.states())
	}
	c.lead.RemoveModel(c.now, "m")
	n.Settings.DeviceTypes = []string{"u"}
	c.lead.SetModel(c.now, n)
	c.run(10 * second)
	if _, there := c.observed["m/1"]; there || len(c.stock["a/t/0"])+len(c.stock["b/t/0"]) > 0 || c.observed["n/1"].State != schema.Waiting {
		t.Errorf("observed %v, stock %v\n%s", c.observed, c.stock, strings.Join(c.story, "\n"))
	}
	if h := c.heads[c.lead.plan.Epoch]; h.State != schema.InForce {
		t.Errorf("the plan: %+v", h)
	}
}

// A scheduler that was started again has no GPU for a moment. What was ordered meanwhile waits
// for those that come back, and nothing is taken from them.
func TestOrderWhileTheSchedulerIsAway(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	c.connect()
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(10 * second)
	c.lead.Lost()
	c.lead.SetModel(c.now, wants("late", 1))
	c.run(10 * second)
	gpus, routes := c.gpus, c.routes
	c.epoch, c.story, c.gpus, c.routes = 2, nil, map[string]*catalog.GPUFacts{}, map[string]catalog.ModelFacts{}
	c.connect()
	c.run(second)
	for _, name := range names(gpus) { // with what they had
		c.gpus[name], c.routes = gpus[name], routes
		c.lead.Facts(c.now, c.facts([]string{name}, names(routes)))
		c.run(second)
	}
	c.run(10 * second)
	if got := c.serving(); !slices.Equal(got, []string{"late/1", "m/1"}) || len(c.taken()) > 0 {
		t.Errorf("routed %v; story:\n%s", got, strings.Join(c.story, "\n"))
	}
}

// Shares say which versions are served and answer; a version that is not routed has no part.
func TestShares(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	m := wants("m", 2)
	m.Shares = []schema.Share{{Version: "1", Weight: 9}, {Version: "2", Weight: 1}}
	c.lead.SetModel(c.now, m)
	c.run(10 * second)
	if got := c.names["m"].Shares; !slices.Equal(got, []catalog.Share{{Version: "1", Weight: 9}, {Version: "2", Weight: 1}}) || len(c.routes) != 2 {
		t.Errorf("shares %v, routes %v", got, c.routes)
	}
	m.Shares = nil
	c.lead.SetModel(c.now, m)
	c.run(10 * second)
	if got := c.names["m"].Shares; len(got) > 0 || len(c.routes) != 1 {
		t.Errorf("shares %v, routes %v", got, c.routes)
	}
}

// A plan of people's own moves models and a GPU; what is added then goes into it, and a
// controller that takes over orders nothing new.
func TestByHand(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1", "b/t/0", "b/t/1")
	c.connect()
	for _, name := range []string{"k", "l", "m", "n"} {
		c.lead.SetModel(c.now, wants(name, 1))
	}
	c.run(10 * second)
	var out Effects
	p := plan.Plan{SubClusters: []plan.SubCluster{{Name: "x", DeviceType: "t", Models: []string{"k/1", "l/1"}, GPUs: 3}, {Name: "y", DeviceType: "t", Models: []string{"m/1", "n/1"}, GPUs: 1}}}
	if err := c.lead.Apply(c.now, p, &out); err != nil {
		t.Fatal(err)
	}
	c.take(&out)
	c.run(60 * second)
	in := map[string]int{}
	for _, g := range c.gpus {
		in[g.In]++
	}
	if in["x"] != 3 || in["y"] != 1 || c.routes["k/1"].In != "x" || c.routes["n/1"].In != "y" {
		t.Fatalf("GPUs %v, routes %v\n%s", in, c.routes, strings.Join(c.story, "\n"))
	}
	c.lead.SetModel(c.now, wants("o", 1))
	c.run(60 * second)
	if c.routes["o/1"].In == "" || c.routes["k/1"].In != "x" {
		t.Errorf("routes %v", c.routes)
	}
	next := New(Config{})
	for _, name := range []string{"k", "l", "m", "n", "o"} {
		next.SetModel(c.now, wants(name, 1))
	}
	var parts []schema.SubCluster
	for _, s := range c.lead.plan.SubClusters {
		parts = append(parts, schema.SubCluster{Epoch: c.lead.plan.Epoch, Name: s.Name, DeviceType: s.DeviceType, Models: s.Models, GPUs: s.GPUs, Need: s.Need})
	}
	next.Restore(c.heads[c.lead.plan.Epoch], parts)
	c.lead, c.story = next, nil
	c.connect()
	c.run(60 * second)
	for _, s := range c.story {
		if !strings.HasPrefix(s, "names") && !strings.HasPrefix(s, "set") {
			t.Errorf("a controller that takes over ordered: %s", s)
		}
	}
	bad := plan.Plan{SubClusters: []plan.SubCluster{{Name: "x", DeviceType: "t", Models: []string{"nobody/1"}, GPUs: 1}}}
	if err := c.lead.Apply(c.now, bad, &out); err == nil || !strings.Contains(err.Error(), "nobody/1") {
		t.Errorf("a plan with a model that nobody added: %v", err)
	}
}

// A plan of people's own is one epoch: nothing is amended where it leaves nothing out. A
// scheduler that is started again is told the settings again.
func TestSettingsAreSetAgain(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1")
	c.connect()
	c.letters("mn")
	c.run(10 * second)
	c.lead.SetModel(c.now, slow()) // after it was loaded
	c.run(10 * second)
	var out Effects
	p := plan.Plan{SubClusters: []plan.SubCluster{{Name: "x", DeviceType: "t", Models: []string{"m/1"}, GPUs: 1}, {Name: "y", DeviceType: "t", Models: []string{"n/1"}, GPUs: 1}}}
	before := c.lead.Plan().Epoch
	if err := c.lead.Apply(c.now, p, &out); err != nil {
		t.Fatal(err)
	}
	c.take(&out)
	c.run(30 * second)
	if got := c.lead.Plan().Epoch; got != before+1 || c.heads[got].State != schema.InForce {
		t.Errorf("the plan of people's own became epoch %d after %d: %+v", got, before, c.heads[got])
	}
	for life := range 2 {
		if c.set["m/1"] != int64(3*second) {
			t.Errorf("life %d of the scheduler: SLOs were set to %v\n%s", life, c.set, strings.Join(c.story, "\n"))
		}
		if _, needless := c.set["n/1"]; needless {
			t.Errorf("life %d of the scheduler: n/1 has what its own file says, and was set", life)
		}
		c.epoch++
		clear(c.set)
		c.lead.Lost()
		c.connect()
		c.run(30 * second)
	}
}

// Two sub-clusters of a type are divided by the planner; models and GPUs of an epoch that
// follows stay where they are as far as the bound on moves says.
func TestSubClusters(t *testing.T) {
	c := newCluster(t, Config{SubClusters: 2, MovesMax: 0.2}, "a/t/0", "a/t/1", "b/t/0", "b/t/1")
	c.connect()
	for _, name := range strings.Split("abcdefgh", "") {
		c.lead.SetModel(c.now, wants(name, 1))
	}
	c.run(60 * second)
	in := map[string]int{}
	for _, m := range c.routes {
		in[m.In]++
	}
	if len(c.routes) != 8 || in["t-0"] != 4 || in["t-1"] != 4 || c.gpus["a/t/0"].In == "" {
		t.Fatalf("models by sub-cluster %v\n%s", in, strings.Join(c.story, "\n"))
	}
	before := len(c.story)
	for i := 0; i < 3; i++ {
		c.run(400 * second) // epochs go by
	}
	if len(c.story) > before {
		t.Errorf("nothing has changed, and yet: %v", c.story[before:])
	}
	if c.lead.plan.Epoch > 8 {
		t.Errorf("%d plans were made", c.lead.plan.Epoch)
	}
}

// Needs that have moved call for another plan of sub-clusters, and those that wobble do not.
func TestNeedsMoveGPUs(t *testing.T) {
	c := newCluster(t, Config{SubClusters: 2, MovesMax: 0.01}, "a/t/0", "a/t/1", "b/t/0", "b/t/1", "c/t/0", "c/t/1")
	c.connect()
	for _, name := range strings.Split("abcdefgh", "") {
		c.lead.SetModel(c.now, wants(name, 1))
	}
	c.run(60 * second)
	epoch := c.lead.plan.Epoch
	c.needs(func(in string) float64 { return 0.1 })
	c.run(100 * second)
	if c.lead.plan.Epoch != epoch {
		t.Errorf("needs as before, and yet plan %+v", c.lead.head)
	}
	c.needs(func(in string) float64 { // 3.6 GPUs in one, 0.4 in the other
		if in == "t-0" {
			return 0.9
		}
		return 0.1
	})
	c.run(100 * second)
	in := map[string]int{}
	for _, g := range c.gpus {
		in[g.In]++
	}
	if in["t-0"] < 4 || in["t-1"] < 1 {
		t.Errorf("GPUs %v; %+v\n%s", in, c.lead.head, strings.Join(c.story, "\n"))
	}
}
