package members

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pair are a leader and its spare: the same backends introduce themselves to both, and what the
// leader orders is repeated to the spare.
type pair struct {
	t             *testing.T
	leader, spare *world
	conns         map[Conn]Conn // of the spare, by the leader's
	reign         wire.Epoch    // the leader's
}

func newPair(t *testing.T) *pair {
	l := limits()
	l.Epoch = 7
	p := &pair{t: t, leader: newWorld(t, l), conns: map[Conn]Conn{}}
	l.Epoch = 5 // it began before
	p.spare = newWorld(t, l)
	p.leader.told = func(e *Effect) {
		if e.Kind != Keep {
			return
		}
		var out Effects
		if err := p.spare.c.Overhear(p.spare.now, p.conns[e.Conn], e.Order, &out); err != nil {
			t.Fatal(err)
		}
		p.spare.carryOut(out)
	}
	return p
}

// joins introduces a backend to both: to the spare first, as the leader's orders come with its admission.
func (p *pair) joins(name string, devices int, models ...catalog.ModelSpec) {
	p.t.Helper()
	for _, w := range []*world{p.spare, p.leader} {
		info := w.info(name, 1, 1, on("x", devices, models...))
		info.Pools[0].Runtime = true
		if w == p.leader {
			p.conns[w.conns+1] = p.spare.conns
		}
		w.must(w.join(info))
	}
}

func (p *pair) order(o catalog.Order) {
	p.t.Helper()
	w := p.leader
	var out Effects
	w.c.Order(w.now, 1000, &o, &out)
	for i := range out {
		if out[i].Kind == Answer && out[i].Err != nil {
			p.t.Fatalf("%+v: %v", o, out[i].Err)
		}
	}
	w.carryOut(out)
	// What was drained has nothing left.
	for conn, info := range w.admitted {
		for device := range info.Pools[0].Devices {
			if w.c.Draining(conn, 0, device) {
				var out Effects
				w.c.Idle(w.now, conn, 0, device, &out)
				w.carryOut(out)
			}
		}
	}
}

// stands brings the leader's document to the spare, as it would travel.
func (p *pair) stands() {
	p.t.Helper()
	doc := p.leader.c.Standing(p.reign)
	var out Effects
	if err := p.spare.c.TakeStanding(p.spare.now, &doc, &out); err != nil {
		p.t.Fatal(err)
	}
	p.spare.carryOut(out)
}

// where is the sub-cluster that serves a model; "?": none does.
func where(w *world, key string) string {
	for _, m := range w.models {
		if m.spec.Key() == key {
			return w.names[m.pool]
		}
	}
	return "?"
}

// A spare has each GPU in the sub-cluster that the leader took it to, and each model where the
// leader routes it, by what backends repeat alone; and its own decisions are later than the leader's.
func TestASpareOverhearsWhereAllIs(t *testing.T) {
	p := newPair(t)
	p.joins("a", 2, spec("m"), spec("n"))
	p.joins("b", 2, spec("m"), spec("n"))
	for i, gpu := range []string{"a/x/0", "a/x/1", "b/x/0", "b/x/1"} {
		p.order(catalog.Order{Kind: catalog.OrderDrain, GPU: gpu})
		p.order(catalog.Order{Kind: catalog.OrderSeat, GPU: gpu, To: []string{"one", "two"}[i%2]})
	}
	p.order(catalog.Order{Kind: catalog.OrderRoute, DeviceType: "x", To: "one", Keys: []string{"m/1"}})
	p.order(catalog.Order{Kind: catalog.OrderRoute, DeviceType: "x", To: "two", Keys: []string{"n/1"}})
	same := func() {
		t.Helper()
		for _, key := range []string{"m/1", "n/1"} {
			if a, b := where(p.leader, key), where(p.spare, key); a != b {
				t.Errorf("model %s is served by %q at the leader, and by %q at the spare", key, a, b)
			}
		}
		for name, u := range p.leader.c.byUnit {
			if other := p.spare.c.byUnit[name]; other.in() != u.in() || other.joined != u.joined {
				t.Errorf("GPU %s is in %q (%v) at the leader, and in %q (%v) at the spare", name, u.in(), u.joined, other.in(), other.joined)
			}
		}
	}
	same()
	if where(p.spare, "m/1") != "one" || where(p.spare, "n/1") != "two" {
		t.Fatalf("m is served by %q, n by %q", where(p.spare, "m/1"), where(p.spare, "n/1"))
	}
	p.order(catalog.Order{Kind: catalog.OrderRoute, DeviceType: "x", To: "two", Keys: []string{"m/1"}})
	same()
	p.order(catalog.Order{Kind: catalog.OrderDrain, GPU: "a/x/0"})
	same()

	// It leads now: what it decides holds against what the old leader has said, though its life began before.
	if at := p.spare.c.decides(); !at.after(p.spare.c.poolOf("x", "two").stamp) {
		t.Errorf("the spare decides at %+v, and sub-cluster two is of %+v", at, p.spare.c.poolOf("x", "two").stamp)
	}
}

