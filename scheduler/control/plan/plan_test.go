package plan

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestPlanRefused(t *testing.T) {
	sub := func(name, deviceType string, gpus int, models ...string) SubCluster {
		return SubCluster{Name: name, DeviceType: deviceType, GPUs: gpus, Models: models}
	}
	for name, c := range map[string]struct {
		p  Plan
		ok bool
	}{
		"empty":                         {Plan{}, true},
		"two":                           {Plan{SubClusters: []SubCluster{sub("a", "x", 1, "m/1"), sub("b", "y", 0, "n/1")}}, true},
		"the unplanned one's name":      {Plan{SubClusters: []SubCluster{sub("/x", "x", 1, "m/1")}}, true},
		"another type's":                {Plan{SubClusters: []SubCluster{sub("/y", "x", 1)}}, false},
		"no name":                       {Plan{SubClusters: []SubCluster{sub("", "x", 1)}}, false},
		"no type":                       {Plan{SubClusters: []SubCluster{sub("a", "", 1)}}, false},
		"fewer GPUs than none":          {Plan{SubClusters: []SubCluster{sub("a", "x", -1)}}, false},
		"two of a name":                 {Plan{SubClusters: []SubCluster{sub("a", "x", 1), sub("a", "x", 1)}}, false},
		"a model in two":                {Plan{SubClusters: []SubCluster{sub("a", "x", 1, "m/1"), sub("b", "x", 1, "m/1")}}, false},
		"a model twice":                 {Plan{SubClusters: []SubCluster{sub("a", "x", 1, "m/1", "m/1")}}, false},
		"a successor that is not there": {Plan{Successions: []Succession{{"m/1", "m/2"}}}, false},
		"one that stays":                {Plan{SubClusters: []SubCluster{sub("a", "x", 1, "m/1", "m/2")}, Successions: []Succession{{"m/1", "m/2"}}}, false},
	} {
		if err := c.p.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFactsRefused(t *testing.T) {
	for name, f := range map[string]Facts{
		"a GPU without a name":              {GPUs: []GPU{{DeviceType: "x"}}},
		"a GPU without a type":              {GPUs: []GPU{{Name: "h/x/0"}}},
		"one that serves nowhere":           {GPUs: []GPU{{Name: "h/x/0", DeviceType: "x", State: Serving}}},
		"a free one in a sub-cluster":       {GPUs: []GPU{{Name: "h/x/0", DeviceType: "x", In: "a"}}},
		"two types in a sub-cluster":        {GPUs: []GPU{{Name: "h/x/0", DeviceType: "x", State: Serving, In: "a"}, {Name: "h/y/0", DeviceType: "y", State: Serving, In: "a"}}},
		"a model without a key":             {Models: []Model{{}}},
		"a model of less than nothing":      {Models: []Model{{Key: "m/1", Static: -1}}},
		"and one that needs less to run it": {Models: []Model{{Key: "m/1", Dynamic: -1}}},
	} {
		if _, err := New(Plan{}, f, Limits{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrder(t *testing.T) {
	names := []string{"", "a", "a1", "a2", "a10", "host2/x/9", "host2/x/10", "host10/x/0", "z"}
	for i, a := range names {
		for k, b := range names {
			if got, want := order(a, b), min(1, max(-1, i-k)); got != want {
				t.Errorf("order(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	if order("a1", "a01") == 0 || order("a1", "a01") != -order("a01", "a1") {
		t.Error("a1 and a01 are one")
	}
}

// TestNothingToDo: an empty plan in an empty world is done at once, and late results change
// nothing.
func TestNothingToDo(t *testing.T) {
	r, err := New(Plan{}, Facts{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if steps := r.Next(0, nil); len(steps) > 0 || r.Phase() != Done || r.Wake() != mono.Never {
		t.Errorf("%v, %v", steps, r.Phase())
	}
	r.Done(1, 7)
	r.Failed(2, 8, "nobody asked")
	r.RemoveGPU("h/x/0")
	if r.Phase() != Done {
		t.Errorf("%v", r.Phase())
	}
}

// TestBackOff: a load that fails is tried again after one second, and two, and then given up.
func TestBackOff(t *testing.T) {
	r, err := New(Plan{SubClusters: []SubCluster{{Name: "a", DeviceType: "x", GPUs: 1, Models: []string{"m/1"}}}},
		Facts{GPUs: []GPU{{Name: "h/x/0", DeviceType: "x"}}, Models: []Model{{Key: "m/1", Profiles: []Profile{{"x", 1}}}}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	for _, wait := range []mono.Dur{mono.Second, 2 * mono.Second} {
		steps := r.Next(now, nil)
		if len(steps) != 1 || steps[0].Kind != Load {
			t.Fatalf("at %v: %v", now, steps)
		}
		r.Failed(now, steps[0].ID, "no")
		if steps := r.Next(now.Add(wait-1), nil); len(steps) > 0 || r.Wake() != now.Add(wait) {
			t.Fatalf("before the back-off has ended: %v; it wakes at %v", steps, r.Wake())
		}
		now = now.Add(wait)
	}
	steps := r.Next(now, nil)
	r.Failed(now, steps[0].ID, "no")
	if steps = r.Next(now, nil); len(steps) != 1 || steps[0].Kind != Seat {
		t.Fatalf("without the model the GPU joins: %v", steps)
	}
	r.Done(now, steps[0].ID)
	if steps = r.Next(now, nil); len(steps) > 0 || r.Phase() != Marked {
		t.Fatalf("%v, %v", steps, r.Phase())
	}
	want := "model m/1: h/x/0: load, 3 times: no"
	if p := r.Problems(); len(p) != 1 || p[0].String() != want {
		t.Errorf("problems %v, want %s", p, want)
	}
}
