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

// measuring is a cluster whose GPUs measure what comes without a profile. It serves m/1, which
// requests come for.
func measuring(t *testing.T, gpus ...string) *cluster {
	c := newCluster(t, Config{}, gpus...)
	for _, g := range c.gpus {
		g.Measures = true
	}
	c.connect()
	c.lead.SetModel(c.now, wants("m", 1))
	c.run(10 * second)
	c.needs(func(string) float64 { return 0.3 })
	if got := c.serving(); !slices.Equal(got, []string{"m/1"}) || len(c.probed) != 1 {
		t.Fatalf("served %v, measured %v\n%s", got, c.probed, strings.Join(c.story, "\n"))
	}
	c.story, c.probed = nil, nil
	return c
}

// A new version is measured on one GPU, which gets no requests meanwhile, and comes back; the
// others are given the profile. So it is where facts come after outcomes.
func TestMeasuredOnADrainedGPU(t *testing.T) {
	for _, late := range []bool{false, true} {
		c := measuring(t, "a/t/0", "a/t/1", "b/t/0")
		c.late = late
		c.lead.SetModel(c.now, wants("m", 2))
		c.run(20 * second)
		story := strings.Join(c.story, "\n")
		if !slices.Equal(c.serving(), []string{"m/2"}) || !slices.Equal(c.probed, []string{"b/t/0 m/2"}) {
			t.Errorf("late %v: served %v, measured %v\n%s", late, c.serving(), c.probed, story)
		}
		if strings.Count(story, "drain") != 1 || strings.Contains(story, "measure") || c.gpus["b/t/0"].State != catalog.GPUServing {
			t.Errorf("late %v: %s is %+v\n%s", late, "b/t/0", c.gpus["b/t/0"], story)
		}
	}
}

// The only GPU measures in its gaps, and so do GPUs that are all needed; one that gets no requests
// is not drained first.
func TestMeasuredInGaps(t *testing.T) {
	for _, gpus := range [][]string{{"a/t/0"}, {"a/t/0", "b/t/0"}} {
		c := measuring(t, gpus...)
		c.needs(func(string) float64 { return float64(len(gpus)) })
		c.lead.SetModel(c.now, wants("n", 1))
		c.run(20 * second)
		if story := strings.Join(c.story, "\n"); len(c.serving()) != 2 || len(c.probed) != 1 || strings.Contains(story, "drain") || strings.Contains(story, "measure") {
			t.Errorf("%d GPUs: measured %v\n%s", len(gpus), c.probed, story)
		}
	}
	c := measuring(t, "a/t/0", "a/t/1", "b/t/0")
	c.needs(func(string) float64 { return 0 })
	c.lead.SetModel(c.now, wants("n", 1))
	c.run(20 * second)
	if story := strings.Join(c.story, "\n"); len(c.serving()) != 2 || len(c.probed) != 1 || strings.Contains(story, "drain") {
		t.Errorf("no requests come, measured %v\n%s", c.probed, story)
	}
}

// What was stored of the files is given to all; of other files it is not.
func TestStoredProfile(t *testing.T) {
	for digest, want := range map[string]int{"sha256:same": 0, "sha256:other": 1} {
		c := newCluster(t, Config{}, "a/t/0", "b/t/0")
		for _, g := range c.gpus {
			g.Measures = true
		}
		c.lead.Profile(schema.Measured{Model: "m", Version: "1", DeviceType: "t", Digest: digest, Profile: catalog.Profile{Alpha: 2 * mono.Millisecond, Beta: mono.Millisecond}})
		m := wants("m", 1)
		m.Versions[0].Digest, c.lies["m/1"] = "sha256:same", "sha256:same"
		c.connect()
		c.lead.SetModel(c.now, m)
		c.run(20 * second)
		if len(c.serving()) != 1 || len(c.probed) != want {
			t.Errorf("%s: served %v, measured %v, want %d\n%s", digest, c.serving(), c.probed, want, strings.Join(c.story, "\n"))
		}
	}
}

// A load that is done, and of which the facts never say what was measured, is not waited for for
// ever: it is ordered to be measured.
func TestMeasuredAndNotSaid(t *testing.T) {
	c := measuring(t, "a/t/0", "a/t/1", "b/t/0")
	measures := 0
	c.mute = func(o catalog.Order) bool {
		if o.Kind == catalog.OrderMeasure {
			measures++
		}
		if o.Kind == catalog.OrderLoad && measures == 0 {
			var out Effects
			c.lead.Outcome(c.now, catalog.Outcome{ID: o.ID}, &out)
			return true
		}
		return false
	}
	c.lead.SetModel(c.now, wants("n", 1))
	c.run(60 * second)
	if measures != 1 {
		t.Errorf("it is ordered to be measured %d times\n%s", measures, strings.Join(c.story, "\n"))
	}
}

// A plan that overtakes another knows the profiles of the models that are new in it, and GPUs of a
// type that come later get what the plan has there.
func TestProfilesOfANewPlan(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0", "b/t/0")
	c.connect()
	hangs := true
	c.mute = func(o catalog.Order) bool { return hangs && o.Kind == catalog.OrderLoad && o.Sources[0].Name == "slow" }
	c.lead.SetModel(c.now, wants("slow", 1))
	c.run(2 * second)
	c.lead.SetModel(c.now, wants("quick", 1))
	c.run(2 * second)
	if story := strings.Join(c.story, "\n"); strings.Contains(story, "drain") {
		t.Errorf("a GPU is drained to measure what has a profile:\n%s", story)
	}
	if p := c.lead.rollout.Problems(); slices.ContainsFunc(p, func(p plan.Problem) bool { return strings.Contains(p.Reason, "measure") }) {
		t.Errorf("problems %v", p)
	}
}
