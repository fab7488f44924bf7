package lead

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A load that takes too long is given up: its version is Failed with the reason, the plan is
// marked, the version before and other models are served. Each order says how long it may take, and
// nothing is kept of those that have no outcome.
func TestStepsThatTakeTooLong(t *testing.T) {
	c := newCluster(t, Config{RetryMin: 3600 * second, RetryMax: 3600 * second}, "a/t/0")
	c.connect()
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(5 * second)
	loads := 0
	c.mute = func(o catalog.Order) bool {
		if o.Within <= 0 {
			t.Errorf("an order that may take for ever: %+v", o)
		}
		hangs := o.Kind == catalog.OrderLoad && o.Sources[0].Key() == "m/2"
		if hangs {
			loads++
		}
		return hangs
	}
	c.lead.SetModel(c.now, wants("m", 2))
	c.run(5 * second)
	c.lead.SetModel(c.now, wants("other", 1))
	c.run(3000 * second)
	if got := c.serving(); !slices.Equal(got, []string{"m/1", "other/1"}) || loads < 3 || loads > 6 { // a plan that overtakes begins to count anew
		t.Errorf("served %v, and m/2 was to be loaded %d times\n%s", got, loads, strings.Join(c.story, "\n"))
	}
	if o := c.observed["m/2"]; o.State != schema.Failed || !strings.Contains(o.Reason, "took longer than") {
		t.Errorf("observed: %+v", o)
	}
	if h := c.heads[c.lead.plan.Epoch]; h.State != schema.GaveUp || !strings.Contains(h.Reason, "took longer than") {
		t.Errorf("the plan: %+v", h)
	}
	if n := len(c.lead.orders); n != 0 {
		t.Errorf("%d orders are still waited for", n)
	}
}

// Shares whose order has no outcome are told again.
func TestNamesWithoutAnOutcome(t *testing.T) {
	c := newCluster(t, Config{RetryMin: second}, "a/t/0")
	silent := true
	c.mute = func(o catalog.Order) bool { return silent && o.Kind == catalog.OrderNames }
	c.connect()
	m := wants("m", 2)
	m.Shares = []schema.Share{{Version: "1", Weight: 1}, {Version: "2", Weight: 9}}
	c.lead.SetModel(c.now, m)
	c.run(5 * second)
	silent = false
	c.run(30 * mono.Second)
	if got := c.names["m"]; len(got.Shares) != 2 {
		t.Errorf("m is answered by %+v", got)
	}
}
