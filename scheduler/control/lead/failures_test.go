package lead

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// loadsOf counts the orders to load a model.
func (c *cluster) loadsOf(key string) (n int) {
	for _, line := range c.story {
		if strings.HasPrefix(line, "load ") && strings.HasSuffix(line, " "+key) {
			n++
		}
	}
	return n
}

// A model that cannot run on the device type with most GPUs is served on another one, and
// nothing of it is left on the first. A controller that takes over leaves it there.
func TestAnotherType(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1", "b/u/0")
	c.broken["m/1 t"] = "no such operator"
	c.connect()
	c.letters("m")
	c.lead.SetModel(c.now, wants("other", 1))
	c.run(10 * second)
	if m := c.routes["m/1"]; m.DeviceType != "u" || c.routes["other/1"].DeviceType != "t" || len(c.stock["a/t/0"]) != 1 || len(c.stock["a/t/1"]) != 1 {
		t.Fatalf("routed to %v, stock %v\n%s", c.routes, c.stock, strings.Join(c.story, "\n"))
	}
	if o := c.observed["m/1"]; o.State != schema.Serving || o.Reason != "" {
		t.Errorf("observed %+v", o)
	}
	n := len(c.story)
	c.run(2000 * second)
	if len(c.story) > n {
		t.Errorf("it is served, and yet: %v", c.story[n:])
	}
	c.next(Config{}, "m")
	c.lead.SetModel(c.now, wants("other", 1))
	c.epoch = 2
	for _, name := range names(c.gpus) { // all of it was started again
		c.stock[name] = map[string]string{}
	}
	clear(c.routes)
	n = c.loadsOf("m/1")
	c.connect()
	c.run(10 * second)
	if got := c.loadsOf("m/1") - n; got != 1 || c.routes["m/1"].DeviceType != "u" {
		t.Errorf("routed to %v with %d loads\n%s", c.routes, got, strings.Join(c.story, "\n"))
	}
}

// While another type is tried the version is not told as failed.
func TestAnotherTypeIsTold(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1", "b/u/0")
	c.broken["m/1 t"] = "no such operator"
	c.connect()
	c.letters("m")
	for end := c.now.Add(10 * second); c.now < end && c.loads < 7; {
		var out Effects
		c.lead.Step(c.now, &out)
		c.take(&out)
		for _, o := range out.Orders {
			if o.GPU == "b/u/0" && c.observed["m/1"].State == schema.Failed {
				t.Errorf("it is ordered on another type, and told as %+v", c.observed["m/1"])
			}
			c.lead.Outcome(c.now, c.carryOut(o), &out)
		}
		c.now = max(c.now+1, c.lead.Wake())
	}
	if c.loadsOf("m/1") < 7 {
		t.Errorf("%v", c.story)
	}
}

// A version that fails on every type is failed with the reason of each, and is tried on them in
// turn, less and less often; at once where people say so, or have changed it.
func TestNoTypeIsLeft(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1", "b/u/0")
	c.broken["m/1 t"], c.broken["m/1 u"] = "no such operator", "wrong precision"
	c.connect()
	c.letters("m")
	c.run(20 * second)
	if o := c.observed["m/1"]; o.State != schema.Failed || !strings.Contains(o.Reason, "t: ") || !strings.Contains(o.Reason, "no such operator") || !strings.Contains(o.Reason, "u: ") || !strings.Contains(o.Reason, "wrong precision") {
		t.Errorf("observed %+v", o)
	}
	if n := c.loadsOf("m/1"); n > 9 {
		t.Errorf("%d loads in 20 s", n)
	}
	c.run(6 * 600 * second)
	hour := c.loadsOf("m/1")
	c.run(6 * 600 * second)
	if n := c.loadsOf("m/1") - hour; n < 3*6 || n > 9*7 { // three tries each on two GPUs, and on one
		t.Errorf("%d loads in an hour, with 10 minutes between tries", n)
	}
	n := c.loadsOf("m/1")
	c.lead.SetModel(c.now, wants("m", 1)) // the same, said again
	c.run(5 * second)
	again := c.loadsOf("m/1")
	if again == n {
		t.Error("it was said again, and not tried again")
	}
	if err := c.lead.Now(c.now); err != nil {
		t.Fatal(err)
	}
	c.run(5 * second)
	if c.loadsOf("m/1") == again {
		t.Error("a plan was asked for, and what failed not tried again")
	}
	c.run(300 * second)
	delete(c.broken, "m/1 t")
	changed := wants("m", 1)
	changed.Versions[0].Source = "file:///elsewhere/m"
	c.lead.SetModel(c.now, changed)
	c.run(5 * second)
	if m := c.routes["m/1"]; m.DeviceType != "t" {
		t.Errorf("another source, and it is in %+v: %+v", m, c.observed["m/1"])
	}
}

