package lead

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// loading are the sources of the next orders to load.
func (c *cluster) loading() (all []catalog.Source) {
	var out Effects
	c.lead.Step(c.now, &out)
	c.take(&out)
	for _, o := range out.Orders {
		all = append(all, o.Sources...)
	}
	for _, o := range out.Orders {
		c.lead.Outcome(c.now, c.carryOut(o), &out)
	}
	return all
}

// learnsFrom hands the model to a controller whose scheduler has nothing of it but what learn tells:
// the first order has the digest.
func (c *cluster) learnsFrom(t *testing.T, want catalog.Digest, learn func()) {
	c.next(Config{}, "m")
	learn()
	c.gpus = map[string]*catalog.GPUFacts{"b/t/0": {Name: "b/t/0", DeviceType: "t", State: catalog.GPUServing, Memory: 1000}}
	c.stock["b/t/0"] = map[string]string{}
	clear(c.routes)
	c.epoch++
	c.connect()
	var all []catalog.Source
	for end := c.now.Add(10 * second); len(all) == 0 && c.now < end; c.now = c.now.Add(second / 10) {
		all = c.loading()
	}
	if len(all) != 1 || all[0].Digest != want {
		t.Errorf("ordered %+v, want digest %s", all, want)
	}
}

// The files of the first load are ordered of all that follow, also by a controller that takes over
// and has heard nothing of them, and are told.
func TestFilesAreLearnt(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.letters("m")
	c.run(10 * second)
	want := catalog.DigestOf([]byte("m/1"))
	if o := c.observed["m/1"]; o.Digest != string(want) {
		t.Fatalf("told %+v, want digest %s", o, want)
	}
	told := c.observed["m/1"]
	t.Run("a controller takes over", func(t *testing.T) { c.learnsFrom(t, want, func() { c.lead.Told(told) }) })
	t.Run("the model comes from another scheduler", func(t *testing.T) { c.learnsFrom(t, want, func() { c.lead.Learnt(told) }) })
	c.run(10 * second)
	c.lies["m/1"] = catalog.DigestOf([]byte("other"))
	c.gpus["c/t/0"] = &catalog.GPUFacts{Name: "c/t/0", DeviceType: "t", State: catalog.GPUFree, In: catalog.Nowhere, Memory: 1000}
	c.stock["c/t/0"] = map[string]string{}
	c.lead.Facts(c.now, c.facts([]string{"c/t/0"}, []string{}))
	c.run(60 * second)
	if c.stock["c/t/0"]["m/1"] == catalog.StateReady {
		t.Error("other files were loaded under the same version")
	}
	if !slices.Contains(c.serving(), "m/1") {
		t.Errorf("served %v", c.serving())
	}
}

// Two backends get different files for the first time: one is not used, the version has failed and
// says why. It is served once its source is mended, on GPUs that let go of the others.
func TestFilesThatDiffer(t *testing.T) {
	c := newCluster(t, Config{RetryMin: 5 * second}, "a/t/0", "b/t/0", "b/t/1")
	c.connect()
	other := catalog.DigestOf([]byte("other"))
	c.lies["b/t/0 m/1"], c.lies["b/t/1 m/1"] = other, other
	c.letters("m")
	c.run(20 * second)
	if o := c.observed["m/1"]; o.State != schema.Failed || !strings.Contains(o.Reason, "files") || len(c.routes) > 0 {
		t.Fatalf("routed %v, told %+v", c.routes, o)
	}
	clear(c.lies)
	c.run(60 * second)
	if o := c.observed["m/1"]; o.State != schema.Serving {
		t.Errorf("told %+v\n%s", o, strings.Join(c.story, "\n"))
	}
}

// People say that the files are other ones: what was learnt is forgotten, and nothing is loaded
// before those of before are gone; also by a controller that takes over in between.
func TestFilesAreRenewed(t *testing.T) {
	for _, restart := range []bool{false, true} {
		c := newCluster(t, Config{}, "a/t/0", "b/t/0")
		c.connect()
		c.letters("m")
		c.run(10 * second)
		before, after := catalog.DigestOf([]byte("m/1")), catalog.DigestOf([]byte("after"))
		c.lies["m/1"] = after
		doc := wants("m", 1)
		doc.Versions[0].Renewed = 7
		if told := c.observed["m/1"]; restart {
			c.next(Config{}, "")
			c.lead.SetModel(c.now, doc)
			c.lead.Told(told)
			c.connect()
		} else {
			c.lead.SetModel(c.now, doc)
		}
		for range 200 {
			c.run(second / 20)
			if c.files["a/t/0 m/1"] == after && c.files["b/t/0 m/1"] == before || c.files["b/t/0 m/1"] == after && c.files["a/t/0 m/1"] == before {
				t.Fatalf("two files of one version: %v", c.files)
			}
		}
		if o := c.observed["m/1"]; o.State != schema.Serving || o.Digest != string(after) || o.Files != 7 || c.files["a/t/0 m/1"] != after {
			t.Errorf("restart %v: told %+v, files %v\n%s", restart, o, c.files, strings.Join(c.story, "\n"))
		}
	}
}

