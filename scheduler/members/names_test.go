package members

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A name whose last model has gone is forgotten: frontends hear that it has no shares, and then
// nothing is kept of it. One that a GPU is still to have keeps them.
func TestNamesAreForgotten(t *testing.T) {
	p := newPlant(t, limits())
	a := p.host("a", 1, catalog.Nowhere)
	for _, name := range []string{"m", "n"} {
		_, _ = p.order(catalog.Order{Kind: catalog.OrderLoad, GPU: "a/gpu/0", Sources: []catalog.Source{{Name: name, Version: "1", URL: "u"}}})
	}
	p.stock(a, has(0, spec("m"), 0), has(1, spec("n"), 0))
	shares := []catalog.Share{{Version: "1", Weight: 3}}
	p.do(catalog.Order{Kind: catalog.OrderNames, Names: []catalog.Name{{Name: "m", Shares: shares}, {Name: "n", Shares: shares}}})
	passes := func(d mono.Dur) {
		for range d / mono.Second {
			p.now = p.now.Add(mono.Second)
			var out Effects
			p.c.Tick(p.now, &out)
			p.carryOut(out)
		}
	}
	passes(120 * mono.Second)
	if n := len(p.c.names.all); n != 2 {
		t.Fatalf("%d names are kept while their models are there, want 2", n)
	}
	before := p.c.Serial()
	_, _ = p.order(catalog.Order{Kind: catalog.OrderUnload, GPU: "a/gpu/0", Keys: []string{"m/1"}})
	p.stock(a, has(0, spec("m")), has(1, spec("n"))) // n's GPU has lost it, and is to have it
	passes(sweepEvery)
	told := p.c.Changes(before, 100).Names
	if len(told) != 1 || told[0].Name != "m" || len(told[0].Shares) > 0 {
		t.Errorf("frontends hear %+v, want that m has no shares", told)
	}
	passes(2 * sweepEvery)
	if all := p.c.names; len(all.all) != 1 || len(all.byName) != 1 || all.byName["n"] == nil {
		t.Errorf("kept are %+v, want n alone", all.byName)
	}
}
