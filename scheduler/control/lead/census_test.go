package lead

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// What a census counts of requests: since the one before, also of a model that is routed anew.
func TestCensusCountsAnswers(t *testing.T) {
	l := New(Config{})
	tell := func(whole bool, served, late, dropped uint64) {
		l.Facts(0, &catalog.Facts{Epoch: 1, Whole: whole, GPUs: []catalog.GPUFacts{{Name: "b/t/0", DeviceType: "t", State: catalog.GPUServing}, {Name: "b/t/1", DeviceType: "t", State: catalog.GPUOut},
			{Name: "a/t/0", DeviceType: "t", State: catalog.GPUFree, In: catalog.Nowhere}, {Name: "c/t/0", DeviceType: "t", State: catalog.GPUDraining}},
			Models:      []catalog.ModelFacts{{Key: "m/1", DeviceType: "t", Served: served, Late: late, Dropped: dropped}},
			SubClusters: []catalog.SubClusterFacts{{DeviceType: "t", GPUs: 1, Models: 1, Need: 0.5, Busy: 0.7}}})
	}
	if l.Census() != nil {
		t.Error("a census of nothing")
	}
	tell(true, 100, 1, 1) // of before
	l.Census()
	for _, c := range []struct {
		served, late, dropped uint64
		answered, bad         int64
	}{{150, 3, 5, 56, 6}, {150, 3, 5, 0, 0}, {7, 1, 0, 8, 1}} {
		tell(false, c.served, c.late, c.dropped)
		all := l.Census()
		if len(all) != 1 || len(all[0].Parts) != 1 || len(all[0].Backends) != 3 {
			t.Fatalf("%+v", all)
		}
		if p := all[0].Parts[0]; p.Answered != c.answered || p.Bad != c.bad || p.GPUs != 1 || p.Need != 0.5 || p.Name != "/t" {
			t.Errorf("%+v: %+v", c, p)
		}
		if b := all[0].Backends; b[0] != (BackendCensus{"a", 1, 0, 0}) || b[1] != (BackendCensus{"b", 1, 1, 1}) || b[2] != (BackendCensus{"c", 1, 0, 1}) {
			t.Errorf("%+v", b)
		}
	}
}
