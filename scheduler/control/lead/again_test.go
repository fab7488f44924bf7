package lead

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// letters are as many models.
func (c *cluster) letters(all string) {
	for _, name := range strings.Split(all, "") {
		c.lead.SetModel(c.now, wants(name, 1))
	}
}

// next is a controller that takes over from the cluster's, with the same wishes.
func (c *cluster) next(cfg Config, all string) {
	var parts []schema.SubCluster
	for _, s := range c.lead.plan.SubClusters {
		parts = append(parts, schema.SubCluster{Epoch: c.lead.plan.Epoch, Name: s.Name, DeviceType: s.DeviceType, Models: s.Models, GPUs: s.GPUs, Need: s.Need})
	}
	head := c.lead.head
	c.lead = New(cfg)
	c.lead.Restore(head, parts)
	c.letters(all)
}

// All is started again, and GPUs come one by one: models and GPUs are in the sub-clusters that
// they were in, of a plan of the planner's and of one of people's own, and no plan is made for
// the first of the GPUs.
func TestAllIsStartedAgain(t *testing.T) {
	byHand := plan.Plan{SubClusters: []plan.SubCluster{
		{Name: "x", DeviceType: "t", Models: []string{"a/1", "d/1", "e/1"}, GPUs: 3}, {Name: "y", DeviceType: "t", Models: []string{"b/1", "c/1", "f/1"}, GPUs: 1}}}
	odd := plan.Plan{SubClusters: []plan.SubCluster{ // as the rates of some day had it
		{Name: "t-0", DeviceType: "t", Models: []string{"a/1", "b/1", "c/1", "d/1"}, GPUs: 2}, {Name: "t-1", DeviceType: "t", Models: []string{"e/1", "f/1"}, GPUs: 2}}}
	for i, p := range []plan.Plan{{}, byHand, odd} {
		cfg := Config{SubClusters: 2}
		c := newCluster(t, cfg, "a/t/0", "a/t/1", "b/t/0", "b/t/1")
		c.connect()
		c.letters("abcdef")
		c.run(60 * second)
		if len(p.SubClusters) > 0 {
			var out Effects
			if err := c.lead.Apply(c.now, p, &out); err != nil {
				t.Fatal(err)
			}
			c.run(60 * second)
		}
		if i == 2 {
			c.lead.head.Cause = plan.Regular.String()
		}
		before, epoch, gpus := maps.Clone(c.routes), c.lead.plan.Epoch, c.gpus
		c.next(cfg, "abcdef")
		c.epoch, c.gpus = 2, map[string]*catalog.GPUFacts{}
		clear(c.routes)
		c.connect()
		c.run(20 * second) // backends take their time
		for _, name := range names(gpus) {
			gpus[name].State, gpus[name].In = catalog.GPUFree, catalog.Nowhere
			c.gpus[name], c.stock[name] = gpus[name], map[string]string{}
			c.lead.Facts(c.now, c.facts([]string{name}, []string{}))
			c.run(second / 2)
		}
		c.run(60 * second)
		for _, key := range names(before) {
			if got := c.routes[key].In; got != before[key].In {
				t.Errorf("plan %d: %s was in %q, and is in %q", i, key, before[key].In, got)
			}
		}
		if c.lead.plan.Epoch > epoch+1 {
			t.Errorf("plan %d became plan %d: %+v", epoch, c.lead.plan.Epoch, c.lead.plan)
		}
	}
}

// A model that is not loaded yet stays where the last plan has it.
func TestPlannedIsWhereItIs(t *testing.T) {
	c := newCluster(t, Config{SubClusters: 2}, "a/t/0", "b/t/0")
	c.lead.Restore(schema.Plan{Epoch: 1, State: schema.InForce}, []schema.SubCluster{
		{Name: "t-0", DeviceType: "t", Models: []string{"b/1"}, GPUs: 1}, {Name: "t-1", DeviceType: "t", Models: []string{"a/1", "c/1"}, GPUs: 1}})
	c.letters("abc")
	c.connect()
	if d := c.lead.sketch(); len(d.parts) != 1 || !slices.Equal(d.parts[0].Problem.From, []int{1, 0, 1}) {
		t.Errorf("%+v", d.parts)
	}
}

