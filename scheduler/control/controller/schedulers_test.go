package controller

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fakeScheduler has GPUs that do at once what is ordered of them, and remembers it while it is
// away.
type fakeScheduler struct {
	t       *testing.T
	network *loopback.Network
	address string

	mu       sync.Mutex
	listener transport.Listener
	link     transport.Link
	epoch    uint64
	plan     uint64
	gpus     map[string]*catalog.GPUFacts
	stock    map[string]map[string]bool // by GPU
	routes   map[string]catalog.ModelFacts
	broken   bool           // nothing loads
	mute     bool           // orders are neither carried out nor answered
	stale    []uint64       // orders of plans older than others
	removed  []string       // keys that were routed nowhere
	heir     *fakeScheduler // nil: nobody; it must serve what is removed here
}

func newScheduler(t *testing.T, n *loopback.Network, address string, gpus int) *fakeScheduler {
	s := &fakeScheduler{t: t, network: n, address: address, epoch: rand.Uint64(), gpus: map[string]*catalog.GPUFacts{}, stock: map[string]map[string]bool{}, routes: map[string]catalog.ModelFacts{}}
	for i := range gpus {
		name := fmt.Sprintf("%s-host/t/%d", strings.TrimPrefix(address, "inproc:"), i)
		s.gpus[name] = &catalog.GPUFacts{Name: name, DeviceType: "t", State: catalog.GPUServing, Memory: 1000}
		s.stock[name] = map[string]bool{}
	}
	s.up()
	t.Cleanup(s.down)
	return s
}

// up and down are its process; what its backends bring back is as it was.
func (s *fakeScheduler) up() {
	l, err := s.network.Listen(s.address, transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler, Incarnation: s.epoch, Name: "scheduler"}},
		func(wire.Hello) (transport.Handler, error) { return s, nil })
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
}

func (s *fakeScheduler) down() {
	s.mu.Lock()
	l := s.listener
	s.listener = nil
	s.epoch++
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// Receive implements transport.Handler.
func (s *fakeScheduler) Receive(l transport.Link, f transport.Frame) {
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil || d.Type != wire.DocOrder {
		return
	}
	o, err := catalog.DecodeOrder(f.Payload)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	if s.mute && o.Kind != catalog.OrderJoin {
		return
	}
	out := catalog.Outcome{ID: o.ID}
	if o.Kind != catalog.OrderJoin {
		if o.Plan < s.plan {
			s.stale = append(s.stale, o.Plan)
		}
		s.plan = max(s.plan, o.Plan)
		out.Error = s.carryOut(&o)
	}
	facts := catalog.Facts{Epoch: s.epoch, Plan: s.plan, Whole: o.Kind == catalog.OrderJoin}
	for _, name := range slices.Sorted(maps.Keys(s.gpus)) {
		if facts.Whole || name == o.GPU {
			facts.GPUs = append(facts.GPUs, s.facts(name, &o))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.routes)) {
		if facts.Whole || slices.Contains(o.Keys, key) {
			facts.Models = append(facts.Models, s.routes[key])
		}
	}
	for _, key := range o.Keys {
		if _, there := s.routes[key]; !there {
			facts.GoneModels = append(facts.GoneModels, key)
		}
	}
	transport.SendDoc(l, wire.DocFacts, facts)
	transport.SendDoc(l, wire.DocOutcome, out)
}

// facts are a GPU's. mu is held.
func (s *fakeScheduler) facts(name string, o *catalog.Order) catalog.GPUFacts {
	g := *s.gpus[name]
	for _, key := range slices.Sorted(maps.Keys(s.stock[name])) {
		n, v, _ := strings.Cut(key, "/")
		g.Stock = append(g.Stock, catalog.Stocked{Key: key, State: catalog.StateReady, Static: 10, Dynamic: 1, Spec: &catalog.ModelSpec{Name: n, Version: v, SLO: mono.Second, MaxBatch: 8}})
	}
	for _, key := range o.Keys {
		if o.Kind == catalog.OrderUnload {
			g.Stock = append(g.Stock, catalog.Stocked{Key: key, State: catalog.StateGone})
		}
	}
	return g
}

// carryOut does what an order says. mu is held.
func (s *fakeScheduler) carryOut(o *catalog.Order) string {
	switch o.Kind {
	case catalog.OrderLoad:
		for i := range o.Sources {
			if s.broken {
				return "its file is broken"
			}
			s.stock[o.GPU][o.Sources[i].Key()] = true
		}
	case catalog.OrderUnload:
		for _, key := range o.Keys {
			delete(s.stock[o.GPU], key)
		}
	case catalog.OrderRoute:
		for _, key := range o.Keys {
			if delete(s.routes, key); o.To != catalog.Nowhere {
				s.routes[key] = catalog.ModelFacts{Key: key, DeviceType: "t", In: o.To, Need: 0.1, Rate: 10}
				continue
			}
			if s.removed = append(s.removed, key); s.heir != nil && !slices.Contains(s.heir.served(), key) {
				s.t.Errorf("%s is removed from %s before %s serves it", key, s.address, s.heir.address)
			}
		}
	case catalog.OrderDrain:
		s.gpus[o.GPU].State, s.gpus[o.GPU].In = catalog.GPUFree, catalog.Nowhere
	case catalog.OrderSeat:
		s.gpus[o.GPU].State, s.gpus[o.GPU].In = catalog.GPUServing, o.To
	}
	return ""
}

// Buffer implements transport.Handler.
func (s *fakeScheduler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// PayloadMax implements transport.Limiter.
func (s *fakeScheduler) PayloadMax(_ transport.Link, kind wire.Kind) int {
	return transport.DocsOf(kind, transport.SchedulerDocMax)
}

// Closed implements transport.Handler.
func (s *fakeScheduler) Closed(transport.Link, error) {}

// served are the keys that it serves.
func (s *fakeScheduler) served() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.routes))
}

