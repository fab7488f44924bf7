package controller

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A Diff is what the roll-out would do: which models and GPUs move, and what is loaded for it; of a
// model that is nowhere yet, the bytes of its files.
func TestDiff(t *testing.T) {
	c := &Controller{cfg: Config{Effort: 10 * mono.Millisecond, Plan: lead.Config{SubClusters: 2, MovesMax: 1, ModelsMax: 4096, Objective: partition.Balance}}, preview: make(chan struct{}, 1)}
	l := &leading{c: c, ctx: t.Context(), cells: cells{{lead: lead.New(c.cfg.Plan)}}, calls: make(chan func())}
	f := catalog.Facts{Epoch: 1, Whole: true}
	for _, name := range []string{"h/e/0", "h/e/1"} {
		g := catalog.GPUFacts{Name: name, DeviceType: "e", State: catalog.GPUServing}
		for _, m := range []string{"x", "y"} {
			g.Stock = append(g.Stock, catalog.Stocked{Key: m + "/1", State: catalog.StateReady, Static: 100, Spec: &catalog.ModelSpec{Name: m, Version: "1", SLO: mono.Second, MaxBatch: 8}})
		}
		f.GPUs = append(f.GPUs, g)
	}
	for _, m := range []string{"x", "y", "z"} {
		l.cells[0].lead.SetModel(0, schema.Model{Name: m, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyAll}, Versions: []schema.ModelVersion{{Version: "1", Source: "file:///" + m, Size: 4096}}})
		if m != "z" {
			f.Models = append(f.Models, catalog.ModelFacts{Key: m + "/1", DeviceType: "e", Rate: 10, Need: 0.5})
		}
	}
	l.cells[0].lead.Facts(0, &f)
	go func() {
		for {
			select {
			case call := <-l.calls:
				call()
			case <-t.Context().Done():
				return
			}
		}
	}()
	c.leads.Store(l)
	d, err := c.Diff(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Stay != 0 || len(d.Moves) != 3 || len(d.GPUs) != 2 || d.Loads != 1 || d.Bytes != 4096 || len(d.Resizes) != 2 || d.Then < 1 {
		t.Fatalf("%+v", d)
	}
	for i, want := range []api.Move{{Model: "x/1", From: "/e"}, {Model: "y/1", From: "/e"}, {Model: "z/1"}} {
		if m := d.Moves[i]; m.Model != want.Model || m.From != want.From || m.To != "e-0" && m.To != "e-1" {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
	loads := 0
	for i, name := range []string{"h/e/0", "h/e/1"} {
		if g := d.GPUs[i]; g.GPU != name || g.From != "/e" || g.Bytes != int64(4096*g.Loads) {
			t.Errorf("%+v", g)
		}
		loads += d.GPUs[i].Loads
	}
	if loads != d.Loads {
		t.Errorf("%d loads of %d", loads, d.Loads)
	}
}
