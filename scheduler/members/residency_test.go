package members

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestResidency: whatever backends load and lose, whatever is ordered, whoever leaves and comes
// back, and whenever the scheduler begins anew: a model is routed only where all GPUs have it,
// no device is in two sub-clusters, each order has one answer, and those who follow effects,
// changes or facts know the same. After a restart of the scheduler all is routed where it was.
func TestResidency(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFleet(r)
		for i, name := range []string{"a", "bb", "c"} {
			own := rapid.SampledFrom([][]string{nil, nil, {"m/1"}, {"m/1", "n/1"}}).Draw(r, "own")
			f.start(name, []string{"x", "x", "y"}[i], rapid.IntRange(1, 2).Draw(r, "devices"), own)
		}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			f.event()
			f.check()
		}
		f.finish()
	})
}

func (f *fleet) draw(most int, what string) int { return rapid.IntRange(0, most-1).Draw(f.r, what) }

func (f *fleet) event() {
	p := f.procs[f.draw(len(f.procs), "process")]
	switch f.draw(17, "event") {
	case 0, 1, 2:
		if p.conn == 0 {
			f.dial(p)
		} else if len(p.tasks) > 0 {
			f.work(p, f.draw(8, "fails") == 0)
		}
	case 3:
		if p.conn != 0 {
			f.hangUp(p)
		}
		if f.draw(2, "again") == 0 {
			f.fresh(p)
		}
	case 4:
		f.local(p)
	case 5:
		f.idle()
	case 6:
		f.now = f.now.Add(rapid.SampledFrom([]mono.Dur{mono.Second, patience + 1, poolRest + 1}).Draw(f.r, "passes"))
		f.tick()
	case 7:
		if f.draw(6, "retires") > 0 {
			f.service(p)
		} else if p.conn != 0 {
			var out Effects
			f.c.Retire(p.conn, &out)
			f.carryOut(out)
		}
	case 8:
		if f.draw(4, "restart") == 0 {
			f.restart()
		} else if f.ctl != 0 && f.draw(3, "leaves") == 0 {
			f.leave(f.ctl)
			f.ctl = 0
			clear(f.orders) // nobody is answered
		}
	case 9:
		f.facts[1].follow(f.c)
	case 10, 11, 12:
		f.assign(p)
	default:
		f.orderSome()
	}
}

// assign takes a device to a sub-cluster that serves models, in the steps that a roll-out would:
// each may be refused.
func (f *fleet) assign(p *proc) {
	if p.conn == 0 && !f.dial(p) {
		return
	}
	to := rapid.SampledFrom([]string{"A", "A", "B"}).Draw(f.r, "to")
	keys := rapid.SampledFrom([][]string{{"m/1"}, {"n/1"}, {"o/1"}, {"m/1", "o/1"}, {"p/1", "n/1"}}).Draw(f.r, "keys")
	gpu := unitName(p.name, p.typ, f.draw(p.devices, "device"))
	all := []string{gpu}
	for _, q := range f.procs {
		for d := range q.devices {
			if q.conn != 0 && q.typ == p.typ && q.in[d] == to {
				all = append(all, unitName(q.name, q.typ, d))
			}
		}
	}
	var need []string // what is routed there
	for _, m := range f.models {
		if f.types[m.pool] == p.typ && f.world.names[m.pool] == to {
			need = append(need, m.spec.Key())
		}
	}
	slices.Sort(need)
	for i, name := range all {
		o := &catalog.Order{Kind: catalog.OrderLoad, GPU: name}
		for _, k := range keys {
			o.Sources = append(o.Sources, catalog.Source{Name: k[:1], Version: "1", URL: "file:///" + k})
		}
		for _, k := range need {
			if i == 0 && !slices.Contains(keys, k) {
				o.Sources = append(o.Sources, catalog.Source{Name: k[:1], Version: "1", URL: "file:///" + k})
			}
		}
		_, _ = f.command(o)
	}
	for _, q := range f.procs {
		for q.conn != 0 && len(q.tasks) > 0 {
			f.work(q, false)
			f.check()
		}
	}
	if p.in[0] != to || f.draw(4, "drain") == 0 {
		_, _ = f.command(&catalog.Order{Kind: catalog.OrderDrain, GPU: gpu})
		f.check()
		for range 6 {
			f.idle()
		}
		_, _ = f.command(&catalog.Order{Kind: catalog.OrderSeat, GPU: gpu, To: to})
		f.check()
	}
	o := &catalog.Order{Kind: catalog.OrderRoute, DeviceType: p.typ, To: to, Keys: keys}
	if could := f.couldRoute(o); could {
		if done, err := f.command(o); !done || err != nil {
			f.r.Fatalf("%+v: %v, %v", o, done, err)
		}
	}
}