// What a controller told of names is taken back by the one that follows, where wishes have
// changed between them.
func TestNamesOfBefore(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	m := wants("m", 2)
	m.Shares = []schema.Share{{Version: "1", Weight: 9}, {Version: "2", Weight: 1}}
	c.lead.SetModel(c.now, m)
	c.run(10 * second)
	if len(c.names["m"].Shares) != 2 {
		t.Fatalf("shares %v", c.names["m"].Shares)
	}
	c.next(Config{}, "n")
	c.lead.SetModel(c.now, wants("m", 2)) // without its shares
	c.connect()
	c.run(10 * second)
	if got := c.names["m"].Shares; len(got) > 0 {
		t.Errorf("shares of the controller before: %v", got)
	}
}

// A controller ended before its plans were stored, or the store lost them: orders of the next
// one are not taken for older ones.
func TestPlansThatWereNotStored(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.letters("k")
	c.run(10 * second)
	c.plan = 50
	c.lead = New(Config{})
	c.letters("kl")
	c.connect()
	c.run(10 * second)
	if got := c.serving(); !slices.Equal(got, []string{"k/1", "l/1"}) || c.lead.plan.Epoch <= 50 {
		t.Errorf("served %v by plan %d", got, c.lead.plan.Epoch)
	}
}

// An SLO that is changed while the model is loaded is in force once it is, also while epochs
// are paused.
func TestSettingsWhileLoaded(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.lead.Pause(c.now, true)
	c.letters("k")
	var out Effects
	for c.now = c.now.Add(second); len(out.Orders) == 0; c.now = c.now.Add(second) {
		c.lead.Step(c.now, &out)
	}
	orders := out.Orders
	m := wants("k", 1)
	m.Settings.SLO = 3 * second
	c.lead.SetModel(c.now, m)
	for range 5 { // a plan is made of it
		c.now = c.now.Add(second)
		c.lead.Step(c.now, &out)
	}
	for _, o := range orders {
		c.lead.Outcome(c.now, c.carryOut(o), &out)
	}
	c.run(60 * second)
	if c.set["k/1"] != int64(3*second) {
		t.Errorf("SLOs were set to %v: %v", c.set, c.story)
	}
}

// A model of which no request can make its SLO is served, and says so until its SLO is another.
func TestInfeasibleIsObserved(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	m := wants("k", 1)
	m.Settings.SLO = second / 1000
	c.lead.SetModel(c.now, m)
	c.run(60 * second)
	if o := c.observed["k/1"]; o.State != schema.Serving || !strings.Contains(o.Reason, "one item takes 2ms, more than its SLO of 1ms") {
		t.Errorf("observed %+v", o)
	}
	m.Settings.SLO = second
	c.lead.SetModel(c.now, m)
	c.run(60 * second)
	if o := c.observed["k/1"]; o.State != schema.Serving || o.Reason != "" {
		t.Errorf("observed %+v with another SLO", o)
	}
}

// A model whose files have changed, and cannot be served as they are now, is served as before, and says why.
func TestOutdatedIsObserved(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.letters("k")
	c.run(60 * second)
	for _, why := range []string{"no graph", ""} {
		f := c.facts([]string{"a/t/0"}, []string{})
		for i := range f.GPUs[0].Stock {
			f.GPUs[0].Stock[i].Outdated = why
		}
		c.lead.Facts(c.now, f)
		c.run(60 * second)
		if o := c.observed["k/1"]; o.State != schema.Serving || strings.Contains(o.Reason, "a/t/0: no graph") != (why != "") {
			t.Errorf("why: %q; observed %+v", why, o)
		}
	}
}

// Models that no plan has room for wait, and say why.
func TestNoPlan(t *testing.T) {
	c := newCluster(t, Config{SubClusters: 2, ModelsMax: 2}, "a/t/0", "b/t/0")
	c.connect()
	c.letters("klmn")
	c.run(60 * second)
	c.letters("o")
	c.run(60 * second)
	if o := c.observed["o/1"]; o.State != schema.Waiting || !strings.Contains(o.Reason, "no plan") || len(c.serving()) != 4 {
		t.Errorf("served %v, the fifth is told as %+v", c.serving(), o)
	}
	c.lead.RemoveModel(c.now, "k")
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"l/1", "m/1", "n/1", "o/1"}) {
		t.Errorf("served %v: %+v", got, c.observed)
	}
}