// renews says that m's files are other ones, and has them so.
func (c *cluster) renews() {
	c.lies["m/1"] = catalog.DigestOf([]byte("after"))
	doc := wants("m", 1)
	doc.Versions[0].Renewed = 7
	c.lead.SetModel(c.now, doc)
	c.story = nil
}

// A load that the plan of before has tried again meanwhile waits, too: until those of before are
// unloaded it would bring other files than the rest have, and have them measured.
func TestRenewedWhileLoading(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/u/0")
	c.connect()
	c.letters("m")
	c.run(10 * second)
	c.gpus["c/t/0"] = &catalog.GPUFacts{Name: "c/t/0", DeviceType: "t", State: catalog.GPUServing, Memory: 1000}
	c.stock["c/t/0"], c.lies["c/t/0 m/1"] = map[string]string{}, "sha256:torn"
	c.lead.Facts(c.now, c.facts([]string{"c/t/0"}, []string{}))
	for c.loadsOf("m/1") < 2 {
		c.run(second / 100)
	}
	c.run(9 * second / 10) // the next try is 1 s after the first one, before the next plan
	delete(c.lies, "c/t/0 m/1")
	c.renews()
	c.run(20 * second)
	load, unload := slices.Index(c.story, "load c/t/0 m/1"), slices.Index(c.story, "unload a/t/0 [m/1]")
	if unload < 0 || load < unload || c.observed["m/1"].State != schema.Serving || c.files["c/t/0 m/1"] != c.lies["m/1"] {
		t.Errorf("told %+v\n%s", c.observed["m/1"], strings.Join(c.story, "\n"))
	}
}

// What is known of a version is known until its files of before are unloaded: it is served with its
// settings, and nothing is to be set.
func TestKnownWhileRenewed(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	c.connect()
	c.letters("m")
	c.run(10 * second)
	c.letters("mn") // a plan that says m's settings: they are known now
	c.run(10 * second)
	c.renews()
	c.gpus["b/t/0"].State, c.stock["b/t/0"]["m/1"] = catalog.GPUOut, catalog.StateGone
	c.lead.Facts(c.now, c.facts([]string{"b/t/0"}, []string{}))
	c.run(20 * second)
	if story := strings.Join(c.story, "\n"); strings.Contains(story, "set") || c.observed["m/1"].State != schema.Serving {
		t.Errorf("told %+v\n%s", c.observed["m/1"], story)
	}
}

// Other files are tried at once, whatever became of those of before.
func TestRenewedAfterAFailure(t *testing.T) {
	c := newCluster(t, Config{RetryMin: 600 * second}, "a/t/0")
	c.connect()
	c.broken["m/1"] = "no model"
	c.letters("m")
	c.run(20 * second)
	delete(c.broken, "m/1")
	c.renews()
	c.run(10 * second)
	if o := c.observed["m/1"]; o.State != schema.Serving {
		t.Errorf("told %+v\n%s", o, strings.Join(c.story, "\n"))
	}
}

// Where nobody has files of before any more, the plan of before loads the others at once, and has
// one GPU measure them.
func TestRenewedWhereNobodyHasThem(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	for _, name := range names(c.gpus) {
		c.gpus[name].Measures = true
	}
	c.connect()
	c.letters("m")
	c.run(10 * second)
	delete(c.routes, "m/1")
	c.lead.Facts(c.now, c.facts([]string{}, []string{"m/1"}))
	for _, name := range names(c.gpus) { // they were started again
		c.stock[name]["m/1"] = catalog.StateGone
	}
	c.lead.Facts(c.now, c.facts(names(c.gpus), []string{}))
	c.probed = nil
	c.renews()
	c.run(20 * second)
	if len(c.probed) != 1 || c.observed["m/1"].State != schema.Serving {
		t.Errorf("measured %v, told %+v\n%s", c.probed, c.observed["m/1"], strings.Join(c.story, "\n"))
	}
}
