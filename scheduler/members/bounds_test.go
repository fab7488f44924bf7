package members

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Names come and go for as long as the scheduler lives: those that have no shares any more do not
// take the places of others.
func TestNamesWithoutSharesAreForgotten(t *testing.T) {
	l := limits()
	p := newPlant(t, l)
	names := func(round, shares int) catalog.Order {
		o := catalog.Order{Kind: catalog.OrderNames}
		for i := range l.Models {
			o.Names = append(o.Names, catalog.Name{Name: fmt.Sprint(round, "-", i), Shares: []catalog.Share{{Version: "1", Weight: 1}}[:shares]})
		}
		return o
	}
	p.do(names(0, 1))
	if err, _ := p.order(names(1, 1)); err == nil {
		t.Fatal("twice as many names as models are taken")
	}
	p.do(names(0, 0))
	if err, _ := p.order(names(1, 1)); err == nil {
		t.Error("names are forgotten before frontends can have heard of it")
	}
	p.now = p.now.Add(rest + 1)
	p.do(names(1, 1))
	if n := len(p.c.Changes(0, 1<<20).Names); n != l.Models {
		t.Errorf("%d names are told, want %d", n, l.Models)
	}
}

// A scheduler whose clock was ahead may have been before this one: what is decided now is newer
// than all that it said.
func TestDecisionsAreNewerThanAllThatWasHeard(t *testing.T) {
	l := limits()
	l.Epoch = 2
	p := newPlant(t, l)
	join := func(name string) {
		info := p.info(name, 1, 1, on("gpu", 1, spec("m"), spec("n")))
		info.Pools[0].Runtime, info.Pools[0].In = true, []string{"A"}
		info.Pools[0].Told = []catalog.Told{{SubCluster: "A", Epoch: 7, Serial: 100, Whole: true, Keys: []string{"m/1"}}}
		p.must(p.join(info))
	}
	join("a")
	p.keeps = nil
	p.do(toSub("A", "n/1"))
	if len(p.keeps) != 1 || p.keeps[0].Told.Epoch != 7 || p.keeps[0].Told.Serial <= 100 {
		t.Errorf("told is %+v, want what is newer than serial 100 of epoch 7", p.keeps)
	}
	join("b") // it repeats the word of before
	if p.model("n/1") == nil {
		t.Error("what was decided is undone by an older word")
	}
}

// A backend speaks of the sub-clusters of its devices: of others it cannot fill the scheduler.
func TestToldOfOtherSubClusters(t *testing.T) {
	p := newPlant(t, limits())
	info := p.info("a", 1, 1, on("gpu", 1, spec("m")))
	info.Pools[0].Runtime, info.Pools[0].In = true, []string{"A"}
	for i := range 10 {
		info.Pools[0].Told = append(info.Pools[0].Told, catalog.Told{SubCluster: fmt.Sprint("S", i), Epoch: 1, Serial: 1, Whole: true, Keys: []string{fmt.Sprintf("x%d/1", i)}})
	}
	p.must(p.join(info))
	if n := len(p.c.models.byKey); n != 1 {
		t.Errorf("%d models are known, and one is there", n)
	}
}

// Who follows the facts need not begin anew because models come and go on a backend; and a backend
// that tells of thousands again and again has told of no more.
func TestModelsThatAreGone(t *testing.T) {
	p := newPlant(t, limits())
	conn := p.host("a", 1, catalog.Nowhere)
	known := p.c.FactsSerial()
	wholes := 0
	for i := range 4 * tombstones {
		p.stock(conn, has(i, spec(fmt.Sprint("m", i)), 0))
		p.stock(conn, has(i, spec(fmt.Sprint("m", i))))
		if i%8 == 0 { // they are told ten times a second
			f := p.c.Facts(known, 1<<20)
			if known = f.Serial; f.Whole {
				wholes++
			}
		}
		p.now = p.now.Add(mono.Second)
	}
	if wholes > 0 {
		t.Errorf("%d times all is told anew", wholes)
	}
	if n := len(p.c.byConn[conn].stocks[0].items); n > tombstones {
		t.Errorf("%d models that are gone are remembered", n)
	}
	many := make([]catalog.Stocked, stockMax-tombstones-1)
	for i := range many {
		many[i] = catalog.Stocked{Key: fmt.Sprintf("x%d/1", i), State: catalog.StateFetching}
	}
	p.stock(conn, many...)
	p.stock(conn, many...)
}

// What a device shall have is bounded.
func TestWantedIsBounded(t *testing.T) {
	l := limits()
	l.Models = 10 * wantedMax
	p := newPlant(t, l)
	p.host("a", 1, catalog.Nowhere)
	o := catalog.Order{Kind: catalog.OrderLoad, GPU: "a/gpu/0"}
	for i := range wantedMax {
		o.Sources = append(o.Sources, catalog.Source{Name: fmt.Sprint("m", i), Version: "1", URL: "u"})
	}
	if err, done := p.order(o); done {
		t.Fatalf("answered before it is there: %v", err)
	}
	p.order(o) // again: no more
	o.Sources = []catalog.Source{{Name: "last", Version: "1", URL: "u"}}
	if err, done := p.order(o); !done || err == nil || !strings.Contains(err.Error(), "unload some") {
		t.Errorf("one too many: %v, answered %v", err, done)
	}
}

// A control plane that lost its state numbers plans from the beginning: what it orders counts when
// those who knew better have left.
func TestPlansAreNumberedAnew(t *testing.T) {
	p := newPlant(t, limits())
	p.host("a", 1, catalog.Nowhere, spec("m"))
	old := seatIn("a/gpu/0", "A")
	old.Plan = 7
	p.do(old)
	next := toSub("A", "m/1")
	next.Plan = 1
	if err, _ := p.order(next); err == nil {
		t.Error("an older plan is followed while a controller is there")
	}
	var out Effects
	p.c.Leave(p.now, 1<<40, &out)
	p.carryOut(out)
	p.do(next)
}

// A model that the scheduler does not take is a line in the log, however often its backend tells of it.
func TestBadModelsAreSaidOnce(t *testing.T) {
	p := newPlant(t, limits())
	conn := p.host("a", 1, catalog.Nowhere)
	bad := spec("m")
	bad.SLO = 0
	notes := 0
	for range 10 {
		var out Effects
		if err := p.c.Stock(p.now, 1, conn, &catalog.Stock{Models: []catalog.Stocked{has(0, bad, 0)}}, &out); err != nil {
			t.Fatal(err)
		}
		for _, e := range out {
			if e.Kind == Note && strings.Contains(e.Text, "not served") {
				notes++
			}
		}
		p.carryOut(out)
	}
	if notes != 1 {
		t.Errorf("said %d times, want once", notes)
	}
}
