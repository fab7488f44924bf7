package server

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// crowd is many emulated members that share what they have.
type crowd struct {
	t        *testing.T
	list     []byte
	digest   catalog.Digest
	bound    atomic.Int64 // backends that know their models' ids
	whole    atomic.Int64 // frontends that know all models and GPUs
	cut      atomic.Int64
	bytes    atomic.Int64 // of documents
	lists    atomic.Int64 // sent
	ended    atomic.Bool
	models   int
	backends int
}

// one is a member of it.
type one struct {
	c      *crowd
	link   transport.Link
	models int
	gpus   int
	whole  bool
}

func (o *one) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (o *one) Closed(_ transport.Link, err error) {
	if !o.c.ended.Load() {
		o.c.cut.Add(1)
		o.c.t.Errorf("a link is cut: %v", err)
	}
}

func (o *one) Receive(l transport.Link, f transport.Frame) {
	var d wire.Doc
	if f.Kind != wire.KindDoc || d.Decode(f.Body) != nil {
		return
	}
	o.c.bytes.Add(int64(len(f.Payload)))
	switch d.Type {
	case wire.DocWant:
		o.c.lists.Add(1)
		_ = l.SendPayload((&wire.Doc{Type: wire.DocModels}).Append(nil, len(o.c.list)), o.c.list, nil)
	case wire.DocBound:
		var b catalog.Bound
		if err := json.Unmarshal(f.Payload, &b); err != nil || len(b.IDs) != o.c.models {
			o.c.t.Errorf("%d ids: %v", len(b.IDs), err)
		}
		o.c.bound.Add(1)
	case wire.DocChanges:
		var ch catalog.Changes
		if err := json.Unmarshal(f.Payload, &ch); err != nil {
			o.c.t.Error(err)
		}
		o.models += len(ch.Models)
		for _, p := range ch.Pools {
			o.gpus = p.GPUs
		}
		if !o.whole && o.models == o.c.models && o.gpus == o.c.backends {
			o.whole = true
			o.c.whole.Add(1)
		}
	}
}

// join brings them all in at once, and waits until all know all.
func (c *crowd) join(n *loopback.Network, frontends int) []*one {
	c.bound.Store(0)
	c.whole.Store(0)
	c.ended.Store(false)
	var all []*one
	for i := range c.backends + frontends {
		o := &one{c: c}
		role, name := wire.RoleBackend, fmt.Sprint("member-", i)
		if i >= c.backends {
			role = wire.RoleFrontend
		}
		l, err := n.Dial(context.Background(), "inproc:scheduler", transport.Options{Hello: wire.Hello{Role: role, Name: name}, Heartbeat: 10 * mono.Second, Silence: 60 * mono.Second}, o)
		if err != nil {
			c.t.Fatal(err)
		}
		if o.link = l; role == wire.RoleFrontend {
			transport.SendDoc(l, wire.DocFrontend, catalog.FrontendInfo{Name: name, Instance: uint64(i + 1), Address: "inproc:" + name})
		} else {
			transport.SendDoc(l, wire.DocBackend, catalog.BackendInfo{Name: name, Instance: uint64(i + 1), Configured: 1,
				Pools: []catalog.Pool{{DeviceType: "gpu", Devices: 1, Models: c.digest}}})
		}
		all = append(all, o)
	}
	for end := time.Now().Add(60 * time.Second); c.bound.Load() < int64(c.backends) || c.whole.Load() < int64(frontends); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not settled: %d of %d backends know their models, %d of %d frontends all", c.bound.Load(), c.backends, c.whole.Load(), frontends)
		}
	}
	return all
}

// TestStorm: 4,096 models of 1,000 labels each and 1,024 members that come at once, twice: the
// second time to a scheduler that was started again. No link is cut, and what is sent does not
// grow with the product of members and models. (The processor's time and the memory are logged:
// go test -run TestStorm -v.)
func TestStorm(t *testing.T) {
	c := &crowd{t: t, models: 4096, backends: 1000}
	frontends := 24
	if testing.Short() || invariants.Enabled {
		c.models, c.backends = 512, 100
	}
	labels := make([]string, 1000)
	for i := range labels {
		labels[i] = fmt.Sprint("label-", i)
	}
	specs := make([]catalog.ModelSpec, c.models)
	for i := range specs {
		specs[i] = spec(fmt.Sprint("model-", i))
		specs[i].Inputs = []catalog.TensorSpec{{Name: "input", Type: catalog.FP32, Shape: []int64{3, 224, 224}}}
		specs[i].Outputs = []catalog.TensorSpec{{Name: "output", Type: catalog.FP32, Shape: []int64{1000}}}
		specs[i].Labels = labels
	}
	var err error
	if c.list, c.digest, err = catalog.EncodeModels(specs); err != nil {
		t.Fatal(err)
	}
	specs = nil
	n := loopback.New()
	for _, round := range []string{"join storm", "restart of the scheduler"} {
		c.bytes.Store(0)
		c.lists.Store(0)
		runtime.GC() // of the round before
		before := processorTime()
		s, err := New(Config{Listen: []string{"inproc:scheduler"}, Network: n}) // not for a cleanup to hold on to
		if err != nil {
			t.Fatal(err)
		}
		all := c.join(n, frontends)
		spent := processorTime() - before
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%s: %v of a processor, %.0f MB sent, %.0f MB of heap in use, %.0f MB taken of the system, %d lists asked for", round, spent.Round(time.Millisecond),
			float64(c.bytes.Load())/1e6, float64(m.HeapInuse)/1e6, float64(m.Sys)/1e6, c.lists.Load())
		if c.lists.Load() != 1 {
			t.Errorf("the list was sent %d times, once is enough", c.lists.Load())
		}
		// Each frontend needs each model once, each backend its ids, in 6 bytes each at most;
		// what changes with each member that comes is told together.
		if most := int64(frontends*len(c.list)*3/2 + (c.backends+frontends)*6*c.models + 1<<20); c.bytes.Load() > most {
			t.Errorf("%d bytes of documents were sent, more than %d", c.bytes.Load(), most)
		}
		c.ended.Store(true)
		for _, o := range all {
			o.link.Close(nil)
		}
		s.Close()
		all = nil
	}
}

// processorTime is what this process has taken of the processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
