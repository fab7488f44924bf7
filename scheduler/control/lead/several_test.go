package lead

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Plans of several Leads share one counter: each epoch is later than those of the others, and
// the orders of a Lead are of none that is older than those before.
func TestEpochsOfSeveral(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	for i, floor := range []uint64{0, 7, 7, 30} {
		c.lead.After(floor)
		c.lead.SetModel(c.now, wants("m", i+1))
		c.run(mono.Second)
		if e := c.lead.Epoch(); e <= floor || c.heads[e].State != schema.InForce || c.plan != e {
			t.Errorf("after %d: plan %d %s, orders of %d", floor, e, c.heads[e].State, c.plan)
		}
	}
	if c.lead.After(3); c.lead.next() != c.lead.Epoch()+1 {
		t.Errorf("a counter that goes back: %d after %d", c.lead.next(), c.lead.Epoch())
	}
}

// What a Lead says of itself to whoever divides models among schedulers.
func TestAsked(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "a/t/1")
	if c.lead.Whole() || len(c.lead.Types()) != 0 {
		t.Error("it knows of GPUs before it was told")
	}
	c.broken["bad/1"] = "broken"
	c.connect()
	c.lead.SetModel(c.now, wants("m", 1))
	c.lead.SetModel(c.now, wants("bad", 1))
	c.run(20 * mono.Second)
	if !c.lead.Whole() || !slices.Equal(c.lead.Types(), []GPUsOf{{"t", 2, 1000, 1000}}) {
		t.Errorf("%v", c.lead.Types())
	}
	if !c.lead.Goes("m/1") || c.lead.Goes("bad/1") || c.lead.Failed("m/1") != "" || c.lead.Failed("bad/1") == "" {
		t.Errorf("m goes %v, bad %v; failed: %q, %q", c.lead.Goes("m/1"), c.lead.Goes("bad/1"), c.lead.Failed("m/1"), c.lead.Failed("bad/1"))
	}
	if typ, need, bytes := c.lead.Load("m/1"); typ != "t" || need != 0.1 || bytes != 100 {
		t.Errorf("m takes %s %v %v", typ, need, bytes)
	}
	if got, none := c.lead.Size("m/1", "t"), c.lead.Size("m/1", "u"); got < 100 || none != 0 {
		t.Errorf("m takes %d bytes of a GPU of t, %d of one of u", got, none)
	}
	c.lead.RemoveModel(c.now, "m")
	c.run(20 * mono.Second)
	if c.lead.Goes("m/1") {
		t.Error("it was taken and is served")
	}
	c.lead.Lost()
	if c.lead.Whole() || c.lead.Failed("bad/1") != "" {
		t.Error("a scheduler that is away says what failed")
	}
}

// Wishes are what a model's policy wants, with what restricts where it may be.
func TestWishes(t *testing.T) {
	m := wants("m", 3)
	m.Versions[2].Settings = &schema.Settings{DeviceTypes: []string{"u"}}
	m.Versions[2].Size = 9
	m.Shares = []schema.Share{{Version: "1", Weight: 1}}
	got := Wishes(m)
	if len(got) != 2 || got[0].Key != "m/1" || len(got[0].DeviceTypes) != 0 || got[1].Key != "m/3" || !slices.Equal(got[1].DeviceTypes, []string{"u"}) || got[1].Bytes != 9 {
		t.Errorf("%+v", got)
	}
	m.Desired = schema.Stopped
	if got = Wishes(m); len(got) != 0 {
		t.Errorf("%+v of a model that is stopped", got)
	}
}

// Who has a plan made while the scheduler is away ends people's own, though epochs are paused: the
// plan is made when it is back.
func TestNowWhileAway(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(mono.Second)
	var out Effects
	if err := c.lead.Apply(c.now, plan.Plan{SubClusters: []plan.SubCluster{{Name: "x", DeviceType: "t", Models: []string{"m/1"}, GPUs: 1}}}, &out); err != nil {
		t.Fatal(err)
	}
	c.take(&out)
	c.run(mono.Second)
	c.lead.Pause(c.now, true)
	c.lead.Lost()
	if err := c.lead.Now(c.now); !errors.Is(err, ErrNoScheduler) || c.lead.Holds() {
		t.Errorf("%v; people's plan holds: %v", err, c.lead.Holds())
	}
	last, begun := c.lead.Epoch(), c.lead.Sketched()
	c.epoch++
	c.connect()
	c.run(20 * mono.Second)
	if e := c.lead.Epoch(); e <= last || c.heads[e].Cause == ByHand || c.heads[e].State != schema.InForce || c.lead.Finished() <= begun {
		t.Errorf("plan %d after %d: %+v", e, last, c.heads[e])
	}
}

// MayApply says what Apply would, once models that are given have been given, and changes nothing.
func TestMayApply(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	p := plan.Plan{SubClusters: []plan.SubCluster{{Name: "x", DeviceType: "t", Models: []string{"m/1"}, GPUs: 1}}}
	if err := c.lead.MayApply(&p, nil); !errors.Is(err, ErrNoScheduler) {
		t.Errorf("away: %v", err)
	}
	c.connect()
	given := func(change func(*schema.Model)) map[string]schema.Model {
		doc := wants("m", 1)
		change(&doc)
		return map[string]schema.Model{"m": doc}
	}
	ask := func(what, want string, given map[string]schema.Model) {
		t.Helper()
		switch err := c.lead.MayApply(&p, given); {
		case want == "" && err != nil, want != "" && (!errors.Is(err, plan.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if c.lead.Holds() || c.lead.Goes("m/1") && c.lead.plan.Find("x") != nil {
			t.Errorf("%s: it was applied", what)
		}
	}
	ask("nobody wants it", "not in the catalogue", nil)
	ask("it is to be given", "", given(func(*schema.Model) {}))
	ask("it is to be given, and stopped", "not to be served", given(func(m *schema.Model) { m.Desired = schema.Stopped }))
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(mono.Second)
	ask("it is there", "", nil)
	c.lead.RemoveModel(c.now, "m") // and GPUs have it still
	ask("it was taken", "not in the catalogue", nil)
	ask("it is given again", "", given(func(*schema.Model) {}))
	ask("it is given again with other files", "are being replaced", given(func(m *schema.Model) { m.Versions[0].Renewed = 7 }))
}
