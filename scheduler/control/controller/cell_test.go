package controller

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// reign is a leading of two schedulers whose loop the test is.
func reign(t *testing.T) *leading {
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := &Controller{cfg: Config{Name: "c", Store: s, Schedulers: []string{"inproc:a", "inproc:b"}, Plan: lead.Config{}}, view: newView(t.Context(), s), preview: make(chan struct{}, 1)}
	if c.metrics, err = newMetrics(c, nil); err != nil {
		t.Fatal(err)
	}
	l := newLeading(c, t.Context())
	l.observed, l.measured, l.loads = s.Observed.Writer(t.Context()), s.Profiles.Writer(t.Context()), s.Loads.Writer(t.Context())
	for _, cell := range l.cells {
		cell.link = &link{c: c, address: cell.address}
	}
	return l
}

// has is a scheduler with GPUs of a type, of so much memory each.
func (l *leading) has(now mono.Time, i int, deviceType string, memory ...int64) {
	f := &catalog.Facts{Epoch: 1, Whole: true}
	for k, m := range memory {
		f.GPUs = append(f.GPUs, catalog.GPUFacts{Name: fmt.Sprintf("h%d/%s/%d", i, deviceType, k), DeviceType: deviceType, State: catalog.GPUServing, Memory: m})
	}
	l.facts(now, l.cells[i], f)
}

// one is a model of one version.
func one(name string, size int64, types ...string) schema.Model {
	return schema.Model{Name: name, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyLatest},
		Versions: []schema.ModelVersion{{Version: "1", Source: "file:///m", Size: size, Settings: &schema.Settings{DeviceTypes: types}}}}
}

// A model goes where one GPU is large enough for it, though elsewhere there is more memory in all,
// and less to do.
func TestLargestGPUDecides(t *testing.T) {
	l, now := reign(t), mono.Now()
	l.has(now, 0, "t", 16, 16, 16, 16, 16, 16, 16, 16)
	l.has(now, 1, "t", 16, 80)
	l.wish(now, one("large", 40))
	l.wish(now, one("small", 4))
	l.step(now)
	large, _ := l.spread.Home("large")
	small, _ := l.spread.Home("small")
	if large != 1 || small != 0 {
		t.Errorf("large is at %d, small at %d", large, small)
	}
}

// Why a model waits is forgotten once it is given, or nobody wants it any more.
func TestWhyIsForgotten(t *testing.T) {
	l, now := reign(t), mono.Now()
	l.has(now, 0, "t", 1000)
	l.has(now, 1, "t", 1000)
	for _, name := range []string{"k", "m"} {
		l.wish(now, one(name, 1, "u"))
	}
	l.step(now)
	if l.why["k"] == "" || l.why["m"] == "" {
		t.Fatalf("%v", l.why)
	}
	l.unwish("k")
	l.grant(now)
	l.has(now, 1, "u", 1000)
	l.step(now)
	if at, _ := l.spread.Home("m"); at != 1 || len(l.why) > 0 {
		t.Errorf("m is at %d, waits: %v", at, l.why)
	}
}

// A model that two plans have goes where the newer one has it, in whichever order the schedulers
// are configured.
func TestRestoreKeepsTheDirection(t *testing.T) {
	for newer := range 2 {
		l := reign(t)
		for i, cell := range l.cells {
			head := schema.Plan{Epoch: 7, At: 1, By: "c", Cause: lead.ByHand, State: schema.InForce, Models: 1, GPUs: 1, Scheduler: cell.name}
			if i == newer {
				head.Epoch = 8
			}
			part := schema.SubCluster{Epoch: head.Epoch, Name: "x", DeviceType: "t", Scheduler: cell.name, Models: []string{"m/1"}, GPUs: 1}
			if err := l.c.cfg.Store.PutPlan(t.Context(), head, []schema.SubCluster{part}); err != nil {
				t.Fatal(err)
			}
		}
		l.c.view.setModel(store.Change[schema.Model]{ID: schema.ID("m"), Revision: 1, Value: one("m", 1)})
		if err := l.restore(); err != nil {
			t.Fatal(err)
		}
		if at, to := l.spread.Home("m"); at != 1-newer || to != newer {
			t.Errorf("at %d, to %d, want from %d to %d", at, to, 1-newer, newer)
		}
	}
}
