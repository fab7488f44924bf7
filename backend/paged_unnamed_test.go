package backend

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A scheduler that has no id for a model can order its weights away all the same: by their generation, or all such. What
// has an id stays, whatever its generation, and each order has one report.
func TestWeightsWithoutAnID(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t)
	defer c.close()
	b := c.backend(inPages(40, 4))
	defer b.Close()
	c.paged(100, 4)
	for i := range 4 {
		_ = c.control().Send(loadOf(100, wire.LoadID(i+1), 1, wire.ModelID(10+i), wire.Generation(i+1)).Append(nil))
		if l := c.loaded(wire.LoadID(i + 1)); l.Reason != wire.ReasonNone {
			t.Fatalf("%+v", l)
		}
	}
	c.again(1)
	c.tell(wire.DocAdmitted, catalog.Admitted{Epoch: 101}) // it has ids for one of the four
	c.member(101, 3, 3, "inproc:f")
	c.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{50}, Slots: []int{2}})
	for i, want := range []struct {
		gen  wire.Generation
		free uint32
	}{{3, 12}, {9, 12}, {2, 19}, {0, 33}, {0, 33}} {
		id := wire.LoadID(20 + i)
		_ = c.control().Send(unloadOf(101, id, 1, wire.ModelNone, want.gen).Append(nil))
		if l := c.loaded(id); l.Reason != wire.ReasonNone || l.Free != want.free || l.Model != wire.ModelNone {
			t.Errorf("generation %d is forgotten: %+v, want %d pages free", want.gen, l, want.free)
		}
	}
	_ = c.control().Send(loadOf(101, 40, 1, wire.ModelNone, 9).Append(nil))
	if l := c.loaded(40); l.Reason != wire.ReasonUnknownModel {
		t.Errorf("%+v", l)
	}
}

// What an introduction says of weights is bounded, in number and in bytes, the last ones used first.
func TestIntroductionsAreBounded(t *testing.T) {
	key := func(n int) catalog.HeldModel {
		return catalog.HeldModel{Key: strings.Repeat("<", n), Generation: 1} // six bytes each, in JSON
	}
	many := make([]catalog.HeldModel, catalog.HeldMax)
	r := newHeldRoom()
	if n := r.take(many); n != catalog.HeldMax-1 || r.untold != 1 || r.take(many) != 0 || r.untold != catalog.HeldMax+1 {
		t.Errorf("%d fit, %+v", n, *r)
	}
	long := []catalog.HeldModel{key(10), key(heldBytes / 12), key(heldBytes / 12), key(100)}
	r = newHeldRoom()
	if n := r.take(long); n != 2 || r.untold != 2 {
		t.Errorf("%d fit, %+v: want the last two", n, *r)
	}
	if n := r.take(long[:1]); n != 1 {
		t.Errorf("%d of another device fit, want 1", n)
	}
}