// What takes more memory than any GPU of a type has goes elsewhere without a try; where there is
// no other type it has failed, and says with which numbers.
func TestTooLargeForTheType(t *testing.T) {
	for _, gpus := range [][]string{{"a/t/0", "a/t/1", "b/u/0"}, {"a/t/0"}} {
		c := newCluster(t, Config{}, gpus...)
		if len(gpus) > 1 {
			c.gpus["b/u/0"].Memory = 8 << 20
		}
		c.lead.Profile(schema.Measured{Model: "m", Version: "1", DeviceType: "t", Static: 3 << 20, Dynamic: 1 << 20})
		c.letters("mn")
		c.connect()
		c.run(20 * second)
		o := c.observed["m/1"]
		switch {
		case c.stock["a/t/0"]["m/1"] != "":
			t.Errorf("%v: it was loaded where it does not fit", gpus)
		case len(gpus) > 1 && c.routes["m/1"].DeviceType != "u":
			t.Errorf("%v: %+v", gpus, o)
		case len(gpus) == 1 && (o.State != schema.Failed || !strings.Contains(o.Reason, "4.0 MiB")):
			t.Errorf("%v: %+v", gpus, o)
		}
		if !slices.Contains(c.serving(), "n/1") {
			t.Errorf("%v: served %v", gpus, c.serving())
		}
	}
}

// A version that fails is tried as often as its back-off says, however many plans are made
// meanwhile; another digest ends the wait.
func TestBackOffSurvivesPlans(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.broken["m/1"] = "no such file"
	c.connect()
	c.letters("m")
	for i := range 300 {
		c.lead.SetModel(c.now, wants(fmt.Sprint("n", i%7), 1+i/7%20))
		c.run(2 * second)
	}
	if epochs := c.lead.plan.Epoch; epochs < 200 {
		t.Fatalf("%d plans were made", epochs)
	}
	// At 0, 30, 90, 210 and 450 s, three times each; a plan that comes in between may cost one more.
	if n := c.loadsOf("m/1"); n < 12 || n > 20 {
		t.Errorf("%d loads in 10 minutes", n)
	}
	if o := c.observed["m/1"]; o.State != schema.Failed || !strings.Contains(o.Reason, "no such file") || o.Tries < 4 || o.Next <= int64(c.now) {
		t.Errorf("observed %+v", o)
	}
	n := c.loadsOf("m/1")
	changed := wants("m", 1)
	changed.Versions[0].Digest = "0123456789abcdef0123456789abcdef"
	c.lead.SetModel(c.now, changed)
	c.run(5 * second)
	if c.loadsOf("m/1") == n {
		t.Error("another digest, and it is not tried")
	}
}

// A model that no GPU can hold is in no plan, where it would take room from the others; it says why.
func TestTooLargeTakesNoRoom(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	c.connect()
	c.lead.Profile(schema.Measured{Model: "m", Version: "1", DeviceType: "t", Static: 3 << 20, Dynamic: 1 << 20})
	c.letters("mn")
	c.run(10 * second)
	for _, s := range c.lead.plan.SubClusters {
		if slices.Contains(s.Models, "m/1") {
			t.Errorf("plan: %+v", c.lead.plan)
		}
	}
	if o := c.observed["m/1"]; !slices.Equal(c.serving(), []string{"n/1"}) || c.loadsOf("m/1") > 0 || o.State != schema.Failed || !strings.Contains(o.Reason, "memory") {
		t.Errorf("served %v, %d loads, told %+v", c.serving(), c.loadsOf("m/1"), o)
	}
}
