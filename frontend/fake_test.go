package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cluster is a fake scheduler with a fake backend in one: it admits the
// client, and does with each request what the test says.
type cluster struct {
	t       testing.TB
	network *loopback.Network
	address string
	life    uint64 // its process
	doc     catalog.Catalogue
	// onSubmit acts on a request; nil: serve it. Called on the link's receiving
	// goroutine; data is the backend's link to the client.
	onSubmit func(c *cluster, control, data transport.Link, m wire.Submit)

	mu      sync.Mutex
	ln      transport.Listener
	control transport.Link
	data    transport.Link
	reads   int
	serial  uint64     // of the last changes
	lead    *wire.Lead // of a group: what it says after each admission; nil: nothing
	leaves  int
	cancels []wire.Cancel // with what they are of: after its Submit
	came    map[wire.RequestID]bool
	old     bool // a scheduler that knows nothing of Cancel
}

func vector(n int64) []catalog.TensorSpec {
	return []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{n}}}
}

func testModels() catalog.Catalogue {
	echo := catalog.ModelSpec{Name: "echo", Version: "2", SLO: 500 * mono.Millisecond, MaxBatch: 8, Inputs: vector(4), Outputs: vector(4)}
	old := echo
	old.Version = "1"
	image := catalog.ModelSpec{Name: "image", Version: "1", SLO: 500 * mono.Millisecond, MaxBatch: 8, Outputs: vector(4),
		Inputs: []catalog.TensorSpec{{Name: "pixels", Type: catalog.FP32, Shape: []int64{1, 2, 2}}}, Image: &catalog.ImageSpec{Layout: "NCHW", Channels: 1}}
	away := echo
	away.Name = "away"
	return catalog.Catalogue{Epoch: 1, Entries: []catalog.Entry{{ID: 0, Ready: true, GPUs: 1, Spec: old}, {ID: 1, Ready: true, GPUs: 1, Spec: echo},
		{ID: 2, Ready: true, GPUs: 1, Spec: image}, {ID: 3, Spec: away}}}
}

func newCluster(t testing.TB) *cluster {
	return newClusterAt(t, loopback.New(), "inproc:scheduler", testModels())
}

func newClusterAt(t testing.TB, n *loopback.Network, address string, doc catalog.Catalogue) *cluster {
	c := &cluster{t: t, network: n, address: address, doc: doc}
	c.listen()
	t.Cleanup(func() { c.close() })
	return c
}

func (c *cluster) listen() {
	ln, err := c.network.Listen(c.address, transport.Options{Hello: c.hello()},
		func(wire.Hello) (transport.Handler, error) { return (*fakeScheduler)(c), nil })
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.ln = ln
	c.mu.Unlock()
}

func (c *cluster) hello() wire.Hello {
	h := wire.Hello{Role: wire.RoleScheduler, Incarnation: c.life, Features: wire.FeatureCancel}
	if c.old {
		h.Features = 0
	}
	return h
}

func (c *cluster) close() {
	c.mu.Lock()
	ln := c.ln
	c.ln = nil
	data := c.data
	c.mu.Unlock()
	if data != nil {
		data.Close(nil)
	}
	if ln != nil {
		ln.Close()
	}
}