func (f *fleet) tick() {
	var out Effects
	f.c.Tick(f.now, &out)
	f.carryOut(out)
}

// local changes what lies in a backend's folder.
func (f *fleet) local(p *proc) {
	key := rapid.SampledFrom([]string{"m/1", "n/1", "o/1"}).Draw(f.r, "key")
	comes := f.draw(2, "comes") == 0
	for _, h := range p.has {
		if h[key] = comes; !comes {
			delete(h, key)
		}
	}
	if p.conn != 0 {
		f.tell(p, key, catalog.StateReady, "")
	}
}

// idle lets a GPU that is drained have nothing left.
func (f *fleet) idle() {
	for _, p := range f.procs {
		for d := range p.devices {
			if p.conn != 0 && f.c.Draining(p.conn, 0, d) {
				var out Effects
				f.c.Idle(f.now, p.conn, 0, d, &out)
				f.carryOut(out)
				return
			}
		}
	}
}

func (f *fleet) service(p *proc) {
	if p.conn == 0 {
		return
	}
	d := f.draw(p.devices, "device")
	p.out[d] = !p.out[d]
	var out Effects
	if err := f.c.Service(p.conn, 0, d, !p.out[d], "it is hot", &out); err != nil {
		f.r.Fatal(err)
	}
	f.carryOut(out)
}

// orderSome gives an order, sensible or not.
func (f *fleet) orderSome() {
	p := f.procs[f.draw(len(f.procs), "whose GPU")]
	keys := rapid.SampledFrom([][]string{{"m/1"}, {"n/1"}, {"o/1"}, {"p/1"}, {"m/1", "n/1"}}).Draw(f.r, "keys")
	o := &catalog.Order{GPU: unitName(p.name, p.typ, f.draw(p.devices, "device")), DeviceType: p.typ, Keys: keys, Plan: f.plan,
		To: rapid.SampledFrom([]string{"A", "A", "B", "", catalog.Nowhere}).Draw(f.r, "to")}
	o.Kind = rapid.SampledFrom([]string{catalog.OrderLoad, catalog.OrderLoad, catalog.OrderUnload, catalog.OrderRoute, catalog.OrderRoute, catalog.OrderDrain,
		catalog.OrderSeat, catalog.OrderSeat, catalog.OrderMeasure, catalog.OrderSet, catalog.OrderNames}).Draw(f.r, "kind")
	for _, k := range keys {
		o.Sources = append(o.Sources, catalog.Source{Name: k[:1], Version: "1", URL: "file:///" + k})
	}
	slo, weight := int64(60*mono.Millisecond), uint32(f.draw(3, "weight"))
	o.Settings = &catalog.Settings{SLO: &slo}
	o.Names = []catalog.Name{{Name: keys[0][:1], Shares: []catalog.Share{{Version: "1", Weight: weight}}}}
	if f.draw(3, "in time") == 0 {
		o.Within = mono.Dur(1+f.draw(20, "within")) * mono.Second
	}
	if f.draw(10, "new plan") == 0 {
		f.plan++
		o.Plan = f.plan
	} else if f.plan > 1 && f.draw(10, "old plan") == 0 {
		o.Plan = f.plan - 1
	}
	older := o.Plan > 0 && o.Plan < f.c.plan
	could := f.couldRoute(o)
	done, err := f.command(o)
	switch {
	case older:
		if !done || err == nil {
			f.r.Fatalf("%+v of an older plan: %v, %v", o, done, err)
		}
	case done && err == nil:
		f.carriedOut(o, p)
	case o.Kind == catalog.OrderRoute && could:
		f.r.Fatalf("%+v is refused: %v", o, err)
	}
}