func (s *fakeScheduler) gone() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.removed)
}

// two is a controller over two schedulers.
type two struct {
	*testing.T
	store   *store.Store
	network *loopback.Network
	a, b    *fakeScheduler
	metrics *prometheus.Registry
	c       *Controller
}

func newTwo(t *testing.T) *two {
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &two{T: t, store: s, network: loopback.New()}
	w.a, w.b = newScheduler(t, w.network, "inproc:a", 2), newScheduler(t, w.network, "inproc:b", 2)
	w.start("inproc:a", "inproc:b")
	t.Cleanup(func() { w.c.Close() })
	return w
}

func (w *two) start(schedulers ...string) {
	w.Helper()
	var err error
	w.metrics = prometheus.NewRegistry()
	w.c, err = New(Config{Name: "c", Metrics: w.metrics, Store: w.store, Network: w.network, Schedulers: schedulers, Effort: mono.Millisecond,
		Plan: lead.Config{Settle: mono.Millisecond, SettleGPUs: 10 * mono.Millisecond, RetryMin: 20 * mono.Millisecond}})
	if err != nil {
		w.Fatal(err)
	}
}

// await waits until f has nothing to say against it.
func (w *two) await(what string, f func() string) {
	w.Helper()
	why := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if why = f(); why == "" {
			return
		}
	}
	w.Fatalf("%s: %s", what, why)
}

func (w *two) add(n int) {
	w.Helper()
	for i := range n {
		if _, err := w.c.PutVersion(w.Context(), fmt.Sprintf("m%02d", i), "1", api.VersionSpec{Source: "file:///m"}); err != nil {
			w.Fatal(err)
		}
	}
	w.await("all are served", func() string {
		for i := range n {
			m, err := w.c.Model(w.Context(), fmt.Sprintf("m%02d", i))
			if err != nil || m.Versions[0].State != api.Serving {
				return fmt.Sprintf("%+v, %v", m, err)
			}
		}
		return ""
	})
}

// linked is the metric.
func (w *two) linked(address string) float64 {
	all, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "symphony_control_scheduler_linked" && m.GetLabel()[0].GetValue() == address {
				return m.GetGauge().GetValue()
			}
		}
	}
	w.Fatalf("no metric says whether %s is linked", address)
	return 0
}

// is says how lists differ.
func is(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("%v, want %v", got, want)
}

