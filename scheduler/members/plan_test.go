package members

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// plant is a world in which orders are given.
type plant struct {
	*world
	ids     uint64
	answers map[uint64]error
	keeps   []catalog.Keep
	bounds  []catalog.Bound
}

func newPlant(t *testing.T, l Limits) *plant {
	p := &plant{world: newWorld(t, l), answers: map[uint64]error{}}
	p.told = func(e *Effect) {
		switch e.Kind {
		case Answer:
			p.answers[e.ID] = e.Err
		case Keep:
			p.keeps = append(p.keeps, *e.Order)
		case Bind:
			p.bounds = append(p.bounds, *e.Bound)
		}
	}
	return p
}

// order gives one, and says whether it is answered.
func (p *plant) order(o catalog.Order) (error, bool) {
	p.t.Helper()
	p.ids++
	o.ID = p.ids
	var out Effects
	p.c.Order(p.now, 1<<40, &o, &out)
	p.carryOut(out)
	err, ok := p.answers[o.ID]
	return err, ok
}

func (p *plant) do(o catalog.Order) {
	p.t.Helper()
	if err, ok := p.order(o); err != nil || !ok {
		p.t.Fatalf("%+v: %v, answered %v", o, err, ok)
	}
}

func (p *plant) stock(conn Conn, models ...catalog.Stocked) {
	p.t.Helper()
	var out Effects
	if err := p.c.Stock(p.now, 1, conn, &catalog.Stock{Models: models}, &out); err != nil {
		p.t.Fatal(err)
	}
	p.carryOut(out)
}

// has is a model that devices of a backend have.
func has(slot int, m catalog.ModelSpec, devices ...int) catalog.Stocked {
	d := catalog.Stocked{Slot: slot, Key: m.Key(), State: catalog.StateReady, Devices: devices, Spec: &m}
	if len(devices) == 0 {
		d.State, d.Spec = catalog.StateGone, nil
	}
	return d
}

// host is a backend with one pool whose models come and go.
func (p *plant) host(name string, devices int, in string, models ...catalog.ModelSpec) Conn {
	p.t.Helper()
	info := p.info(name, p.ids+1000, 1, on("gpu", devices, models...))
	p.ids++
	info.Pools[0].Runtime = true
	for range devices {
		info.Pools[0].In = append(info.Pools[0].In, in)
	}
	return p.must(p.join(info))
}

func toSub(name string, keys ...string) catalog.Order {
	return catalog.Order{Kind: catalog.OrderRoute, DeviceType: "gpu", To: name, Keys: keys}
}

func seatIn(gpu, name string) catalog.Order {
	return catalog.Order{Kind: catalog.OrderSeat, GPU: gpu, To: name}
}

// What is loaded under a key that is another model elsewhere fails, with the field, and does not
// touch the others.
func TestAnotherModelUnderTheKey(t *testing.T) {
	p := newPlant(t, limits())
	p.host("a", 1, "", spec("m"))
	b := p.host("b", 1, catalog.Nowhere)
	p.ids = 100
	if _, answered := p.order(catalog.Order{Kind: catalog.OrderLoad, GPU: "b/gpu/0", Sources: []catalog.Source{{Name: "m", Version: "1", URL: "u"}}}); answered {
		t.Fatal("a load is answered before it is done")
	}
	p.stock(b, has(0, spec("m", shape(5)), 0))
	if err := p.answers[101]; err == nil || !strings.Contains(err.Error(), "inputs") || !strings.Contains(err.Error(), "version of its own") {
		t.Errorf("answered with %v", err)
	}
	if m := p.model("m/1"); m == nil || m.Inputs[0].Shape[0] != 4 || len(p.gpus) != 1 {
		t.Errorf("served is %+v on %d GPUs", m, len(p.gpus))
	}
	f := p.c.Facts(0, 100)
	for _, g := range f.GPUs {
		if g.Name == "b/gpu/0" && (len(g.Stock) != 1 || g.Stock[0].State != catalog.StateFailed) {
			t.Errorf("facts of it are %+v", g.Stock)
		}
	}
}

