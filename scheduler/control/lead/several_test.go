package lead

import (
	"slices"
	"testing"

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