// Models are spread over two schedulers; each has a plan of its own, one is shown.
func TestTwoSchedulers(t *testing.T) {
	w := newTwo(t)
	w.add(10)
	a, b := w.a.served(), w.b.served()
	if len(a) != 5 || len(b) != 5 {
		t.Fatalf("%v and %v", a, b)
	}
	w.await("the plan shows both", func() string {
		p, err := w.c.Plan(t.Context())
		if err != nil || len(p.Plans) != 2 || p.State != api.PlanInForce || p.Models != 10 || p.GPUs != 4 || len(p.SubClusters) != 2 {
			return fmt.Sprintf("%+v, %v", p, err)
		}
		for i, want := range []string{"inproc:a", "inproc:b"} {
			if s := p.SubClusters[i]; s.Scheduler != want || len(s.Models) != 5 {
				return fmt.Sprintf("%+v", s)
			}
		}
		return ""
	})
	if st, err := w.c.State(t.Context()); err != nil || !slices.Equal(st.Schedulers, []string{"inproc:a", "inproc:b"}) || st.GPUs != 4 || len(st.Lost) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	h, err := w.c.History(t.Context())
	epochs := map[uint64]bool{}
	for _, p := range h.Plans {
		if epochs[p.Epoch] || p.Scheduler == "" {
			t.Errorf("%+v", p)
		}
		epochs[p.Epoch] = true
	}
	if err != nil {
		t.Error(err)
	}
}