// The slowest GPU of a sub-cluster counts there, and not elsewhere; settings of the control plane
// stay over a move.
func TestSlowestOfTheSubCluster(t *testing.T) {
	p := newPlant(t, limits())
	p.host("a", 1, catalog.Nowhere, spec("m"))
	p.host("b", 1, catalog.Nowhere, spec("m", most(8), profiled(3*mono.Millisecond, mono.Millisecond)))
	p.do(seatIn("a/gpu/0", "A"))
	p.do(seatIn("b/gpu/0", "B"))
	p.do(toSub("A", "m/1"))
	if m := p.model("m/1"); m.MaxBatch != 16 || m.Profile.Alpha != mono.Millisecond {
		t.Errorf("in A: %+v", m)
	}
	slo := int64(70 * mono.Millisecond)
	p.do(catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &slo}})
	p.do(toSub("B", "m/1"))
	if m := p.model("m/1"); m.MaxBatch != 8 || m.Profile.Alpha != 3*mono.Millisecond || m.SLO != 70*mono.Millisecond {
		t.Errorf("in B: %+v", m)
	}
	p.host("c", 1, catalog.Nowhere, spec("m", measured([]mono.Dur{9 * mono.Millisecond, 9 * mono.Millisecond, 9 * mono.Millisecond, 9 * mono.Millisecond})))
	p.do(seatIn("c/gpu/0", "B"))
	if m := p.model("m/1"); m.MaxBatch != 4 || fmt.Sprint(m.Profile.Table) != fmt.Sprint([]mono.Dur{9 * mono.Millisecond, 9 * mono.Millisecond, 10 * mono.Millisecond, 13 * mono.Millisecond}) {
		t.Errorf("in B with c: %+v", m)
	}
	if _, answered := p.order(catalog.Order{Kind: catalog.OrderDrain, GPU: "c/gpu/0"}); answered {
		t.Error("a drain is answered before the GPU is idle")
	}
	var out Effects
	p.c.Idle(p.now, 3, 0, 0, &out)
	p.carryOut(out)
	if m := p.model("m/1"); m.MaxBatch != 8 {
		t.Errorf("in B without c: %+v", m)
	}
}

// told is what a backend repeats of sub-cluster A.
func toldOf(serial uint64, keys ...string) []catalog.Told {
	return []catalog.Told{{SubCluster: "A", Epoch: 1, Serial: serial, Whole: true, Keys: keys}}
}

// After a restart of everything nobody may have all that was routed. The devices wait for one that
// has, and then the fullest begins: what it lacks is served when all have it.
func TestTheFullestBegins(t *testing.T) {
	p := newPlant(t, limits())
	join := func(name string, instance uint64, models ...catalog.ModelSpec) Conn {
		info := p.info(name, instance, 1, on("gpu", 1, models...))
		info.Pools[0].Runtime, info.Pools[0].In, info.Pools[0].Told = true, []string{"A"}, toldOf(7, "m/1", "n/1", "o/1")
		return p.must(p.join(info))
	}
	a := join("a", 1, spec("m"))
	b := join("b", 2, spec("m"), spec("n"))
	tick := func(d mono.Dur) {
		p.now = p.now.Add(d)
		var out Effects
		p.c.Tick(p.now, &out)
		p.carryOut(out)
	}
	tick(0)
	tick(patience)
	if len(p.gpus) != 0 || len(p.models) != 0 {
		t.Fatalf("%d GPUs serve %d models before patience is at an end", len(p.gpus), len(p.models))
	}
	tick(mono.Second)
	if len(p.gpus) != 1 || p.model("m/1") == nil || p.model("n/1") == nil || len(p.models) != 2 {
		t.Fatalf("%d GPUs serve %v", len(p.gpus), p.models)
	}
	p.stock(a, has(1, spec("n"), 0))
	if len(p.gpus) != 2 {
		t.Error("a has all that is routed, and does not serve")
	}
	p.stock(a, has(2, spec("o"), 0))
	if p.model("o/1") != nil {
		t.Error("o is routed, and b does not have it")
	}
	p.stock(b, has(2, spec("o"), 0))
	if p.model("o/1") == nil {
		t.Error("all have o, and it is not routed")
	}
}