// couldRoute is the reference's: the sub-cluster has a GPU in service, and all its devices have
// all.
func (f *fleet) couldRoute(o *catalog.Order) bool {
	serving := 0
	for at := range f.gpus {
		if f.types[at[0]] == o.DeviceType && f.world.names[at[0]] == o.To {
			serving++
		}
	}
	n := map[string]bool{}
	for _, m := range f.models {
		if f.types[m.pool] == o.DeviceType && f.world.names[m.pool] == o.To {
			n[m.spec.Key()] = true
		}
	}
	for _, k := range o.Keys {
		n[k] = true
	}
	if o.To == catalog.Nowhere {
		return true
	}
	if serving == 0 || len(n)+f.waiting(o) > f.l.PoolModels {
		return false
	}
	for _, p := range f.procs {
		for d := range p.devices {
			if p.conn == 0 || p.typ != o.DeviceType || p.in[d] != o.To {
				continue
			}
			for _, k := range o.Keys {
				if !p.has[d][k] || f.bad(p, k) {
					return false
				}
			}
		}
	}
	return true
}

// waiting are the models that shall be routed there and are not, which count as well.
func (f *fleet) waiting(o *catalog.Order) int {
	if p := f.c.poolOf(o.DeviceType, o.To); p != nil {
		return p.pinned
	}
	return 0
}

// carriedOut looks whether an order that was answered at once is done.
func (f *fleet) carriedOut(o *catalog.Order, p *proc) {
	u := f.c.byUnit[o.GPU]
	for _, key := range o.Keys {
		var m *model
		if o.Kind != catalog.OrderNames {
			m = f.c.models.byKey[key]
		}
		ok := true
		switch o.Kind {
		case catalog.OrderLoad:
			ok = p.has[u.device][key] && !f.bad(p, key)
		case catalog.OrderUnload:
			ok = !p.has[u.device][key]
		case catalog.OrderRoute:
			ok = o.To == catalog.Nowhere && (m == nil || m.home == nil) || m != nil && m.home != nil && m.home.pool.name == o.To && m.home.pool.deviceType == o.DeviceType
		case catalog.OrderDrain:
			ok = u == nil || u.pool == nil && p.in[u.device] == catalog.Nowhere
		case catalog.OrderSeat:
			ok = u.joined && p.in[u.device] == o.To
		case catalog.OrderSet:
			ok = m.home == nil || m.home.pool.members == 0 || m.home.spec.SLO == 60*mono.Millisecond
		case catalog.OrderNames:
			f.names[o.Names[0].Name] = o.Names[0]
		}
		if !ok {
			f.r.Fatalf("%+v is said to be done: %v, %+v", o, p, m)
		}
	}
}

// restart begins a scheduler anew: those that were linked come in another order.
func (f *fleet) restart() {
	var linked []*proc
	sound := f.sound()
	was := f.planned()
	for _, p := range f.procs {
		if p.conn != 0 {
			linked = append(linked, p)
			p.conn = 0
		}
	}
	f.l.Epoch++
	f.reset()
	if f.draw(2, "order") == 0 {
		slices.Reverse(linked)
	}
	for _, p := range linked {
		f.dial(p)
		f.check()
	}
	if now := f.planned(); sound && !maps.Equal(was, now) {
		f.r.Fatalf("routed were %v, and now %v", was, now)
	}
}

// planned is what is served by sub-clusters that are planned and have GPUs.
func (f *fleet) planned() map[string]string {
	all := map[string]string{}
	for _, m := range f.models {
		if name := f.world.names[m.pool]; name != "" && f.serving(m.pool) > 0 {
			all[m.spec.Key()] = f.types[m.pool] + "/" + name
		}
	}
	return all
}

func (f *fleet) serving(pool int) int {
	n := 0
	for at := range f.gpus {
		if at[0] == pool {
			n++
		}
	}
	return n
}

