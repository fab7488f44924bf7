package lead

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// on is a model that may only be served on a type.
func on(deviceType string, m schema.Model) schema.Model {
	m.Settings.DeviceTypes = []string{deviceType}
	return m
}

// crowd is a cluster whose type t serves four models in two sub-clusters, and has no place for a
// fifth.
func crowd(t *testing.T) *cluster {
	c := newCluster(t, Config{SubClusters: 2, ModelsMax: 2}, "a/t/0", "b/t/0", "b/t/1", "c/u/0")
	c.connect()
	for _, name := range []string{"k", "l", "m", "n"} {
		c.lead.SetModel(c.now, on("t", wants(name, 1)))
	}
	c.run(60 * second)
	if len(c.routes) != 4 {
		t.Fatalf("served %v", c.serving())
	}
	return c
}

// Where the models of a type cannot be divided the other types get their plan, what is served on
// it stays where it is, and who waits is told why.
func TestOneTypeWithoutAPlan(t *testing.T) {
	c := crowd(t)
	where := map[string]string{}
	for _, key := range c.serving() {
		where[key] = c.routes[key].In
	}
	c.lead.SetModel(c.now, on("t", wants("o", 1)))
	c.lead.SetModel(c.now, on("u", wants("p", 1)))
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"k/1", "l/1", "m/1", "n/1", "p/1"}) {
		t.Errorf("served %v, told %+v", got, c.observed)
	}
	for key, in := range where {
		if c.routes[key].In != in {
			t.Errorf("%s was in %s, and is in %s", key, in, c.routes[key].In)
		}
	}
	if o := c.observed["o/1"]; o.State != schema.Waiting || !strings.Contains(o.Reason, "no plan") || !strings.Contains(o.Reason, "type t") {
		t.Errorf("the fifth is told as %+v", o)
	}
	p, err := c.lead.Preview()
	if err != nil {
		t.Fatal(err)
	}
	p.Task.Solve(1, func(steps int64) bool { return steps < 1e4 }, nil, 0)
	made, err := c.lead.Previewed(p)
	made.Settings = c.lead.plan.Settings
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "device type t: no plan") || !same(&made, &c.lead.plan) {
		t.Errorf("previewed as %+v with %v, %v", made, p.Notes, err)
	}
	c.lead.RemoveModel(c.now, "k")
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"l/1", "m/1", "n/1", "o/1", "p/1"}) {
		t.Errorf("with one less served %v: %+v", got, c.observed)
	}
}

// Meanwhile a GPU goes, a model goes, and a version is to follow another: what there is holds as
// far as it is still there, and the version before stays.
func TestOneTypeWithoutAPlanChanges(t *testing.T) {
	c := crowd(t)
	c.lead.SetModel(c.now, on("t", wants("o", 1)))
	c.lead.SetModel(c.now, on("t", wants("q", 1)))
	c.lead.SetModel(c.now, on("t", wants("k", 2)))
	c.lead.RemoveModel(c.now, "l")
	c.gpus["b/t/1"].State = catalog.GPUOut
	c.stock["b/t/1"] = map[string]string{}
	c.lead.Facts(c.now, c.facts([]string{"b/t/1"}, []string{}))
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"k/1", "m/1", "n/1"}) {
		t.Errorf("served %v: %+v", got, c.observed)
	}
	gpus := 0
	for _, s := range c.lead.plan.SubClusters {
		if gpus += s.GPUs; s.GPUs != 1 && s.DeviceType == "t" {
			t.Errorf("%+v", s)
		}
	}
	if gpus > 3 {
		t.Errorf("a plan of %d GPUs, and there are 3: %+v", gpus, c.lead.plan)
	}
	c.lead.RemoveModel(c.now, "q")
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"k/2", "m/1", "n/1", "o/1"}) {
		t.Errorf("with room for all served %v: %+v", got, c.observed)
	}
}

// The first plan of a controller that has lost the last one keeps what is routed on such a type,
// and people's own plan takes nothing more there.
func TestOneTypeWithoutAPlanAnew(t *testing.T) {
	c := crowd(t)
	c.lead = New(Config{SubClusters: 2, ModelsMax: 2})
	for _, name := range []string{"k", "l", "m", "n", "o"} {
		c.lead.SetModel(c.now, on("t", wants(name, 1)))
	}
	c.lead.SetModel(c.now, on("u", wants("p", 1)))
	c.story = nil
	c.connect()
	c.run(60 * second)
	if got := c.serving(); !slices.Equal(got, []string{"k/1", "l/1", "m/1", "n/1", "p/1"}) {
		t.Errorf("served %v: %+v\n%s", got, c.observed, strings.Join(c.story, "\n"))
	}
	var out Effects
	p := plan.Plan{SubClusters: slices.Clone(c.lead.plan.SubClusters)}
	if err := c.lead.Apply(c.now, p, &out); err != nil {
		t.Fatal(err)
	}
	c.take(&out)
	c.run(60 * second)
	if o := c.observed["o/1"]; len(c.routes) != 5 || o.State != schema.Waiting {
		t.Errorf("served %v, the fifth is %+v", c.serving(), o)
	}
}