// Of what several backends repeat the newest holds, whoever comes first; and what this scheduler
// has decided is newer than that.
func TestTheNewestWordHolds(t *testing.T) {
	for _, first := range []string{"old", "new"} {
		l := limits()
		l.Epoch = 2
		p := newPlant(t, l)
		join := func(name string, serial uint64, keys ...string) {
			info := p.info(name, serial, 1, on("gpu", 1, spec("m"), spec("n")))
			info.Pools[0].Runtime, info.Pools[0].In, info.Pools[0].Told = true, []string{"A"}, toldOf(serial, keys...)
			p.must(p.join(info))
		}
		if first == "old" {
			join("old", 5, "m/1", "n/1")
		}
		join("new", 6, "m/1")
		if first == "new" {
			join("old", 5, "m/1", "n/1")
		}
		if p.model("m/1") == nil || p.model("n/1") != nil || len(p.gpus) != 2 {
			t.Errorf("%s first: served are %v on %d GPUs", first, p.models, len(p.gpus))
		}
		p.do(toSub(catalog.Nowhere, "m/1"))
		join("late", 9, "m/1")
		if p.model("m/1") != nil {
			t.Errorf("%s first: what was ordered is undone by an older word", first)
		}
	}
}

// A GPU that loses a model that is routed serves no more, as long as another has it.
func TestLosingAModel(t *testing.T) {
	p := newPlant(t, limits())
	a := p.host("a", 1, catalog.Nowhere, spec("m"), spec("n"))
	b := p.host("b", 1, catalog.Nowhere, spec("m"), spec("n"))
	for _, gpu := range []string{"a/gpu/0", "b/gpu/0"} {
		p.do(seatIn(gpu, "A"))
	}
	p.do(toSub("A", "m/1", "n/1"))
	p.stock(a, has(0, spec("m")))
	if len(p.gpus) != 1 || len(p.models) != 2 {
		t.Errorf("%d GPUs serve %d models: a has lost one", len(p.gpus), len(p.models))
	}
	p.stock(b, has(0, spec("m")))
	if len(p.gpus) != 2 || len(p.models) != 1 {
		t.Errorf("%d GPUs serve %d models: nobody has m", len(p.gpus), len(p.models))
	}
	p.stock(b, has(0, spec("m"), 0))
	p.stock(a, has(0, spec("m"), 0))
	if len(p.gpus) != 2 || len(p.models) != 2 {
		t.Errorf("%d GPUs serve %d models: all have all again", len(p.gpus), len(p.models))
	}
	if text := strings.Join(p.notes, "\n"); !strings.Contains(text, "GPU a/gpu/0 has lost models") || !strings.Contains(text, "no longer on all GPUs") {
		t.Errorf("the log says %q", text)
	}
}

