package backend

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cluster is a fake scheduler and a fake frontend for one backend.
type cluster struct {
	t       *testing.T
	network *loopback.Network

	mu      sync.Mutex
	link    transport.Link // the backend's, at the scheduler
	info    catalog.BackendInfo
	dones   []wire.Done
	loads   []wire.Loaded
	outputs []wire.Output
	docs    []document // but for BackendInfo
	left    bool
	closers []transport.Listener
}

// document is one that the scheduler got.
type document struct {
	kind    wire.DocType
	payload []byte
}

type scheduler cluster

func (*scheduler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (s *scheduler) Closed(transport.Link, error) {
	s.mu.Lock()
	s.link = nil
	s.mu.Unlock()
}

func (s *scheduler) Receive(l transport.Link, f transport.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Kind {
	case wire.KindDoc:
		var d wire.Doc
		if err := d.Decode(f.Body); err != nil {
			s.t.Error(err)
		}
		if d.Type != wire.DocBackend {
			s.docs = append(s.docs, document{d.Type, bytes.Clone(f.Payload)})
			return
		}
		info, err := catalog.DecodeBackendInfo(f.Payload)
		if err != nil {
			s.t.Error(err)
		}
		s.info, s.link = info, l
	case wire.KindDone:
		var d wire.Done
		_ = d.Decode(f.Body, 0)
		s.dones = append(s.dones, d)
	case wire.KindLoaded:
		var l wire.Loaded
		_ = l.Decode(f.Body, 0)
		s.loads = append(s.loads, l)
	case wire.KindLeave:
		s.left = true
	}
}

type dataSide cluster

func (*dataSide) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (*dataSide) Closed(transport.Link, error)                         {}
func (d *dataSide) Receive(_ transport.Link, f transport.Frame) {
	var o wire.Output
	_ = o.Decode(f.Body, 0)
	d.mu.Lock()
	d.outputs = append(d.outputs, o)
	d.mu.Unlock()
}

// slabs serve any READ.
type slabs struct{}

func (slabs) Pin(ref wire.SlabRef, _ wire.RequestID) ([]byte, error) {
	return make([]byte, ref.Length), nil
}
func (slabs) Unpin(wire.SlabRef) {}

func (c *cluster) listen(address string, o transport.Options, h transport.Handler) {
	ln, err := c.network.Listen(address, o, func(wire.Hello) (transport.Handler, error) { return h, nil })
	if err != nil {
		c.t.Fatal(err)
	}
	c.closers = append(c.closers, ln)
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, network: loopback.New()}
	c.listen("inproc:s", transport.Options{Hello: wire.Hello{Role: wire.RoleScheduler}}, (*scheduler)(c))
	c.listen("inproc:f", transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend, Incarnation: 3}, Slabs: slabs{}}, (*dataSide)(c))
	return c
}

func (c *cluster) close() {
	for _, ln := range c.closers {
		ln.Close()
	}
}

func (c *cluster) backend(change ...func(*Config)) *Backend {
	c.t.Helper()
	cfg := Config{Name: "b", Scheduler: "inproc:s", Network: c.network, Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 2,
		Zoo: []repository.Zoo{{CSV: "../examples/zoo/zoo_a100.csv", Models: []string{"MobileNet", "VGG16"}, MaxBatch: 4}}}}}
	for _, f := range change {
		f(&cfg)
	}
	b, err := New(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.wait("registration", func() bool { return c.link != nil })
	return b
}

func (c *cluster) wait(what string, ok func() bool) {
	c.t.Helper()
	c.waitFor(20*time.Second, what, ok)
}

func (c *cluster) waitFor(most time.Duration, what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		done := ok()
		c.mu.Unlock()
		if done {
			return
		}
	}
	c.t.Fatalf("%s: not within %v", what, most)
}

// admit tells the backend an epoch, the frontends (without any: the one that listens on
// inproc:f), and its models' ids.
func (c *cluster) admit(epoch wire.Epoch, frontends ...wire.Member) {
	if len(frontends) == 0 {
		frontends = []wire.Member{{Frontend: 3, Instance: 3, Address: "inproc:f"}}
	}
	c.tell(wire.DocAdmitted, catalog.Admitted{Epoch: epoch})
	for _, f := range frontends {
		c.member(epoch, f.Frontend, f.Instance, f.Address)
	}
	c.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{10, 9}}) // unlike the backend's own order
}

// member tells the backend of a frontend; without an address, of its end.
func (c *cluster) member(epoch wire.Epoch, id wire.FrontendID, instance uint64, address string) {
	_ = c.control().Send((&wire.Member{Epoch: epoch, Frontend: id, Up: address != "", Instance: instance, Address: address}).Append(nil))
}