// A scheduler that refuses names is not asked again at once.
func TestNamesRefused(t *testing.T) {
	c := newCluster(t, Config{RetryMin: 10 * second}, "a/t/0")
	c.connect()
	m := wants("m", 2)
	m.Shares = []schema.Share{{Version: "1", Weight: 9}, {Version: "2", Weight: 1}}
	c.lead.SetModel(c.now, m)
	c.run(10 * second)
	c.refuse, c.story, m.Shares = "too many", nil, nil
	c.lead.SetModel(c.now, m)
	var out Effects
	for range 50 {
		c.lead.Step(c.now, &out)
		for _, o := range out.Orders {
			c.lead.Outcome(c.now, c.carryOut(o), &out)
		}
		out.Orders = nil
	}
	if len(c.story) != 1 {
		t.Errorf("ordered %d times at once: %v", len(c.story), c.story)
	}
	c.refuse = ""
	c.run(20 * second)
	if len(c.lead.unnamed)+len(c.lead.doubted) > 0 || len(c.story) < 2 {
		t.Errorf("it was not tried again: %v", c.story)
	}
}

// Of models that come and go nothing is left.
func TestNothingIsLeft(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1")
	c.lead.Profile(schema.Measured{Model: "long", Version: "1", DeviceType: "gone", Static: 1})
	c.connect()
	for range 5 {
		for _, name := range []string{"k", "l", "m"} {
			m := wants(name, 2)
			m.Settings.SLO = 3 * second
			m.Shares = []schema.Share{{Version: "1", Weight: 9}, {Version: "2", Weight: 1}}
			c.lead.SetModel(c.now, m)
		}
		c.run(20 * second)
		m := wants("m", 2)
		m.Settings.SLO = 2 * second
		c.lead.SetModel(c.now, m)
		c.run(20 * second)
		for _, name := range []string{"k", "l", "m"} {
			c.lead.RemoveModel(c.now, name)
		}
		c.run(20 * second)
	}
	l := c.lead
	if n := len(l.known) + len(l.told) + len(l.dirty) + len(l.inForce) + len(l.named) + len(l.unnamed) + len(l.doubted) + len(l.orders) + len(l.files) + len(l.renew) + len(l.failed.versions) + len(l.failed.others); n > 0 {
		t.Errorf("known %v, told %v, dirty %v, in force %v, named %v, unnamed %v, doubted %v, orders %v", l.known, l.told, l.dirty, l.inForce, l.named, l.unnamed, l.doubted, l.orders)
	}
	if w := l.world; len(w.about)+len(w.holders)+len(w.models)+len(w.moved) > 0 {
		t.Errorf("about %v, holders %v, routed %v, moved %v", w.about, w.holders, w.models, w.moved)
	}
}

// What models take on a device type is known before they are loaded, when it was measured in
// an earlier life: as many sub-clusters are planned as memory wants.
func TestMeasuredBefore(t *testing.T) {
	c := newCluster(t, Config{MovesMax: 1}, "a/t/0", "a/t/1", "b/t/0", "b/t/1")
	for _, name := range []string{"k", "l", "m", "n"} {
		c.lead.Profile(schema.Measured{Model: name, Version: "1", DeviceType: "t", Static: 250, Dynamic: 10})
	}
	c.letters("klmn")
	c.connect()
	d := c.lead.sketch()
	if len(d.parts) != 1 || d.parts[0].Problem == nil || d.parts[0].Problem.SubClusters != 2 {
		t.Errorf("four models of 250 of 1000 bytes are divided as %+v, wanted 2 sub-clusters", d.parts)
	}
}