// sound: nothing is between two states, so that a restart finds all as it was.
func (f *fleet) sound() bool {
	for _, p := range f.c.pools {
		if p != nil && (p.name != "" && (p.pinned != p.routed || p.members == 0) || p.members != len(p.units)) {
			return false
		}
	}
	for _, p := range f.procs {
		if p.conn == 0 {
			continue // it stays away
		}
		if slices.Contains(p.out, true) {
			return false
		}
		for d := range p.devices {
			if f.c.Draining(p.conn, 0, d) {
				return false
			}
		}
	}
	return !f.clashes()
}

// clashes: sets of models differ where nobody plans; a backend may be refused after a restart.
func (f *fleet) clashes() bool {
	sets := map[string]string{}
	for _, p := range f.procs {
		for d := range p.devices {
			set := fmt.Sprint(slices.Sorted(maps.Keys(p.has[d])))
			if p.in[d] != "" || p.conn == 0 {
				continue
			}
			if other, ok := sets[p.typ]; ok && other != set {
				return true
			}
			sets[p.typ] = set
		}
	}
	x, y := sets["x"], sets["y"]
	return x != "" && y != "" // a model may be in both
}

// finish lets all be done that was begun: then every order has its answer.
func (f *fleet) finish() {
	for _, p := range f.procs {
		for p.conn != 0 && len(p.tasks) > 0 {
			f.work(p, false)
			f.check()
		}
	}
	for range 8 {
		f.idle()
	}
	for id, o := range f.orders {
		f.r.Fatalf("order %d has no answer: %+v", id, o)
	}
}

// check holds the rules between events.
func (f *fleet) check() {
	underway := 0
	for _, u := range f.c.byUnit {
		underway += len(u.orders)
	}
	if underway != f.c.underway {
		f.r.Fatalf("%d orders are under way, and %d are counted", underway, f.c.underway)
	}
	byName := map[string][2]string{}
	for id, m := range f.models {
		key := m.spec.Key()
		if at, twice := byName[key]; twice {
			f.r.Fatalf("%s is served twice, by %v", key, at)
		}
		byName[key] = [2]string{f.types[m.pool], f.world.names[m.pool]}
		for at, conn := range f.gpus {
			if at[0] == m.pool {
				f.resident(conn, f.unit(at, conn).device, id, key)
			}
		}
	}
	seats := map[string][2]int{}
	for at, conn := range f.gpus {
		u := f.unit(at, conn)
		if p := f.byConn(conn); p.typ != f.types[at[0]] || p.in[u.device] != f.world.names[at[0]] || p.out[u.device] {
			f.r.Fatalf("%v, device %d of it, is in %s/%s", p, u.device, f.types[at[0]], f.world.names[at[0]])
		}
		seats[u.name] = at
	}
	f.checkCounts()
	slow := *newWitness(f.facts[1].most)
	slow.serial = f.facts[1].serial
	for k, v := range f.facts[1].gpus {
		slow.gpus[k] = &sight{v.GPUFacts, maps.Clone(v.stock)}
	}
	maps.Copy(slow.models, f.facts[1].models)
	maps.Copy(slow.subs, f.facts[1].subs)
	slow.follow(f.c)
	f.facts[0].follow(f.c)
	f.checkWitness(f.facts[0], byName, seats)
	f.checkWitness(&slow, byName, seats)
	f.seen.follow(f.c)
	if len(f.seen.models) != len(f.models) {
		f.r.Fatalf("a frontend knows %v, served are %v", f.seen.models, f.models)
	}
	for id, m := range f.models {
		if s := f.seen.models[id]; s.Spec.Key() != m.spec.Key() || s.Spec.SLO != m.spec.SLO || s.DeviceType != f.types[m.pool] || s.SubCluster != f.world.names[m.pool] {
			f.r.Fatalf("a frontend has %+v for %+v", s, m)
		}
	}
	for k, n := range f.names {
		if len(f.seen.names[k].Shares) == 0 && !f.known(k) { // it was buried
			n.Shares = nil
			f.names[k] = n
		}
		if fmt.Sprint(f.seen.names[k]) != fmt.Sprint(n) {
			f.r.Fatalf("name %s: a frontend has %+v, ordered was %+v", k, f.seen.names[k], n)
		}
	}
}

