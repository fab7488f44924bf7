package members

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// proc is a backend's process as TestResidency has it: one pool, devices with models of their
// own, and what it was told.
type proc struct {
	name     string
	typ      string
	devices  int
	own      []string // keys that it brings
	instance uint64
	conn     Conn // 0: no link

	has   []map[string]bool // by device: what it has, and has said
	in    []string
	told  map[string]*catalog.Told
	slots map[string]int
	next  int
	order map[string]bool // that were ordered
	tasks []task
	out   []bool // by device
	bound map[wire.ModelID]bool
}

// task is something that the process does not do at once.
type task struct {
	kind   string
	device int
	key    string
}

// fleet is a world of such processes and of controllers.
type fleet struct {
	*world
	r       *rapid.T
	l       Limits
	procs   []*proc
	count   uint64
	ctl     Conn
	orders  map[uint64]*catalog.Order // not answered yet
	answers map[uint64]error
	plan    uint64
	facts   [2]*witness
	names   map[string]catalog.Name
	seen    *viewer
	retired map[[2]int]bool
}

// modelOf is the model of a key, as fast as its backend.
func modelOf(key string, p *proc) catalog.ModelSpec {
	return spec(key[:1], profiled(mono.Millisecond*mono.Dur(1+len(p.name)%2), 4*mono.Millisecond))
}

func newFleet(r *rapid.T) *fleet {
	l := Limits{Frontends: 4, Backends: 6, Pools: 5, Models: 8, PoolModels: 3, GPUs: 5, Epoch: 1}
	f := &fleet{world: newWorld(r, l), r: r, l: l, orders: map[uint64]*catalog.Order{}, answers: map[uint64]error{}}
	f.reset()
	return f
}

// reset is what a scheduler's start finds: nothing.
func (f *fleet) reset() {
	now, conns := f.now, f.conns
	*f.world = *newWorld(f.r, f.l)
	f.now, f.conns = now, conns
	f.world.told, f.every = f.hear, f.watch
	f.facts = [2]*witness{newWitness(1 << 20), newWitness(1)}
	f.seen = &viewer{models: map[wire.ModelID]catalog.Served{}, names: map[string]catalog.Name{}}
	f.names = map[string]catalog.Name{}
	f.retired = map[[2]int]bool{}
	f.ctl, f.plan = 0, 0
	clear(f.orders)
}

func (f *fleet) byConn(conn Conn) *proc {
	for _, p := range f.procs {
		if p.conn == conn {
			return p
		}
	}
	f.r.Fatalf("nobody has connection %d", conn)
	return nil
}

// start begins a process.
func (f *fleet) start(name, typ string, devices int, own []string) *proc {
	p := &proc{name: name, typ: typ, devices: devices, own: own}
	f.procs = append(f.procs, p)
	f.fresh(p)
	return p
}

// fresh is a process that knows nothing.
func (f *fleet) fresh(p *proc) {
	f.count++
	p.instance = f.count
	p.has, p.in, p.told, p.order, p.tasks = nil, make([]string, p.devices), map[string]*catalog.Told{}, map[string]bool{}, nil
	p.out = make([]bool, p.devices)
	for range p.devices {
		has := map[string]bool{}
		for _, k := range p.own {
			has[k] = true
		}
		p.has = append(p.has, has)
	}
}

// everywhere tells whether all devices have a model.
func (p *proc) everywhere(key string) bool {
	return !slices.ContainsFunc(p.has, func(h map[string]bool) bool { return !h[key] })
}

// keys are those that any device has.
func (p *proc) keys() []string {
	all := map[string]bool{}
	for _, h := range p.has {
		maps.Copy(all, h)
	}
	return slices.Sorted(maps.Keys(all))
}

// dial introduces a process, which may be refused, and then it says what not all devices have.
func (f *fleet) dial(p *proc) bool {
	p.slots, p.next = map[string]int{}, 0
	var models []catalog.ModelSpec
	var ordered []int
	for _, k := range p.keys() {
		if p.everywhere(k) {
			if p.order[k] {
				ordered = append(ordered, len(models))
			}
			p.slots[k] = len(models)
			models = append(models, modelOf(k, p))
		}
	}
	p.next = len(models)
	info := f.info(p.name, p.instance, int64(p.instance), on(p.typ, p.devices, models...))
	doc := &info.Pools[0]
	doc.In, doc.Runtime, doc.Ordered = slices.Clone(p.in), true, ordered
	for _, s := range slices.Sorted(maps.Keys(p.told)) {
		if slices.Contains(p.in, s) {
			t := *p.told[s]
			t.Whole, t.Keys = true, slices.Sorted(slices.Values(t.Keys))
			doc.Told = append(doc.Told, t)
		}
	}
	p.conn, p.bound = f.conns+1, map[wire.ModelID]bool{}
	p.out = make([]bool, p.devices)
	was, news := f.planned(), f.newer(doc)
	f.join(info)
	for k, at := range f.planned() {
		if was[k] == at {
			delete(was, k)
		}
	}
	if len(was) > 0 && !news {
		f.r.Fatalf("%v comes, and %v is routed there no longer", p, was)
	}
	if f.admitted[p.conn] == nil {
		p.conn = 0
		return false
	}
	for _, k := range p.keys() {
		if !p.everywhere(k) {
			f.tell(p, k, catalog.StateReady, "")
		}
	}
	return true
}

