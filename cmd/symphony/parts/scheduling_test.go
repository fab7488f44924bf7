package parts

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// inGroup starts a scheduler on a free port, and under a name of its own, which makes it a group of one
// where nobody else is named.
func inGroup(t *testing.T, others ...string) *Scheduling {
	t.Helper()
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT = "error", "never", "never"
	cfg.Backend.Pools = nil
	cfg.Scheduler.Listen = []string{"tcp:127.0.0.1:0", "inproc:self"}
	cfg.Scheduler.Standby = append(config.Addresses{"inproc:self"}, others...)
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Scheduling()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-k.stop:
		default:
			if err := drained(k); err != nil {
				t.Error(err)
			}
		}
	})
	return k
}

func drained(k *Scheduling) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return k.Drain(ctx)
}

func (k *Scheduling) leads() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.server != nil && k.server.Leads()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// A scheduler of a group goes on in its process after it was overtaken, at the same address; people have it
// lead, and hand over, and are told why not.
func TestSchedulingInAGroup(t *testing.T) {
	a := inGroup(t)
	eventually(t, "the only one leads", a.leads)
	address := a.Addresses()[0]
	if _, err := TellScheduler(config.Default(), address, catalog.OrderStepDown); err == nil || !strings.Contains(err.Error(), "no other scheduler") {
		t.Errorf("the only one is to step down: %v", err)
	}
	if said, err := TellScheduler(config.Default(), address, catalog.OrderPromote); err != nil || said != address+" leads" {
		t.Errorf("who leads is promoted: %q, %v", said, err)
	}
	b := inGroup(t, address)
	promising(t, address, b.Addresses()[0])
	if _, err := TellScheduler(config.Default(), b.Addresses()[0], catalog.OrderStepDown); err == nil || !strings.Contains(err.Error(), "does not lead") {
		t.Errorf("a spare is to step down: %v", err)
	}
	a.mu.Lock()
	first := a.server
	a.mu.Unlock()
	eventually(t, "the second is promoted", func() bool { // as soon as it has a backend
		said, err := TellScheduler(config.Default(), b.Addresses()[0], catalog.OrderPromote)
		return err == nil && said == b.Addresses()[0]+" leads"
	})
	eventually(t, "the first begins anew, as a spare", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.server != nil && a.server != first && !a.server.Leads()
	})
	if got := a.Addresses()[0]; got != address {
		t.Errorf("it listens at %s, and did at %s", got, address)
	}
	if err := drained(b); err != nil {
		t.Error(err)
	}
	eventually(t, "the first leads again", a.leads)
}

// promiser is a backend that promises who asks, and has nothing to do.
type promiser struct {
	mu      sync.Mutex
	core    standby.Backend
	links   map[standby.Link]transport.Link
	list    []byte
	numbers standby.Link
}

// promising is one that is linked with these schedulers.
func promising(t *testing.T, schedulers ...string) {
	t.Helper()
	b := &promiser{links: map[standby.Link]transport.Link{}}
	list, digest, err := catalog.EncodeModels([]catalog.ModelSpec{{Name: "m", Version: "1", SLO: 100 * mono.Millisecond, MaxBatch: 1, Profile: catalog.Profile{Alpha: mono.Millisecond, Beta: mono.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	b.list = list
	for _, s := range schedulers {
		k := transport.Keep(tcp.New(), s, transport.Options{Hello: wire.Hello{Role: wire.RoleBackend, Name: "b"}}, &promise{b: b}, func(l transport.Link) {
			transport.SendDoc(l, wire.DocBackend, catalog.BackendInfo{Name: "b", Instance: 7, Configured: 1, Pools: []catalog.Pool{{DeviceType: "e", Devices: 1, Models: digest}}})
		}, nil)
		t.Cleanup(k.Close)
	}
}

// promise is one of its links.
type promise struct {
	b      *promiser
	number standby.Link
}

func (*promise) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (p *promise) Receive(l transport.Link, f transport.Frame) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	var out standby.Effects
	switch f.Kind {
	case wire.KindPromise:
		var m wire.Promise
		if m.Decode(f.Body) == nil {
			b.core.Promise(p.number, m, &out)
		}
	case wire.KindDoc:
		var d wire.Doc
		_ = d.Decode(f.Body)
		switch d.Type {
		case wire.DocWant:
			_ = l.SendPayload((&wire.Doc{Type: wire.DocModels}).Append(nil, len(b.list)), b.list, nil)
		case wire.DocAdmitted:
			if a, err := catalog.DecodeAdmitted(f.Payload); err == nil && a.Error == "" {
				b.numbers++
				p.number = b.numbers
				b.links[p.number] = l
				b.core.Up(p.number, uint64(a.Epoch), &out)
			}
		}
	}
	b.tell(out)
}

// tell says what it promises. Caller holds mu.
func (b *promiser) tell(out standby.Effects) {
	for i := range out {
		if l := b.links[out[i].Link]; l != nil && out[i].Kind == standby.Tell {
			_ = l.Send(out[i].Promised.Append(nil))
		}
	}
}

func (p *promise) Closed(transport.Link, error) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	var out standby.Effects
	delete(b.links, p.number)
	b.core.Down(p.number, &out)
	b.tell(out)
	p.number = 0
}

// Whoever asks for a group in a process of all parts is told how it is done.
func TestServeIsNoGroup(t *testing.T) {
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT = "error", "never", "never"
	cfg.Scheduler.Standby = config.Addresses{"tcp:127.0.0.1:9000"}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Scheduler(); err == nil || !strings.Contains(err.Error(), "symphony scheduler") {
		t.Errorf("error %v", err)
	}
}

// What cannot be asked says why.
func TestTellSchedulerNobody(t *testing.T) {
	cfg := config.Default()
	cfg.Log.Level, cfg.RDMA.Mode, cfg.TCP.KernelRTT = "error", "never", "never"
	cfg.Backend.Pools = nil
	cfg.Scheduler.Listen = []string{"tcp:127.0.0.1:0"}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	at := s.Addresses()[0]
	if _, err := TellScheduler(cfg, at, catalog.OrderPromote); err == nil || !strings.Contains(err.Error(), "--standby") {
		t.Errorf("a scheduler that is alone: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := TellScheduler(cfg, at, catalog.OrderPromote); err == nil {
		t.Error("nobody is there, and it is done")
	}
}