// known: somebody has a model of a name, or it is ordered.
func (f *fleet) known(name string) bool {
	for key := range f.c.models.byKey {
		if nameOf(key) == name {
			return true
		}
	}
	return slices.ContainsFunc(f.c.memory.all, func(r *record) bool {
		return slices.ContainsFunc(r.wanted, func(s catalog.Source) bool { return s.Name == name })
	})
}

// bad: the scheduler does not take a model of a process, for want of ids.
func (f *fleet) bad(p *proc, key string) bool {
	if p.conn == 0 {
		return false
	}
	it := f.c.backend(p.conn).stocks[0].byKey[key]
	return it != nil && it.bad != ""
}

func (f *fleet) checkWitness(w *witness, models map[string][2]string, seats map[string][2]int) {
	if !maps.Equal(w.models, models) {
		f.r.Fatalf("a controller knows the models %v, the engines have %v", w.models, models)
	}
	n := 0
	for _, p := range f.procs {
		for d := range p.devices {
			name := unitName(p.name, p.typ, d)
			g := w.gpus[name]
			if p.conn == 0 {
				if g != nil {
					f.r.Fatalf("a controller knows GPU %s, which is away", name)
				}
				continue
			}
			n++
			has := maps.Clone(p.has[d])
			maps.DeleteFunc(has, func(k string, _ bool) bool { return f.bad(p, k) })
			if g == nil || g.In != p.in[d] || !maps.Equal(g.stock, has) {
				f.r.Fatalf("a controller has %+v for device %d of %v", g, d, p)
			}
			at, seated := seats[name]
			want := catalog.GPUFree
			switch {
			case p.out[d]:
				want = catalog.GPUOut
			case seated && f.retired[at]:
				want = catalog.GPUDraining
			case seated:
				want = catalog.GPUServing
			}
			if g.State != want {
				f.r.Fatalf("a controller thinks that GPU %s is %s: it is %s", name, g.State, want)
			}
		}
	}
	if len(w.gpus) != n {
		f.r.Fatalf("a controller knows %d GPUs of %d", len(w.gpus), n)
	}
	for pool, typ := range f.types {
		name := f.world.names[pool]
		s, ok := w.subs[[2]string{typ, name}]
		routed := 0
		for _, m := range f.models {
			if m.pool == pool {
				routed++
			}
		}
		if ok && (s.GPUs != f.serving(pool) || s.Models != routed) || !ok && f.serving(pool)+routed > 0 {
			f.r.Fatalf("a controller has %+v of sub-cluster %s/%s: %d GPUs, %d models", s, typ, name, f.serving(pool), routed)
		}
	}
}

// checkCounts reckons the core's counts anew.
func (f *fleet) checkCounts() {
	for _, p := range f.c.pools {
		if p == nil {
			continue
		}
		members, routed, pinned := 0, 0, 0
		for _, u := range p.units {
			if u.joined {
				members++
			}
		}
		for i, e := range p.entries {
			n := 0
			for _, u := range p.units {
				if u.joined && u.has(e.model) {
					n++
				}
			}
			if e.at != i || e.gpus != n {
				f.r.Fatalf("%s in %s: on %d members, counted are %d", e.model.key, p.label(), n, e.gpus)
			}
			if e.routed() {
				routed++
			}
			if e.pinned() {
				pinned++
			}
		}
		if members != p.members || routed != p.routed || pinned != p.pinned || routed > f.l.PoolModels {
			f.r.Fatalf("%s: %d members, %d models, %d pinned; counted are %d, %d and %d", p.label(), members, routed, pinned, p.members, p.routed, p.pinned)
		}
	}
	for _, m := range f.c.models.byID {
		if m != nil && m.refs == 0 && m.home == nil && m.pin != pinTo {
			f.r.Fatalf("%s has an id, and nobody has it", m.key)
		}
	}
}
