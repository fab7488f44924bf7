package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// peer is a fake scheduler of a group.
type peer struct {
	t       *testing.T
	life    wire.Epoch
	address string
	id      wire.FrontendID // of the frontend that listens on inproc:f
	model   wire.ModelID    // of the pool's first one

	mu       sync.Mutex
	listener transport.Listener
	link     transport.Link
	info     catalog.BackendInfo
	heard    []any // Running, Promised and Done, in their order
	docs     []document
	left     bool
}

func (*peer) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (p *peer) Closed(l transport.Link, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.link = nil
	}
}

func (p *peer) Receive(l transport.Link, f transport.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	switch f.Kind {
	case wire.KindDoc:
		var d wire.Doc
		if err = d.Decode(f.Body); err == nil && d.Type == wire.DocBackend {
			p.info = catalog.BackendInfo{}
			err = json.Unmarshal(f.Payload, &p.info)
			p.link = l
		} else {
			p.docs = append(p.docs, document{d.Type, bytes.Clone(f.Payload)})
		}
	case wire.KindRunning:
		var m wire.Running
		err = m.Decode(f.Body, 0)
		p.heard = append(p.heard, m)
	case wire.KindPromised:
		var m wire.Promised
		err = m.Decode(f.Body)
		p.heard = append(p.heard, m)
	case wire.KindDone:
		var m wire.Done
		err = m.Decode(f.Body, 0)
		p.heard = append(p.heard, m)
	case wire.KindLoaded:
		var m wire.Loaded
		err = m.Decode(f.Body, 0)
		p.heard = append(p.heard, m)
	case wire.KindLeave:
		p.left = true
	}
	if err != nil {
		p.t.Error(err)
	}
}

// group is two schedulers, a frontend, and a backend of theirs; what its second device does
// is the test's to say.
type group struct {
	*cluster
	a, b     *peer
	log      *lines
	registry *prometheus.Registry
	backend  *Backend
	gate     *gate
}

// gate is a device whose batches end when the test says so.
type gate struct {
	mu      sync.Mutex
	batches []*executor.Batch
}

func (g *gate) Close() {}
func (g *gate) Launch(b *executor.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batches = append(g.batches, b)
}

// open ends the batch that runs.
func (g *gate) open() {
	g.mu.Lock()
	b := g.batches[0]
	g.batches = g.batches[1:]
	g.mu.Unlock()
	now := mono.Now()
	b.Finish(now, now, nil)
}

func (g *gate) runs() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.batches)
}

func (c *cluster) peer(address string, life wire.Epoch, id wire.FrontendID, model wire.ModelID) *peer {
	p := &peer{t: c.t, life: life, address: address, id: id, model: model}
	p.listen(c)
	return p
}

func (p *peer) listen(c *cluster) {
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler, Incarnation: uint64(p.life)}}
	ln, err := c.network.Listen(p.address, o, func(wire.Hello) (transport.Handler, error) { return p, nil })
	if err != nil {
		c.t.Fatal(err)
	}
	p.listener = ln
}

func newGroup(t *testing.T, change ...func(*Config)) *group {
	t.Helper()
	c := &cluster{t: t, network: loopback.New()}
	g := &group{cluster: c, log: &lines{}, registry: prometheus.NewRegistry(), gate: &gate{}}
	c.listen("inproc:f", transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend, Incarnation: 3}, Slabs: slabs{}}, (*dataSide)(c))
	// B was started before A: lives say nothing of who leads.
	g.a, g.b = c.peer("inproc:a", 200, 3, 10), c.peer("inproc:b", 100, 8, 21)
	cfg := Config{Name: "b", Scheduler: "inproc:a+inproc:b", Network: c.network, Logger: zerolog.New(g.log), Metrics: g.registry,
		Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 2,
			Zoo: []repository.Zoo{{CSV: "../examples/zoo/zoo_a100.csv", Models: []string{"MobileNet", "VGG16"}, MaxBatch: 4}}}}}
	for _, f := range change {
		f(&cfg)
	}
	b, err := New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.backend = b
	for _, p := range []*peer{g.a, g.b} {
		p.wait("an introduction", func() bool { return p.link != nil || !strings.Contains(cfg.Scheduler, p.address) })
	}
	p := b.pools[0]
	p.executors[1] = executor.New(g.gate, p.models, nil, transport.Heap{}, b, b.metrics.observer(0, 1))
	return g
}

// end ends the backend first: it is not to dial again.
func (g *group) end() {
	g.t.Helper()
	if err := g.backend.Close(); err != nil {
		g.t.Error(err)
	}
	g.a.listener.Close()
	g.b.listener.Close()
	g.close()
}