// What orders have set holds at a spare, for models that are there, for one that comes later, and
// when it is taken back.
func TestASpareStandsByWhatWasOrdered(t *testing.T) {
	p := newPair(t)
	p.leader.must(p.leader.join(p.leader.info("z", 9, 1, on("y", 1, spec("late"))))) // not linked to the spare yet
	p.joins("a", 1, spec("m"), spec("never"))
	slo, batch := int64(70*mono.Millisecond), 4
	p.order(catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1", "late/1"}, Settings: &catalog.Settings{SLO: &slo, MaxBatch: &batch}})
	p.order(catalog.Order{Kind: catalog.OrderNames, Names: []catalog.Name{{Name: "m", Shares: []catalog.Share{{Version: "1", Weight: 3}}}}})
	p.order(catalog.Order{Kind: catalog.OrderRoute, To: catalog.Nowhere, Keys: []string{"never/1"}})
	p.stands()
	if m := p.spare.model("m/1"); m.SLO != 70*mono.Millisecond || m.MaxBatch != 4 {
		t.Errorf("m at the spare: SLO %v, max_batch %d", m.SLO, m.MaxBatch)
	}
	if where(p.spare, "never/1") != "?" {
		t.Error("a model that was routed nowhere is served by the spare")
	}
	p.spare.must(p.spare.join(p.spare.info("z", 9, 1, on("y", 1, spec("late")))))
	if m := p.spare.model("late/1"); m.SLO != 70*mono.Millisecond || m.MaxBatch != 4 {
		t.Errorf("the model that came later: SLO %v, max_batch %d", m.SLO, m.MaxBatch)
	}
	names := func() []catalog.Name { return p.spare.c.Changes(0, 100).Names }
	if got := names(); len(got) != 1 || got[0].Shares[0].Weight != 3 {
		t.Errorf("names at the spare: %+v", got)
	}

	other := int64(60 * mono.Millisecond)
	p.order(catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &other}})
	p.order(catalog.Order{Kind: catalog.OrderNames, Names: []catalog.Name{{Name: "m"}}})
	p.order(catalog.Order{Kind: catalog.OrderRoute, DeviceType: "x", To: "", Keys: []string{"never/1"}})
	p.stands()
	if m := p.spare.model("m/1"); m.SLO != 60*mono.Millisecond || m.MaxBatch != 4 {
		t.Errorf("m at the spare after the change: SLO %v, max_batch %d", m.SLO, m.MaxBatch)
	}
	if where(p.spare, "never/1") != "" {
		t.Errorf("the model is routed again, and the spare has it in %q", where(p.spare, "never/1"))
	}
	if got := names(); len(got) != 1 || len(got[0].Shares) != 0 {
		t.Errorf("names at the spare after they were taken back: %+v", got)
	}
}

// Whoever looks at the serial misses no change of what a spare must be told, and a leader that
// changes nothing tells nothing.
func TestStandingSerialMovesWithIt(t *testing.T) {
	p := newPair(t)
	p.joins("a", 1, spec("m"))
	slo := int64(70 * mono.Millisecond)
	last := p.leader.c.StandingSerial()
	for _, o := range []catalog.Order{
		{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &slo}},
		{Kind: catalog.OrderNames, Names: []catalog.Name{{Name: "m", Shares: []catalog.Share{{Version: "1", Weight: 1}}}}},
		{Kind: catalog.OrderRoute, To: catalog.Nowhere, Keys: []string{"m/1"}},
		{Kind: catalog.OrderRoute, DeviceType: "x", To: "", Keys: []string{"m/1"}},
	} {
		p.order(o)
		if now := p.leader.c.StandingSerial(); now == last {
			t.Errorf("after %+v the serial is %d as before", o, now)
		} else {
			last = now
		}
	}
	p.order(catalog.Order{Kind: catalog.OrderJoin})
	var out Effects
	p.leader.c.Tick(p.leader.now, &out)
	if now := p.leader.c.StandingSerial(); now != last {
		t.Errorf("nothing has changed, and the serial is %d, was %d", now, last)
	}
}

// What one tells that was overtaken and does not know it yet does not hold.
func TestStandingOfOneThatWasOvertaken(t *testing.T) {
	p := newPair(t)
	p.joins("a", 1, spec("m"))
	slo := func(ms int64) {
		d := ms * int64(mono.Millisecond)
		p.order(catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &d}})
		p.stands()
	}
	holds := func(ms int64) {
		t.Helper()
		if got := p.spare.model("m/1").SLO; got != mono.Dur(ms)*mono.Millisecond {
			t.Errorf("the SLO is %v, must be %d ms", got, ms)
		}
	}
	p.reign = 4
	slo(70)
	holds(70)
	p.reign = 3
	slo(60)
	holds(70)
	p.reign = 5
	slo(50)
	holds(50)
}

// What a backend repeats is checked: it may be another cluster's, or nobody's.
func TestOverheardNonsense(t *testing.T) {
	p := newPair(t)
	p.joins("a", 1, spec("m"))
	conn := slices.Max([]Conn{p.spare.conns})
	for name, k := range map[string]catalog.Keep{
		"no such device": {Device: 1, In: "one"},
		"no such pool":   {Pool: 3, In: "one"},
		"a long name":    {In: string(make([]byte, nameMax+1))},
		"no model":       {In: "one", Load: []catalog.Source{{Name: "x", URL: "file:///x"}}},
	} {
		var out Effects
		if err := p.spare.c.Overhear(p.spare.now, conn, &k, &out); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		if len(out) > 0 || p.spare.c.byUnit["a/x/0"].in() != "" {
			t.Errorf("%s: it has changed something: %v", name, out)
		}
	}
	var out Effects
	if err := p.spare.c.Overhear(p.spare.now, 999, &catalog.Keep{}, &out); err != nil || len(out) > 0 {
		t.Errorf("of a stranger: %v, %v", err, out)
	}
}