// A scheduler that goes away keeps its models, the other one's plans go on; a controller that is
// started again, also while one is late, moves nothing.
func TestOneOfTwoIsAway(t *testing.T) {
	w := newTwo(t)
	w.add(10)
	a, b := w.a.served(), w.b.served()
	w.a.down()
	w.await("a is missed", func() string {
		st, err := w.c.State(t.Context())
		return is(st.Lost, []string{"inproc:a"}) + fmt.Sprint(errOr(err))
	})
	if _, err := w.c.PutVersion(t.Context(), "new", "1", api.VersionSpec{Source: "file:///m"}); err != nil {
		t.Fatal(err)
	}
	w.await("b goes on", func() string { return is(w.b.served(), append(slices.Clone(b), "new/1")) })
	for address, want := range map[string]float64{"inproc:a": 0, "inproc:b": 1} {
		if got := w.linked(address); got != want {
			t.Errorf("linked to %s: %v", address, got)
		}
	}
	if d, err := w.c.Diff(t.Context()); err != nil || !slices.Equal(d.Away, []string{"inproc:a"}) {
		t.Errorf("%+v, %v", d, err)
	}
	w.a.up()
	w.await("a is back", func() string {
		st, err := w.c.State(t.Context())
		return is(st.Schedulers, []string{"inproc:a", "inproc:b"}) + fmt.Sprint(errOr(err))
	})
	w.c.Close()
	w.a.down() // and late
	w.start("inproc:a", "inproc:b")
	w.await("b is there", func() string {
		st, err := w.c.State(t.Context())
		return is(st.Schedulers, []string{"inproc:b"}) + fmt.Sprint(errOr(err))
	})
	w.a.up()
	w.await("a is there", func() string {
		st, err := w.c.State(t.Context())
		return is(st.Schedulers, []string{"inproc:a", "inproc:b"}) + fmt.Sprint(errOr(err))
	})
	if err := w.c.DeleteModel(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	w.await("what is removed goes", func() string { return is(w.b.served(), b) })
	if got := w.a.served(); !slices.Equal(got, a) || len(w.a.gone()) > 0 || !slices.Equal(w.b.gone(), []string{"new/1"}) {
		t.Errorf("a serves %v, was %v; removed: %v, %v", got, a, w.a.gone(), w.b.gone())
	}
	w.stale()
}

func errOr(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// stale fails where a scheduler was ordered something of an older plan than before.
func (w *two) stale() {
	w.Helper()
	for _, s := range []*fakeScheduler{w.a, w.b} {
		s.mu.Lock()
		if len(s.stale) > 0 {
			w.Errorf("%s was given orders of older plans: %v, the newest is %d", s.address, s.stale, s.plan)
		}
		s.mu.Unlock()
	}
}

// A plan of people's own moves a model to another scheduler: it is served there before it leaves,
// its state is served throughout, and what does not fit is refused whole.
func TestPutMovesBetweenSchedulers(t *testing.T) {
	w := newTwo(t)
	w.add(4)
	a, b := w.a.served(), w.b.served()
	mover := a[0]
	part := func(scheduler string, models ...string) api.PlanPart {
		return api.PlanPart{Name: "x", DeviceType: "t", GPUs: 2, Models: models, Scheduler: scheduler}
	}
	for want, spec := range map[string]api.PlanSpec{
		"is missing, and there are several": {SubClusters: []api.PlanPart{part("", a...)}},
		"is none of inproc:a, inproc:b":     {SubClusters: []api.PlanPart{part("inproc:c", a...)}},
		"is not in the catalogue":           {SubClusters: []api.PlanPart{part("inproc:a", "nobody/1")}},
		"leave a sub-cluster of device type t with GPUs at inproc:a": {SubClusters: []api.PlanPart{{Name: "x", DeviceType: "t", Scheduler: "inproc:a"},
			part("inproc:b", append(slices.Clone(b), mover)...)}},
	} {
		if _, err := w.c.Put(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	w.a.mu.Lock()
	w.a.removed, w.a.heir = nil, w.b
	w.a.mu.Unlock()
	p, err := w.c.Put(t.Context(), api.PlanSpec{SubClusters: []api.PlanPart{part("inproc:a", a[1:]...), part("inproc:b", append(slices.Clone(b), mover)...)}})
	if err != nil || p.Cause != lead.ByHand {
		t.Fatalf("%+v, %v", p, err)
	}
	w.await("it has moved", func() string {
		return is(w.a.served(), a[1:]) + is(w.b.served(), slices.Sorted(slices.Values(append(slices.Clone(b), mover))))
	})
	if got := w.a.gone(); !slices.Equal(got, []string{mover}) {
		t.Errorf("removed from a: %v", got)
	}
	name := namesOfKey(mover)
	m, err := w.c.Model(t.Context(), name)
	if err != nil || m.Versions[0].State != api.Serving {
		t.Errorf("%+v, %v", m, err)
	}
	w.await("the plan by hand has it there", func() string {
		p, err := w.c.Plan(t.Context())
		for _, s := range p.SubClusters {
			if slices.Contains(s.Models, mover) != (s.Scheduler == "inproc:b") {
				return fmt.Sprintf("%+v, %v", p, err)
			}
		}
		return errOr(err)
	})
	w.stale()
}

// From one scheduler to two and back: what the first serves stays, and epochs rise.
func TestOneAndTwoSchedulers(t *testing.T) {
	w := newTwo(t)
	w.c.Close()
	w.start("inproc:a")
	w.add(4)
	before := w.a.served()
	head, parts, err := w.store.LatestPlan(t.Context())
	if err != nil || head.Value.Scheduler != "" || len(parts) != 1 || parts[0].Scheduler != "" || len(before) != 4 {
		t.Fatalf("%+v, %+v, %v", head, parts, err)
	}
	w.c.Close()
	w.start("inproc:a", "inproc:b")
	if _, err := w.c.PutVersion(t.Context(), "new", "1", api.VersionSpec{Source: "file:///m"}); err != nil {
		t.Fatal(err)
	}
	w.await("b gets the next", func() string { return is(w.b.served(), []string{"new/1"}) })
	w.c.Close()
	w.start("inproc:a")
	w.await("all are at a", func() string { return is(w.a.served(), append(slices.Clone(before), "new/1")) })
	if got := w.a.gone(); len(got) > 0 {
		t.Errorf("removed on the way: %v", got)
	}
	w.await("it is the one plan", func() string {
		p, err := w.c.Plan(t.Context())
		if err != nil || len(p.Plans) > 0 || p.Epoch <= head.Value.Epoch || p.Models != 5 || p.State != api.PlanInForce {
			return fmt.Sprintf("%+v, %v", p, err)
		}
		return ""
	})
	w.stale()
}

// Two addresses of one scheduler: one is linked, the other said to be wrong, and it serves on.
func TestTwoAddressesOfOne(t *testing.T) {
	w := newTwo(t)
	w.c.Close()
	same, err := w.network.Listen("inproc:same", transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler, Incarnation: w.a.epoch, Name: "scheduler"}},
		func(wire.Hello) (transport.Handler, error) { return w.a, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	w.start("inproc:a", "inproc:same")
	defer w.c.Close() // before the listener
	w.await("one is linked", func() string {
		st, err := w.c.State(t.Context())
		if err != nil || len(st.Schedulers) != 1 || len(st.Lost) != 1 || st.GPUs != 2 {
			return fmt.Sprintf("%+v, %v", st, err)
		}
		return ""
	})
	w.add(3)
	if got := w.a.served(); len(got) != 3 || len(w.a.gone()) > 0 {
		t.Errorf("served %v, removed %v", got, w.a.gone())
	}
}

// What several cells say of a version is told as one: the one that serves it, else the furthest.
func TestMerged(t *testing.T) {
	o := func(cell int, s schema.State, gpus int) sight {
		return sight{cell, schema.Observation{Model: "m", Version: "1", State: s, GPUs: gpus, SubCluster: fmt.Sprint(cell)}}
	}
	for _, c := range []struct {
		all  []sight
		want schema.Observation
	}{
		{[]sight{o(0, schema.Failed, 0)}, o(0, schema.Failed, 0).o},
		{[]sight{o(0, schema.Serving, 2), o(1, schema.Loading, 1)}, o(0, schema.Serving, 3).o},
		{[]sight{o(0, schema.Unloading, 1), o(1, schema.Serving, 2)}, o(1, schema.Serving, 3).o},
		{[]sight{o(0, schema.Waiting, 0), o(1, schema.Failed, 0)}, o(1, schema.Failed, 0).o},
		{[]sight{o(0, schema.Failed, 0), o(1, schema.Fetching, 0)}, o(1, schema.Fetching, 0).o},
	} {
		if got := merged(c.all); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.all, got, c.want)
		}
	}
}

// What schedulers say of needs moves models: it is given to the one with less to do, while the
// other one serves it.
func TestNeedsMoveBetweenSchedulers(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := &Controller{cfg: Config{Name: "c", Store: s, Schedulers: []string{"inproc:a", "inproc:b"}, Plan: lead.Config{MovesMax: 0.5}}, view: newView(t.Context(), s), preview: make(chan struct{}, 1)}
	if c.metrics, err = newMetrics(c, nil); err != nil {
		t.Fatal(err)
	}
	l := newLeading(c, t.Context())
	l.observed, l.measured = s.Observed.Writer(t.Context()), s.Profiles.Writer(t.Context())
	now := mono.Now()
	heard := func(i int, need float64, models ...string) {
		host := fmt.Sprint("h", i, "/t/0")
		f := &catalog.Facts{Epoch: 1, Whole: true, GPUs: []catalog.GPUFacts{{Name: host, DeviceType: "t", State: catalog.GPUServing, Memory: 1000}}}
		for _, name := range models {
			f.Models = append(f.Models, catalog.ModelFacts{Key: name + "/1", DeviceType: "t", Need: need})
			f.GPUs[0].Stock = append(f.GPUs[0].Stock, catalog.Stocked{Key: name + "/1", State: catalog.StateReady, Static: 10,
				Spec: &catalog.ModelSpec{Name: name, Version: "1", SLO: mono.Second, MaxBatch: 8}})
		}
		l.facts(now, l.cells[i], f)
	}
	for _, cell := range l.cells {
		cell.link = &link{c: c, address: cell.address}
	}
	models := []string{"k", "l", "m", "n"}
	for _, name := range models {
		l.wish(now, schema.Model{Name: name, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyLatest}, Versions: []schema.ModelVersion{{Version: "1", Source: "file:///m"}}})
	}
	heard(0, 0.2, models...) // it had them before
	for range 5 {
		l.step(now)
		now = now.Add(mono.Second)
	}
	for _, name := range models {
		if at, _ := l.spread.Home(name); at != 0 || !l.cells[0].lead.Goes(name+"/1") {
			t.Errorf("%s is at %d, though one serves it", name, at)
		}
	}
	heard(1, 0)
	for range 8 {
		l.step(now)
		now = now.Add(5 * mono.Second)
	}
	moving := 0
	for _, name := range models {
		at, to := l.spread.Home(name)
		if at != 0 {
			t.Errorf("%s is at %d before another serves it", name, at)
		}
		if to == 1 {
			moving++
		}
	}
	if moving != 2 { // 0.8 and 0 GPUs are needed; with two less there 0.4 and 0.4
		t.Errorf("%d of 4 models move", moving)
	}
}
