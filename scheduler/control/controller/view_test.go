package controller

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A view of a store whose models come and go keeps nothing of those that went, and notes
// changes for a leader only where there is one.
func TestViewForgets(t *testing.T) {
	v := newView(t.Context(), nil)
	model := func(gone bool) { v.setModel(store.Change[schema.Model]{ID: schema.ID("m"), Revision: 1, Gone: gone}) }
	observed := func(gone bool) {
		v.setObserved(store.Change[schema.Observation]{ID: schema.ID("m", "1"), Revision: 2, Gone: gone})
	}
	measured := func(gone bool) {
		m := schema.Measured{Model: "m", Version: "1", DeviceType: "a/b"}
		v.setMeasured(store.Change[schema.Measured]{ID: m.ID(), Value: m, Gone: gone})
	}
	model(false)
	observed(false)
	measured(false)
	if ids := v.measuredOf("m", "1"); len(ids) != 1 || ids[0] != schema.ID("m", "1", "a/b") {
		t.Errorf("measured of m/1: %v", ids)
	}
	observed(true)
	model(true) // the last that was there of it
	measured(true)
	if len(v.models)+len(v.observed)+len(v.measured)+len(v.revs)+len(v.dirty) > 0 {
		t.Errorf("left: models %v, observed %v, measured %v, revisions %v, changes %v", v.models, v.observed, v.measured, v.revs, v.dirty)
	}
	model(false)
	v.lead()
	if wishes, _ := v.take(); len(wishes) != 1 {
		t.Errorf("a new leader learns of %v, wanted all", wishes)
	}
	model(true)
	if wishes, _ := v.take(); len(wishes) != 1 || wishes["m"].Name != "" {
		t.Errorf("the leader learns of %v, wanted that m is gone", wishes)
	}
}

// What was measured with files of before does not say what those of now take, nor how long.
func TestMeasuredOfOtherFiles(t *testing.T) {
	v := newView(t.Context(), nil)
	m := schema.Measured{Model: "m", Version: "1", DeviceType: "t", Digest: "one", Static: 100, At: 5}
	v.setMeasured(store.Change[schema.Measured]{ID: m.ID(), Value: m})
	for _, c := range []struct {
		what string
		of   schema.ModelVersion
		want int
	}{
		{"its own", schema.ModelVersion{Version: "1", Added: 3}, 1},
		{"others", schema.ModelVersion{Version: "1", Added: 3, Renewed: 7}, 0},
		{"others that are the same", schema.ModelVersion{Version: "1", Added: 3, Renewed: 7, Digest: "one"}, 1},
		{"another version's", schema.ModelVersion{Version: "2", Added: 3}, 0},
	} {
		if got := v.measuresOf(&schema.Model{Name: "m", Versions: []schema.ModelVersion{c.of}}); len(got) != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// Epochs that are resumed without having been paused end a plan that people applied.
func TestResumeEndsByHand(t *testing.T) {
	c := &Controller{view: newView(t.Context(), nil), cfg: Config{Schedulers: []string{"s"}}}
	l := newLeading(c, t.Context())
	l.cells[0].lead.Restore(schema.Plan{Epoch: 3, Cause: lead.ByHand, State: schema.InForce}, nil)
	now := mono.Now()
	l.cells[0].lead.Facts(now, &catalog.Facts{Epoch: 1, Whole: true, GPUs: []catalog.GPUFacts{{Name: "a/t/0", DeviceType: "t", State: catalog.GPUFree}}})
	var out lead.Effects
	for range 3 {
		now = now.Add(10 * mono.Second)
		l.cells[0].lead.Step(now, &out)
	}
	if at := l.cells[0].lead.Wake(); at != mono.Never {
		t.Fatalf("a plan by hand: an epoch is due at %v of %v", at, now)
	}
	c.view.epochs = schema.Control{Name: schema.Epochs, Since: 7}
	l.wishes()
	if at := l.cells[0].lead.Wake(); at == mono.Never {
		t.Error("epochs were resumed, and none is due")
	}
}

// A leader that takes over changes what is stored of the plan that it found; it does not write
// it anew, which would be refused.
func TestRestoredPlanIsChanged(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.PutPlan(t.Context(), schema.Plan{Epoch: 3, Cause: "catalogue", By: "before", At: 5, State: schema.RollsOut}, nil); err != nil {
		t.Fatal(err)
	}
	c := &Controller{cfg: Config{Name: "next", Store: s, Schedulers: []string{"s"}}, view: newView(t.Context(), s)}
	l := newLeading(c, t.Context())
	if err := l.restore(); err != nil {
		t.Fatal(err)
	}
	l.storePlan(schema.Plan{Epoch: 3, Cause: "catalogue", State: schema.Overtaken}, nil, 9)
	won, err := s.Campaign(t.Context(), schema.Leader{Name: "next"})
	if err != nil {
		t.Fatal(err)
	}
	defer won.Resign()
	if err := l.writePlan(<-l.plans, won.Guard()); err != nil {
		t.Error(err)
	}
	if h, _, err := s.Plan(t.Context(), 3); err != nil || h.Value.State != schema.Overtaken || h.Value.At != 5 {
		t.Errorf("stored: %+v, %v", h.Value, err)
	}
}
