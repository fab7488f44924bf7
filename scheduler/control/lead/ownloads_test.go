package lead

import (
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// While a backend measures a model of its own folder nothing has failed: no plan, and no version.
func TestMeasuringIsNoFailure(t *testing.T) {
	for _, ends := range []string{catalog.StateReady, catalog.StateFailed} {
		t.Run(ends, func(t *testing.T) {
			c := newCluster(t, Config{})
			c.connect()
			c.joins("a/t/0", "digits/1")
			c.run(10 * second)
			for _, state := range []string{catalog.StateFetching, catalog.StateLoading, catalog.StateMeasuring} {
				c.stock["a/t/0"]["slow/1"], c.local["a/t/0 slow/1"] = state, true
				c.lead.Facts(c.now, c.facts([]string{"a/t/0"}, nil))
				for range 30 {
					c.run(second)
					if s := c.states()["slow/1"]; s == schema.Failed || c.lead.head.State == schema.GaveUp {
						t.Fatalf("%s: the version is %s, the plan %s: %s", state, s, c.lead.head.State, c.lead.head.Reason)
					}
				}
			}
			c.stock["a/t/0"]["slow/1"] = ends
			c.lead.Facts(c.now, c.facts([]string{"a/t/0"}, nil))
			c.run(20 * second)
			if got, want := slices.Contains(c.serving(), "slow/1"), ends == catalog.StateReady; got != want {
				t.Errorf("routed %v, want %v", got, want)
			}
			if s := c.states()["slow/1"]; (s == schema.Failed) != (ends == catalog.StateFailed) {
				t.Errorf("the version is %s", s)
			}
			if o := c.observed["slow/1"]; strings.Contains(o.Reason, "nobody has added") {
				t.Error(o.Reason)
			}
		})
	}
}

// A model whose files have changed, and cannot be loaded, is served, and says why the new files are not, until they are mended.
func TestOutdatedIsObserved(t *testing.T) {
	c := newCluster(t, Config{})
	c.connect()
	c.joins("a/t/0", "digits/1")
	c.run(10 * second)
	for _, why := range []string{"Protobuf parsing failed", ""} {
		f := c.facts([]string{"a/t/0"}, nil)
		f.GPUs[0].Stock[0].Outdated = why
		c.lead.Facts(c.now, f)
		c.run(second)
		o := c.observed["digits/1"]
		if o.State != schema.Serving || !strings.Contains(o.Reason, why) || (o.Reason == "") != (why == "") {
			t.Errorf("the new files: %q; observed %+v", why, o)
		}
	}
}