// A partition that was under way when the scheduler was lost is void; what called for it is not.
func TestLostWhileComputed(t *testing.T) {
	c := newCluster(t, Config{SubClusters: 2}, "a/t/0", "a/t/1", "b/t/0", "b/t/1")
	c.connect()
	c.letters("abcd")
	c.run(60 * second)
	c.lead.Pause(c.now, true)
	c.letters("e")
	var out Effects
	for end := c.now.Add(second); out.Task == nil && c.now < end; c.now = c.now.Add(mono.Millisecond) {
		c.lead.Step(c.now, &out)
	}
	if out.Task == nil {
		t.Fatal("no partition is computed")
	}
	out.Task.Solve(1, func(steps int64) bool { return steps < 1e4 }, nil, 0)
	c.lead.Lost()
	epoch := c.lead.plan.Epoch
	if c.lead.Partitioned(c.now, out.Task, &out); c.lead.plan.Epoch != epoch {
		t.Error("a plan was made of what is not known any more")
	}
	c.connect()
	c.run(60 * second)
	if !slices.Contains(c.serving(), "e/1") {
		t.Errorf("served: %v: what was added is forgotten", c.serving())
	}
}

// The sub-clusters that are told are the caller's: the loop goes on with its own.
func TestSubClustersAreTheCallers(t *testing.T) {
	c := newCluster(t, Config{})
	c.lead.Facts(c.now, &catalog.Facts{Epoch: 1, Whole: true, SubClusters: []catalog.SubClusterFacts{{Name: "x", DeviceType: "t", GPUs: 1}}})
	clear(c.lead.SubClusters())
	if len(c.lead.SubClusters()) != 1 {
		t.Error("the map is the lead's own")
	}
}

// A controller that ended before its last plan was stored: the next one takes over an older plan, and
// takes nothing out of service that came with the newer one.
func TestPlanThatWasNotStored(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	c.connect()
	c.letters("k")
	c.run(10 * second)
	older, head := c.lead.plan, c.lead.head
	c.letters("mn")
	c.run(10 * second)
	served := c.serving()
	if len(served) != 3 || c.lead.plan.Epoch <= older.Epoch {
		t.Fatalf("served %v by plan %d", served, c.lead.plan.Epoch)
	}
	var parts []schema.SubCluster
	for _, s := range older.SubClusters {
		parts = append(parts, schema.SubCluster{Epoch: older.Epoch, Name: s.Name, DeviceType: s.DeviceType, Models: s.Models, GPUs: s.GPUs, Need: s.Need})
	}
	c.lead, c.story = New(Config{}), nil
	c.lead.Restore(head, parts)
	c.letters("kmn")
	c.connect()
	c.run(10 * second)
	if story := strings.Join(c.story, "\n"); !slices.Equal(c.serving(), served) || strings.Contains(story, "route -") || strings.Contains(story, "load") {
		t.Errorf("served %v, then %v\n%s", served, c.serving(), story)
	}
}

// While no scheduler is there, a version that is removed is gone if nobody had anything of it, and
// stays as it was told if somebody had.
func TestRemovedWithoutScheduler(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.letters("k")
	c.run(60 * second)
	c.lead.Lost()
	c.letters("l")
	c.run(second)
	if got := c.states(); got["k/1"] != schema.Serving || got["l/1"] != schema.Waiting {
		t.Fatalf("told %v", got)
	}
	c.lead.RemoveModel(c.now, "k")
	c.lead.RemoveModel(c.now, "l")
	c.run(second)
	if got := c.states(); len(got) != 1 || got["k/1"] != schema.Serving {
		t.Errorf("told %v", got)
	}
	c.connect()
	c.run(60 * second)
	if got := c.states(); len(got) != 0 {
		t.Errorf("told %v", got)
	}
}

// A backend that is lost and back between two looks of its scheduler's: its GPUs and models are among what is gone
// and among what is there, in one document. They are there.
func TestGoneAndBackInOneDocument(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1")
	c.connect()
	c.letters("ab")
	c.run(60 * second)
	f := c.facts([]string{"a/t/0", "a/t/1"}, []string{"a/1", "b/1"})
	f.GoneGPUs, f.GoneModels = []string{"a/t/0", "a/t/1"}, []string{"a/1", "b/1"}
	c.lead.Facts(c.now, f)
	c.run(60 * second)
	if n := c.lead.world.count()["t"]; n != 2 {
		t.Errorf("%d GPUs are known, there are 2", n)
	}
	if c.lead.rollout != nil {
		if p := c.lead.rollout.Problems(); len(p) > 0 {
			t.Errorf("the plan is not in force: %v", p)
		}
	}
	for _, key := range []string{"a/1", "b/1"} {
		if _, there := c.lead.world.models[key]; !there {
			t.Errorf("%s is served, and not known", key)
		}
	}
}