// newer tells whether a process was told something that the scheduler has not heard.
func (f *fleet) newer(doc *catalog.Pool) bool {
	for _, t := range doc.Told {
		p := f.c.poolOf(doc.DeviceType, t.SubCluster)
		if p == nil || (stamp{t.Epoch, t.Serial}).after(p.stamp) {
			return true
		}
	}
	return false
}

func (f *fleet) hangUp(p *proc) {
	conn := p.conn
	p.conn = 0
	f.leave(conn)
}

// tell says what became of a model.
func (f *fleet) tell(p *proc, key, state, why string) {
	if p.conn == 0 {
		return
	}
	slot, ok := p.slots[key]
	if !ok {
		slot = p.next
		p.slots[key] = slot
		p.next++
	}
	d := catalog.Stocked{Slot: slot, Key: key, State: state, Error: why, Local: !p.order[key]}
	for i, h := range p.has {
		if h[key] {
			d.Devices = append(d.Devices, i)
		}
	}
	if len(d.Devices) == 0 && state == catalog.StateReady {
		d.State = catalog.StateGone
	}
	if len(d.Devices) > 0 {
		s := modelOf(key, p)
		d.Spec = &s
	}
	var out Effects
	if err := f.c.Stock(f.now, int64(f.count), p.conn, &catalog.Stock{Models: []catalog.Stocked{d}}, &out); err != nil {
		f.r.Fatalf("%+v: %v", d, err)
	}
	f.carryOut(out)
}

// hear is what backends and controllers are told.
func (f *fleet) hear(e *Effect) {
	switch e.Kind {
	case Answer:
		if f.orders[e.ID] == nil {
			f.r.Fatalf("order %d is answered, with %v: it was before, or is not asked", e.ID, e.Err)
		}
		f.answers[e.ID] = e.Err
		delete(f.orders, e.ID)
	case Bind:
		for _, id := range e.Bound.IDs {
			f.byConn(e.Conn).bound[id] = true
		}
	case Keep:
		p, k := f.byConn(e.Conn), e.Order
		p.in[k.Device] = k.In
		if k.Told != nil {
			p.apply(k.Told)
		}
		for _, s := range k.Load {
			p.tasks = append(p.tasks, task{"load", k.Device, s.Key()})
		}
		for _, key := range k.Unload {
			p.tasks = append(p.tasks, task{"unload", k.Device, key})
		}
		for _, key := range k.Measure {
			p.tasks = append(p.tasks, task{"measure", k.Device, key})
		}
	}
}

func (p *proc) apply(t *catalog.Told) {
	old := p.told[t.SubCluster]
	now := &catalog.Told{SubCluster: t.SubCluster, Epoch: t.Epoch, Serial: t.Serial}
	if old != nil && !t.Whole {
		now.Keys = slices.DeleteFunc(slices.Clone(old.Keys), func(k string) bool { return slices.Contains(t.Gone, k) })
	}
	now.Keys = append(now.Keys, t.Keys...)
	slices.Sort(now.Keys)
	now.Keys = slices.Compact(now.Keys)
	p.told[t.SubCluster] = now
}

// work does a task, or fails to.
func (f *fleet) work(p *proc, fails bool) {
	t := p.tasks[0]
	p.tasks = p.tasks[1:]
	switch t.kind {
	case "load":
		if fails {
			f.tell(p, t.key, catalog.StateFailed, "its file is broken")
			return
		}
		if !slices.Contains(p.keys(), t.key) {
			p.order[t.key] = true
		}
		p.has[t.device][t.key] = true
	case "unload":
		delete(p.has[t.device], t.key)
	case "measure":
		if !p.has[t.device][t.key] {
			return
		}
		f.tell(p, t.key, catalog.StateMeasuring, "")
	}
	f.tell(p, t.key, catalog.StateReady, "")
}