// A sub-cluster's models, all models, and sub-clusters have limits, with a word.
func TestLimitsOfPlans(t *testing.T) {
	l := limits()
	l.PoolModels, l.Models, l.Pools = 2, 4, 2
	p := newPlant(t, l)
	p.host("a", 2, catalog.Nowhere, spec("m"), spec("n"), spec("o"))
	p.do(seatIn("a/gpu/0", "A"))
	p.do(toSub("A", "m/1", "n/1"))
	for want, o := range map[string]catalog.Order{
		"it may serve 2":      toSub("A", "o/1"),
		"more than 4 models":  {Kind: catalog.OrderLoad, GPU: "a/gpu/1", Sources: []catalog.Source{{Name: "x", Version: "1", URL: "u"}, {Name: "y", Version: "1", URL: "u"}}},
		"2 sub-clusters alre": {},
	} {
		if o.Kind == "" {
			p.do(seatIn("a/gpu/1", "B"))
			p.host("b", 1, catalog.Nowhere)
			o = seatIn("b/gpu/0", "C")
		}
		if err, _ := p.order(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	many := p.info("many", 99, 9, on("gpu", 1, spec("p"), spec("q")))
	many.Pools[0].In = []string{catalog.Nowhere}
	p.mustNot(p.join(many), "more than 4 models")
}

// bulk is a sub-cluster of 64 GPUs of 8 backends, each with models of which all are routed.
func bulk(t *testing.T, models int) (p *plant, conns []Conn) {
	p = newPlant(t, Limits{Frontends: 4, Backends: 64, Pools: 256, Models: 10000, GPUs: 4096})
	var specs []catalog.ModelSpec
	o := toSub("A")
	for i := range models {
		specs = append(specs, spec(fmt.Sprint("m", i)))
		o.Keys = append(o.Keys, specs[i].Key())
	}
	for b := range 8 {
		conns = append(conns, p.host(fmt.Sprint("b", b), 8, catalog.Nowhere, specs...))
		for d := range 8 {
			p.do(seatIn(fmt.Sprintf("b%d/gpu/%d", b, d), "A"))
		}
	}
	p.do(o)
	return p, conns
}

// A change of one model costs what it changes, however many there are.
func BenchmarkStock(b *testing.B) {
	for _, models := range []int{256, 4096} {
		b.Run(fmt.Sprint(models, " models on 64 GPUs"), func(b *testing.B) {
			t := &testing.T{}
			p, conns := bulk(t, models)
			x := spec("x")
			for i := range b.N {
				d := has(models, x, 0, 1, 2, 3, 4, 5, 6, 7)
				if i%2 == 1 {
					d = has(models, x)
				}
				var out Effects
				if err := p.c.Stock(p.now, 1, conns[0], &catalog.Stock{Models: []catalog.Stocked{d}}, &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What the whole of it takes to tell: 64 GPUs with 4,096 models each.
func BenchmarkWholeFacts(b *testing.B) {
	p, _ := bulk(&testing.T{}, 4096)
	for range b.N {
		for since, more := uint64(0), true; more; {
			f := p.c.Facts(since, 4096)
			since, more = f.Serial, f.More
		}
	}
}

// What a backend says of a model for the first time is as old as its configuration; what it says
// anew is new.
func TestSettingsThatAreToldLater(t *testing.T) {
	p := newPlant(t, limits())
	join := func(name string, configured int64) Conn {
		return p.must(p.join(p.info(name, uint64(configured), configured, on("gpu", 1, spec("m")))))
	}
	old, young := join("old", 1), join("young", 2)
	p.now = p.now.Add(mono.Second)
	tell := func(conn Conn, at int64, d mono.Dur) {
		var out Effects
		if err := p.c.Stock(p.now, at, conn, &catalog.Stock{Models: []catalog.Stocked{has(1, spec("n", slo(d)), 0)}}, &out); err != nil {
			t.Fatal(err)
		}
		p.carryOut(out)
	}
	tell(young, 10, 50*mono.Millisecond)
	tell(old, 20, 70*mono.Millisecond)
	if got := p.model("n/1").SLO; got != 50*mono.Millisecond {
		t.Errorf("SLO %v: the older configuration holds", got)
	}
	tell(old, 30, 80*mono.Millisecond)
	if got := p.model("n/1").SLO; got != 80*mono.Millisecond {
		t.Errorf("SLO %v: what changed last does not hold", got)
	}
}

// A device's place that the scheduler has only heard of outlives the process that told it.
func TestAPlaceThatWasHeardOf(t *testing.T) {
	p := newPlant(t, limits())
	info := p.info("a", 1, 1, on("gpu", 1, spec("m")))
	info.Pools[0].Runtime, info.Pools[0].In, info.Pools[0].Told = true, []string{"A"}, toldOf(7, "m/1")
	p.leave(p.must(p.join(info)))
	fresh := p.info("a", 2, 2, on("gpu", 1, spec("m")))
	fresh.Pools[0].Runtime = true
	p.keeps = nil
	p.must(p.join(fresh))
	if len(p.gpus) != 1 || p.names[0] != "A" || p.model("m/1") == nil {
		t.Errorf("%d GPUs in %v serve %v", len(p.gpus), p.names, p.models)
	}
	if len(p.keeps) != 1 || p.keeps[0].In != "A" || p.keeps[0].Told == nil || !p.keeps[0].Told.Whole || len(p.keeps[0].Told.Keys) != 1 {
		t.Errorf("it is told %+v", p.keeps)
	}
}

// A host whose devices are in two sub-clusters has in its list what they have in common: it is not
// refused for what one of them has beside that.
func TestAHostInTwoPlaces(t *testing.T) {
	p := newPlant(t, limits())
	p.host("a", 1, "", spec("m"))
	info := p.info("b", 50, 1, on("gpu", 2))
	info.Pools[0].Runtime, info.Pools[0].In, info.Pools[0].Told = true, []string{"A", ""}, toldOf(7, "n/1")
	b := p.must(p.join(info))
	if len(p.gpus) != 1 {
		t.Errorf("%d GPUs before b has said what its devices have", len(p.gpus))
	}
	p.stock(b, has(0, spec("n"), 0), has(1, spec("m"), 1))
	if len(p.gpus) != 3 || p.model("m/1") == nil || p.model("n/1") == nil {
		t.Errorf("%d GPUs serve %v", len(p.gpus), p.models)
	}
}