// led is a group of which both members have admitted the backend, and the first leads with reign
// 1000.
func led(t *testing.T, change ...func(*Config)) *group {
	t.Helper()
	g := newGroup(t, change...)
	g.a.admits()
	g.b.admits()
	for i, u := range g.backend.uplinks {
		p := []*peer{g.a, g.b}[i]
		g.eventually("the data link", func() bool {
			s := u.ids.Load()
			return s != nil && s.frontends.Link(p.id) != nil && s.models.Load() != nil
		})
	}
	g.a.promise(1000, false)
	g.a.hears(wire.Promised{Epoch: 1000, Highest: 1000})
	return g
}

func (g *group) eventually(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("%s: not within 30 s; log:\n%s", what, g.log.about(""))
		}
	}
}

func (p *peer) wait(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		yes := is()
		p.mu.Unlock()
		if yes {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: %s: not within 30 s", p.address, what)
		}
	}
}

func (p *peer) send(frames []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == nil {
		p.t.Errorf("%s has no link", p.address)
		return
	}
	_ = p.link.Send(frames)
}

func (p *peer) tell(kind wire.DocType, doc any) {
	p.mu.Lock()
	l := p.link
	p.mu.Unlock()
	transport.SendDoc(l, kind, doc)
}

// admits tells the backend that it is admitted, of the frontend, and its models' ids.
func (p *peer) admits() {
	p.tell(wire.DocAdmitted, catalog.Admitted{Epoch: p.life})
	p.member(p.id, 3, "inproc:f")
	p.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{p.model, p.model + 1}})
}

func (p *peer) member(id wire.FrontendID, instance uint64, address string) {
	p.send((&wire.Member{Epoch: p.life, Frontend: id, Up: address != "", Instance: instance, Address: address}).Append(nil))
}

func (p *peer) promise(reign wire.Epoch, keep bool) {
	p.send((&wire.Promise{Epoch: reign, Keep: keep}).Append(nil))
}

// order orders a batch of one request, of the batch's number, of the second device.
func (p *peer) order(reign wire.Epoch, id wire.BatchID) {
	now := mono.Now()
	p.send((&wire.Batch{Epoch: reign, Batch: id, Model: p.model, Device: 1, Exec: now, Until: now.Add(mono.Second), Latest: mono.Never, Items: []wire.BatchItem{
		{Request: wire.RequestID(id), Frontend: p.id, Deadline: now.Add(1000 * mono.Second), Input: wire.SlabRef{Length: 32}}}}).Append(nil))
}

// said is what the scheduler heard but for what a backend says unasked of whom it obeys (Epoch 0),
// each with the fields that tests look at. Caller holds mu.
func (p *peer) said() (all []any) {
	for _, m := range p.heard {
		switch m := m.(type) {
		case wire.Promised:
			if m.Epoch != 0 {
				m.Lost = false
				all = append(all, m)
			}
		case wire.Done:
			all = append(all, done{m.Epoch, m.Batch, m.Ran})
		case wire.Running:
			all = append(all, running{m.Epoch, m.Batch, m.Device, m.Items[0]})
		}
	}
	return all
}

type done struct {
	epoch wire.Epoch
	batch wire.BatchID
	ran   uint16
}

type running struct {
	epoch  wire.Epoch
	batch  wire.BatchID
	device uint32
	item   wire.RunningItem
}

// hears waits until the scheduler has heard this, and nothing else, since the last time.
func (p *peer) hears(want ...any) {
	p.t.Helper()
	var got []any
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		if got = p.said(); len(got) >= len(want) {
			p.heard = nil
		}
		p.mu.Unlock()
		if len(got) >= len(want) || time.Now().After(end) {
			break
		}
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("%s heard %+v, want %+v", p.address, got, want)
	}
}

// answered waits until the frontend has the outputs of these requests, each once, and no others.
func (g *group) answered(want ...wire.RequestID) {
	g.t.Helper()
	g.wait("outputs", func() bool { return len(g.outputs) >= len(want) })
	g.mu.Lock()
	defer g.mu.Unlock()
	var got []wire.RequestID
	for _, o := range g.outputs {
		if o.Reason != wire.ReasonNone {
			g.t.Errorf("output %+v", o)
		}
		got = append(got, o.Request)
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("outputs of %v, want %v", got, want)
	}
}

// counter is the sum of a counter of the backend's.
func (g *group) counter(name string) (sum float64) {
	g.t.Helper()
	all, err := g.registry.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// queued waits until one batch runs on the second device, and n wait there.
func (g *group) queued(n int) {
	g.t.Helper()
	g.eventually("batches at the device", func() bool {
		waits := 0
		g.backend.pools[0].executors[1].Fence(0, true, func(*executor.Order) { waits++ })
		return g.gate.runs() == 1 && waits == n+1
	})
}