// watch holds the rules after each effect.
func (f *fleet) watch(e *Effect) {
	switch e.Kind {
	case AdmitBackend:
		for _, b := range f.c.Bound(e.Conn) {
			for _, id := range b.IDs {
				f.byConn(e.Conn).bound[id] = true
			}
		}
	case AddGPU:
		delete(f.retired, [2]int{e.Pool, int(e.GPU)})
		for id, m := range f.models {
			if m.pool == e.Pool {
				f.resident(e.Conn, e.Device, id, m.spec.Key())
			}
		}
		for at, conn := range f.gpus {
			if u := f.unit(at, conn); conn == e.Conn && u.device == e.Device && at != [2]int{e.Pool, int(e.GPU)} {
				f.r.Fatalf("device %d of connection %d is in the pools %d and %d", e.Device, conn, at[0], e.Pool)
			}
		}
	case RetireGPU:
		f.retired[[2]int{e.Pool, int(e.GPU)}] = true
	case AddModel, MoveModel:
		for at, conn := range f.gpus {
			if at[0] == e.Pool {
				f.resident(conn, f.unit(at, conn).device, e.Model, e.Spec.Key())
			}
		}
	}
}

// unit is the device that has a GPU's id.
func (f *fleet) unit(at [2]int, conn Conn) *unit {
	for _, u := range f.c.backend(conn).units {
		if u.gpu != nil && u.pool.index == at[0] && int(u.gpu.id) == at[1] {
			return u
		}
	}
	f.r.Fatalf("GPU %d of pool %d is no device of connection %d", at[1], at[0], conn)
	return nil
}

func (f *fleet) resident(conn Conn, device int, id wire.ModelID, key string) {
	f.r.Helper()
	p := f.byConn(conn)
	if !p.has[device][key] || !p.bound[id] {
		f.r.Fatalf("%s is routed to device %d of %s, which does not have it, or not its id: %v, %v", key, device, p.name, p.has[device], p.bound)
	}
}

// command gives an order, and looks at what was done at once.
func (f *fleet) command(o *catalog.Order) (done bool, err error) {
	f.count++
	o.ID = f.count
	if f.ctl == 0 {
		f.conns++
		f.ctl = f.conns
	}
	f.orders[o.ID] = o
	var out Effects
	f.c.Order(f.now, f.ctl, o, &out)
	f.carryOut(out)
	if f.orders[o.ID] != nil {
		return false, nil
	}
	return true, f.answers[o.ID]
}

// witness is a controller that knows the world by its facts.
type witness struct {
	serial uint64
	most   int
	gpus   map[string]*sight
	models map[string][2]string
	subs   map[[2]string]catalog.SubClusterFacts
}

type sight struct {
	catalog.GPUFacts
	stock map[string]bool
}

func newWitness(most int) *witness {
	return &witness{most: most, gpus: map[string]*sight{}, models: map[string][2]string{}, subs: map[[2]string]catalog.SubClusterFacts{}}
}

func (w *witness) follow(c *Cluster) {
	for more := true; more; {
		d := c.Facts(w.serial, w.most)
		if d.Whole {
			*w = *newWitness(w.most)
		}
		for _, g := range d.GoneGPUs {
			delete(w.gpus, g)
		}
		for _, m := range d.GoneModels {
			delete(w.models, m)
		}
		for _, g := range d.GPUs {
			s := w.gpus[g.Name]
			if s == nil {
				s = &sight{stock: map[string]bool{}}
				w.gpus[g.Name] = s
			}
			s.GPUFacts = g
			for _, m := range g.Stock {
				if m.State == catalog.StateReady {
					s.stock[m.Key] = true
				} else {
					delete(s.stock, m.Key)
				}
			}
		}
		for _, m := range d.Models {
			w.models[m.Key] = [2]string{m.DeviceType, m.In}
		}
		for _, s := range d.SubClusters {
			at := [2]string{s.DeviceType, s.Name}
			if w.subs[at] = s; s.GPUs == 0 && s.Models == 0 {
				delete(w.subs, at)
			}
		}
		w.serial, more = d.Serial, d.More
	}
}

// viewer is a frontend.
type viewer struct {
	serial uint64
	models map[wire.ModelID]catalog.Served
	names  map[string]catalog.Name
}

func (v *viewer) follow(c *Cluster) {
	for more := true; more; {
		ch := c.Changes(v.serial, 2)
		for _, id := range ch.Gone {
			delete(v.models, id)
		}
		for _, m := range ch.Models {
			v.models[m.ID] = m
		}
		for _, n := range ch.Names {
			v.names[n.Name] = n
		}
		v.serial, more = ch.Serial, ch.More
	}
}

func (p *proc) String() string {
	return fmt.Sprintf("%s of %s, in %v, has %v", p.name, p.typ, p.in, p.has)
}