func (c *cluster) tell(kind wire.DocType, doc any) { transport.SendDoc(c.control(), kind, doc) }

// control is the backend's link at the scheduler.
func (c *cluster) control() transport.Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

func (c *cluster) order(epoch wire.Epoch, id wire.BatchID, model wire.ModelID) {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	now := mono.Now()
	m := wire.Batch{Epoch: epoch, Batch: id, Model: model, Device: 1, Exec: now, Until: now, Latest: mono.Never, Items: []wire.BatchItem{
		{Request: wire.RequestID(id), Frontend: 3, Deadline: now.Add(mono.Second), Input: wire.SlabRef{Length: 32}}}}
	_ = l.Send(m.Append(nil))
}

func TestOrders(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t)
	defer c.close()
	b := c.backend()
	if p := c.info.Pools[0]; c.info.Name != "b" || p.Devices != 2 || !p.Models.Valid() {
		t.Errorf("registered %+v", c.info)
	}
	c.admit(100)
	c.wait("the data link", func() bool { return b.Ready() && b.data(3) != nil })
	c.order(100, 1, 10)
	c.order(99, 2, 10)  // of an earlier scheduler: ignored
	c.order(100, 3, 77) // of no model: refused
	c.wait("reports and outputs", func() bool { return len(c.dones) == 2 && len(c.outputs) == 2 })
	for _, d := range c.dones {
		if want := map[wire.BatchID]wire.Reason{1: wire.ReasonNone, 3: wire.ReasonExecution}[d.Batch]; d.Reason != want || d.Batch == 2 {
			t.Errorf("report %+v", d)
		}
	}
	if err := b.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	c.wait("the farewell", func() bool { return c.left })
}

// A later epoch is obeyed and its ids replace the old ones; an earlier one is
// not.
func TestEpochs(t *testing.T) {
	c := newCluster(t)
	defer c.close()
	b := c.backend()
	defer b.Close()
	c.admit(100)
	c.wait("the data link", func() bool { return b.data(3) != nil })
	first := c.link
	first.Close(nil)
	c.wait("a new registration", func() bool { return c.link != nil && c.link != first })
	c.admit(200)
	c.wait("epoch 200", func() bool { return b.promised() == 200 && b.data(3) != nil })
	c.order(200, 5, 9)
	c.wait("a report", func() bool { return len(c.dones) == 1 })
	c.mu.Lock()
	old := c.link
	c.mu.Unlock()
	c.admit(150)
	c.wait("the link of an earlier epoch is closed", func() bool { return c.link != old })
	if b.promised() != 200 {
		t.Errorf("epoch %d", b.promised())
	}
}

func TestConfigErrors(t *testing.T) {
	network := loopback.New()
	pool := PoolConfig{DeviceType: "e", Kind: KindEmulated, Devices: 1}
	for want, change := range map[string]func(*Config){
		"needs a name":        func(c *Config) { c.Name = "" },
		"no model that could": func(*Config) {},
		"kind \"gpu\"":        func(c *Config) { c.Pools = []PoolConfig{{DeviceType: "e", Kind: "gpu", Devices: 1}} },
		"no model \"x\"":      func(c *Config) { c.Pools[0].Models = []string{"x"} },
		"no such file":        func(c *Config) { c.Pools[0].Zoo = []repository.Zoo{{CSV: "nowhere.csv"}} },
		"backend.repository":  func(c *Config) { c.Repository = "nowhere" },
		"ONNX Runtime":        func(c *Config) { c.Pools[0].Kind, c.ONNXRuntime = KindCPU, "nowhere.so" },
	} {
		c := Config{Name: "b", Scheduler: "inproc:s", Network: network, Pools: []PoolConfig{pool}}
		change(&c)
		if b, err := New(context.Background(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if b != nil {
				b.Close()
			}
		}
	}
}

// data is the link to a frontend by the id that the first scheduler has for it; nil: there is none.
func (b *Backend) data(id wire.FrontendID) transport.Link {
	if s := b.uplinks[0].ids.Load(); s != nil {
		return s.frontends.Link(id)
	}
	return nil
}

// table is what the first scheduler calls models.
func (b *Backend) table() *[]modelRef {
	if s := b.uplinks[0].ids.Load(); s != nil {
		return s.models.Load()
	}
	return nil
}

// promised is the highest reign.
func (b *Backend) promised() wire.Epoch {
	highest, _ := b.reigns.state()
	return highest
}
