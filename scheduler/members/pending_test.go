package members

import (
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// hears is what frontends hear of pending models since a serial.
func hears(c *Cluster, since uint64) string {
	text := ""
	for _, p := range c.Changes(since, 100).Pending {
		text += fmt.Sprintf("%s/%s %s %s;", p.Name, p.Version, p.State, p.Why)
	}
	return text
}

// Frontends hear of each model that some backend has or is about to have and that is not served: it loads, it
// failed and why, it is not everywhere yet; and that it is none any more, once, when it is served or gone.
func TestPending(t *testing.T) {
	p := newPlant(t, limits())
	a := p.host("a", 2, "")
	state := func(state, why string, devices ...int) catalog.Stocked {
		d := has(0, spec("m"), devices...)
		if d.State, d.Error = state, why; len(devices) == 0 {
			d.Spec = nil
		}
		return d
	}
	for _, step := range []struct {
		stock catalog.Stocked
		want  string
	}{
		{state(catalog.StateFetching, ""), "m/1 loading ;"},
		{state(catalog.StateLoading, ""), ""}, // no news
		{state(catalog.StateFailed, "no room"), "m/1 failed no room;"},
		{state(catalog.StateFailed, "no graph"), "m/1 failed no graph;"},
		{state(catalog.StateLoading, "", 0), "m/1 loading ;"},
		{state(catalog.StateReady, "", 0, 1), "m/1  ;"},   // it is served
		{state(catalog.StateReady, "", 0), "m/1 ready ;"}, // one device has lost it
		{state(catalog.StateReady, "", 0, 1), "m/1  ;"},
		{state(catalog.StateLoading, ""), "m/1 loading ;"}, // no device has it any more
		{state(catalog.StateGone, ""), "m/1  ;"},
	} {
		before := p.c.Serial()
		p.stock(a, step.stock)
		if got := hears(p.c, before); got != step.want {
			t.Errorf("%s on %v: frontends hear %q, want %q", step.stock.State, step.stock.Devices, got, step.want)
		}
	}
	p.stock(a, state(catalog.StateFailed, "no room"))
	if got := hears(p.c, 0); got != "m/1 failed no room;" {
		t.Errorf("who begins hears %q", got)
	}
	before := p.c.Serial()
	p.leave(a)
	if got := hears(p.c, before); got != "m/1  ;" {
		t.Errorf("its backend has left: frontends hear %q", got)
	}
	if got := hears(p.c, 0); got != "" {
		t.Errorf("who begins hears %q", got)
	}
	p.now = p.now.Add(2 * sweepEvery)
	p.host("b", 1, "")
	if n := len(p.c.pendings.byKey) + len(p.c.pendings.all); n > 0 {
		t.Errorf("%d are kept of what is over", n)
	}
}

// What the control plane has taken out of service is not pending, whoever has it.
func TestStoppedIsNotPending(t *testing.T) {
	p := newPlant(t, limits())
	a := p.host("a", 1, "")
	p.stock(a, has(0, spec("m"), 0))
	p.do(catalog.Order{Kind: catalog.OrderRoute, To: catalog.Nowhere, Keys: []string{"m/1"}})
	if got := hears(p.c, 0); got != "" {
		t.Errorf("frontends hear %q", got)
	}
}

// A backend's models are expected before it joins; more than there may be are not told.
func TestExpect(t *testing.T) {
	p := newPlant(t, limits())
	var out Effects
	p.c.Expect(p.now, []string{"m/1", "a/b/7", "nonsense"}, &out)
	if got := hears(p.c, 0); got != "m/1 loading ;a/b/7 loading ;" {
		t.Errorf("frontends hear %q", got)
	}
	before := p.c.Serial()
	p.c.Expect(p.now, nil, &out)
	if got := hears(p.c, before); got != "m/1  ;a/b/7  ;" {
		t.Errorf("frontends hear %q", got)
	}
	var many []string
	for i := range 2 * catalog.PendingMax {
		many = append(many, fmt.Sprintf("m%d/1", i))
	}
	p.c.Expect(p.now, many, &out)
	if n := len(p.c.Changes(0, 1).Pending); n > catalog.PendingMax || n < catalog.PendingMax-2 {
		t.Errorf("%d are told", n)
	}
	p.c.Expect(p.now.Add(mono.Second), nil, &out)
	if got := hears(p.c, 0); got != "" {
		t.Errorf("frontends hear %.100q", got)
	}
}

// A model that a backend joined with, and whose files become another model's, is served as that under another id: at once where the
// backend goes on with both meanwhile, and after it had none. Where another backend has the old one it is not.
func TestAnotherModelInPlace(t *testing.T) {
	for _, gap := range []bool{false, true} {
		p := newPlant(t, limits())
		a := p.host("a", 1, "", spec("m"), spec("n"))
		first, _ := p.c.ModelID("m/1")
		if gap {
			p.stock(a, has(0, spec("m")))
		}
		p.stock(a, has(0, spec("m", shape(9)), 0))
		if id, ok := p.c.ModelID("m/1"); !ok || id == first || p.model("m/1") == nil || p.model("m/1").Inputs[0].Shape[0] != 9 {
			t.Errorf("with a gap: %v; id %d, was %d; %+v", gap, id, first, p.model("m/1"))
		}
		p.stock(a, has(0, spec("m", shape(7)), 0)) // and again
		if m := p.model("m/1"); m == nil || m.Inputs[0].Shape[0] != 7 {
			t.Errorf("with a gap: %v; %+v", gap, m)
		}
		p.leave(a)
		a = p.host("a", 1, "", spec("m"), spec("n"))
		if m := p.model("m/1"); m == nil || m.Inputs[0].Shape[0] == 7 {
			t.Errorf("its backend is back with the first one: %+v", m)
		}
		b := p.host("b", 1, "", spec("m"), spec("n"))
		p.stock(a, has(0, spec("m", shape(9)), 0))
		if m := p.model("m/1"); m != nil && m.Inputs[0].Shape[0] == 9 {
			t.Errorf("b has another one, and the model is %+v", m)
		}
		p.leave(b)
		p.leave(a)
	}
}

// A model that was another one for a while is back under an id of its own. A second backend with the same models joins, and
// is told that id, not the one before.
func TestSecondBackendHearsTheIDOfNow(t *testing.T) {
	p := newPlant(t, limits())
	a := p.host("a", 1, "", spec("m"), spec("n"))
	p.stock(a, has(0, spec("m", shape(9)), 0))
	p.stock(a, has(0, spec("m"), 0))
	b := p.host("b", 1, "", spec("m"), spec("n"))
	for _, key := range []string{"m/1", "n/1"} {
		id, ok := p.c.ModelID(key)
		if ids := p.c.Bound(b)[0].IDs; !ok || !slices.Contains(ids, id) || len(ids) != 2 {
			t.Errorf("%s has id %d; b is told %d", key, id, ids)
		}
	}
}