func (c *cluster) dial(change func(*Options)) *Client {
	c.t.Helper()
	o := Options{Scheduler: c.address, Listen: "inproc:", Network: c.network, ArenaBytes: 4 << 20, MaxInFlight: 256}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	client, err := Dial(ctx, o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	return client
}

type fakeScheduler cluster

func (*fakeScheduler) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (*fakeScheduler) Closed(transport.Link, error)                         {}

func (f *fakeScheduler) Receive(l transport.Link, m transport.Frame) {
	c := (*cluster)(f)
	switch m.Kind {
	case wire.KindDoc:
		var info catalog.FrontendInfo
		if err := json.Unmarshal(m.Payload, &info); err != nil {
			c.t.Error(err)
		}
		go c.join(l, info.Address) // dialling waits for frames: not on this goroutine
	case wire.KindSubmit:
		var s wire.Submit
		if err := s.Decode(m.Body, l.Shift()); err != nil {
			c.t.Error(err)
		}
		c.mu.Lock()
		data := c.data
		if c.came == nil {
			c.came = map[wire.RequestID]bool{}
		}
		c.came[s.Request] = true
		c.mu.Unlock()
		if c.onSubmit == nil {
			c.serve(data, s)
			return
		}
		c.onSubmit(c, l, data, s)
	case wire.KindCancel:
		var k wire.Cancel
		if err := k.Decode(m.Body, l.Shift()); err != nil || c.old {
			c.t.Errorf("a scheduler that does not know it is sent a Cancel, or a wrong one: %v", err)
		}
		c.mu.Lock()
		if !c.came[k.Request] {
			c.t.Error("a Cancel came before its Submit")
		}
		c.cancels = append(c.cancels, k)
		c.mu.Unlock()
	case wire.KindLeave:
		c.mu.Lock()
		c.leaves++
		c.mu.Unlock()
	}
}

// join dials the client's data address, as a backend would, and admits it.
func (c *cluster) join(l transport.Link, address string) {
	data, err := c.network.Dial(context.Background(), address, transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, fakeBackend{})
	if err != nil {
		return // the client is closing
	}
	c.mu.Lock()
	if c.data != nil {
		c.data.Close(nil)
	}
	c.control, c.data = l, data
	ch := changesOf(c.doc)
	c.serial = ch.Serial
	c.mu.Unlock()
	transport.SendDoc(l, wire.DocAdmitted, catalog.Admitted{Epoch: c.doc.Epoch, Frontend: 7})
	c.mu.Lock()
	if c.lead != nil {
		_ = l.Send(c.lead.Append(nil))
	}
	c.mu.Unlock()
	transport.SendDoc(l, wire.DocChanges, ch)
}

// says tells the client whether the scheduler leads its group, now and after each admission.
func (c *cluster) says(reign wire.Epoch, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lead = &wire.Lead{Epoch: reign, Leads: leads}
	if c.control != nil {
		_ = c.control.Send(c.lead.Append(nil))
	}
}

// kill ends the scheduler, and leaves the backend.
func (c *cluster) kill() {
	c.mu.Lock()
	ln := c.ln
	c.ln, c.lead = nil, &wire.Lead{}
	c.mu.Unlock()
	ln.Close()
}

// change tells the client of what changed.
func (c *cluster) change(ch catalog.Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch.Epoch, ch.Since, ch.Serial = c.doc.Epoch, c.serial, c.serial+1
	c.serial++
	transport.SendDoc(c.control, wire.DocChanges, ch)
}

// changesOf is a whole catalogue as changes from nothing. Each count of GPUs has a device
// type of its own.
func changesOf(doc catalog.Catalogue) catalog.Changes {
	ch := catalog.Changes{Epoch: doc.Epoch, Serial: max(1, doc.Serial)}
	for _, e := range doc.Entries {
		deviceType := fmt.Sprint("gpus-", e.GPUs)
		ch.Pools = append(ch.Pools, catalog.PoolState{DeviceType: deviceType, GPUs: e.GPUs})
		ch.Models = append(ch.Models, catalog.Served{ID: e.ID, DeviceType: deviceType, Spec: e.Spec})
	}
	return ch
}

type fakeBackend struct{}

func (fakeBackend) Receive(transport.Link, transport.Frame)              {}
func (fakeBackend) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (fakeBackend) Closed(transport.Link, error)                         {}

// serve READs the input and sends it back as the output.
func (c *cluster) serve(data transport.Link, s wire.Submit) {
	in := make([]byte, s.Input.Length)
	_ = data.Read([]transport.ReadOp{{Request: s.Request, Input: s.Input, Dst: in, Done: func(_ uint64, err error) {
		c.mu.Lock()
		c.reads++
		c.mu.Unlock()
		if err == nil {
			output(data, s.Request, in)
		}
	}}})
}

func output(data transport.Link, id wire.RequestID, payload []byte) {
	now := mono.Now()
	m := wire.Output{Request: id, BatchSize: 3, Device: 5, Fetch: mono.Microsecond, Execute: mono.Microsecond, Start: now}
	_ = data.SendPayload(m.Append(nil, len(payload)), payload, nil)
}

func answer(control transport.Link, id wire.RequestID, r wire.Reason) {
	_ = control.Send((&wire.Answer{Request: id, Reason: r}).Append(nil))
}
