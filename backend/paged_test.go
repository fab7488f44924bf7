package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// inPages gives the pool pages, and copies of a model of 7 pages, which takes 8 ms to load.
func inPages(pages, models int) func(*Config) {
	return func(cfg *Config) {
		p := &cfg.Pools[0]
		p.Paged = &Paged{Page: 16 << 20, Pages: pages}
		p.Zoo = []repository.Zoo{{CSV: "../bench/zoo/zoo_v100_clockwork.csv", Models: []string{"resnet50_v2"}, Copies: models, SLO: 100 * mono.Millisecond}}
	}
}

// bindAll gives the models ids, from first on.
func (c *cluster) bindAll(first, n int) {
	var doc catalog.Bound
	for i := range n {
		doc.IDs = append(doc.IDs, wire.ModelID(first+i))
	}
	c.tell(wire.DocBound, doc)
}

// paged begins an epoch with n models, of ids from 10 on.
func (c *cluster) paged(epoch wire.Epoch, n int) {
	c.tell(wire.DocAdmitted, catalog.Admitted{Epoch: epoch})
	c.member(epoch, 3, 3, "inproc:f")
	c.bindAll(10, n)
}

func loadOf(epoch wire.Epoch, id wire.LoadID, device int, model wire.ModelID, gen wire.Generation) *wire.Load {
	now := mono.Now()
	return &wire.Load{Epoch: epoch, Load: id, Device: uint32(device), Model: model, Op: wire.OpLoad, Generation: gen, Earliest: now, Latest: now.Add(100 * mono.Second)}
}

func unloadOf(epoch wire.Epoch, id wire.LoadID, device int, model wire.ModelID, gen wire.Generation) *wire.Load {
	m := loadOf(epoch, id, device, model, gen)
	m.Op, m.Latest = wire.OpUnload, mono.Never
	return m
}

// loaded waits for a load's report.
func (c *cluster) loaded(id wire.LoadID) (l wire.Loaded) {
	c.t.Helper()
	c.wait(fmt.Sprintf("the report of load %d", id), func() bool {
		i := slices.IndexFunc(c.loads, func(l wire.Loaded) bool { return l.Load == id })
		if i >= 0 {
			l = c.loads[i]
		}
		return i >= 0
	})
	return l
}

// runWith orders a batch of a request of so many bytes with weights of a generation, and waits for its report.
func (c *cluster) runWith(epoch wire.Epoch, id wire.BatchID, device int, model wire.ModelID, gen wire.Generation, length uint32) (done wire.Done) {
	c.t.Helper()
	now := mono.Now()
	m := wire.Batch{Epoch: epoch, Batch: id, Model: model, Device: uint32(device), Exec: now, Until: now, Latest: now.Add(100 * mono.Second), Generation: gen,
		Items: []wire.BatchItem{{Request: wire.RequestID(id), Frontend: 3, Deadline: now.Add(100 * mono.Second), Input: wire.SlabRef{Length: length}}}}
	_ = c.control().Send(m.Append(nil))
	c.wait(fmt.Sprintf("the report of batch %d", id), func() bool {
		i := slices.IndexFunc(c.dones, func(d wire.Done) bool { return d.Batch == id })
		if i >= 0 {
			done = c.dones[i]
		}
		return i >= 0
	})
	return done
}

// A paged pool says what its devices have room for, loads and unloads as it is told, and runs batches with the
// weights that they count on alone.
func TestPagedPool(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t)
	registry := prometheus.NewRegistry()
	b := c.backend(inPages(20, 4), func(cfg *Config) { cfg.Metrics = registry })
	defer c.close()
	defer b.Close()
	c.mu.Lock()
	p := c.info.Pools[0]
	c.mu.Unlock()
	if p.Paged == nil || *p.Paged != (catalog.Paged{Page: 16 << 20, Pages: 20}) || len(p.Held) != 2 || len(p.Held[0])+len(p.Held[1]) != 0 {
		t.Errorf("%+v", p)
	}
	if s := b.pools[0].spec(0); s.WeightsBytes < 90e6 || s.LoadTime < 8*mono.Millisecond || p.Paged.PagesOf(s) != 7 {
		t.Errorf("%+v", s)
	}
	c.paged(100, 4)
	send := func(m *wire.Load) { _ = c.control().Send(m.Append(nil)) }
	send(loadOf(100, 1, 1, 10, 1))
	send(loadOf(100, 2, 1, 11, 2))
	send(loadOf(100, 3, 1, 12, 3))
	l := c.loaded(1)
	if l.Reason != wire.ReasonNone || l.Free != 13 || l.End.Sub(l.Start) < 8*mono.Millisecond || l.Copied < 90e6 || l.Device != 1 || l.Model != 10 {
		t.Errorf("%+v", l)
	}
	if l := c.loaded(3); l.Reason != wire.ReasonMemory || l.Free != 6 {
		t.Errorf("%+v", l)
	}
	if d := c.runWith(100, 1, 1, 11, 2, 32); d.Ran != 1 || d.Reason != wire.ReasonNone {
		t.Errorf("%+v", d)
	}
	for id, gen := range map[wire.BatchID]wire.Generation{2: 1, 3: 0, 4: 9} {
		if d := c.runWith(100, id, 1, 11, gen, 32); d.Ran != 0 || d.Failed != 0 || d.Reason != wire.ReasonCold {
			t.Errorf("generation %d: %+v", gen, d)
		}
	}
	if d := c.runWith(100, 5, 0, 11, 2, 32); d.Reason != wire.ReasonCold {
		t.Errorf("on the other device: %+v", d)
	}
	send(unloadOf(100, 4, 1, 10, 1))
	send(loadOf(100, 5, 1, 12, 4))
	send(loadOf(100, 6, 1, 99, 5)) // no such model
	for id, why := range map[wire.LoadID]wire.Reason{4: wire.ReasonNone, 5: wire.ReasonNone, 6: wire.ReasonUnknownModel} {
		if l := c.loaded(id); l.Reason != why {
			t.Errorf("%+v", l)
		}
	}
	for series, want := range map[string]float64{"symphony_backend_pages all": 40, "symphony_backend_pages free": 26, "symphony_backend_loads_total done": 3,
		"symphony_backend_loads_total memory": 1, "symphony_backend_loads_total unknown_model": 1, "symphony_backend_loads_total unloaded": 1,
		"symphony_backend_returned_total cold": 4, "symphony_backend_load_seconds ": 3} {
		if got := gathered(t, registry)[series]; got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.outputs) != 1 || c.outputs[0].Flags != wire.OutputCold || c.outputs[0].Model != 11 {
		t.Errorf("outputs %+v", c.outputs)
	}
}

// gathered are metrics by name and label beside the pool's; of histograms their counts.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				if l.GetName() != "pool" {
					label = l.GetValue()
				}
			}
			got[f.GetName()+" "+label] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return got
}

// A load for a pool whose models are resident breaks the protocol, and so does one for no device; a pool that cannot
// have pages, or a model that fits into none, is refused with a reason.
func TestPagesThatAreNone(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t)
	defer c.close()
	b := c.backend()
	defer b.Close()
	for _, m := range []*wire.Load{loadOf(100, 1, 0, 10, 1), loadOf(100, 1, 7, 10, 1)} {
		c.wait("a link", func() bool { return c.link != nil })
		c.admit(100)
		l := c.control()
		_ = l.Send(m.Append(nil))
		c.wait("the link's end", func() bool { return c.link != l })
	}
	for text, change := range map[string]func(*Config){
		"0 pages of 1 bytes":                             func(cfg *Config) { cfg.Pools[0].Paged = &Paged{Page: 1} },
		"7 pages, and a device has 6: raise paged.pages": inPages(6, 1),
	} {
		cfg := Config{Name: "x", Scheduler: "inproc:s", Network: c.network, Pools: []PoolConfig{{DeviceType: "e", Kind: KindEmulated, Devices: 1}}}
		change(&cfg)
		if b, err := New(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), text) {
			if err == nil {
				b.Close()
			}
			t.Errorf("%v, want %q", err, text)
		}
	}
}

// held is what the introduction says of a device. Caller holds mu.
func (c *cluster) held(device int) []catalog.HeldModel { return c.info.Pools[0].Held[device] }

// again breaks the link, and is what the backend says of a device on the next one.
func (c *cluster) again(device int) (held []catalog.HeldModel) {
	l := c.control()
	l.Close(nil)
	c.wait("another link", func() bool {
		if c.link == nil || c.link == l {
			return false
		}
		held = c.held(device)
		return true
	})
	return held
}

// Across reconnects and restarts of the scheduler what it is told of is all there is: what was being loaded when the link
// ended is not told, and gone when the next load needs its room. (From a seed; pages add up by assertions, too, under
// the race detector.)
func TestHeldIsAllThereIs(t *testing.T) {
	defer goleak.VerifyNone(t)
	const models, pages = 6, 20
	c := newCluster(t)
	b := c.backend(inPages(pages, models))
	defer c.close()
	defer b.Close()
	id, gen, epoch := wire.LoadID(0), wire.Generation(0), wire.Epoch(100)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		epoch += wire.Epoch(r.IntN(2)) // it starts anew, or has lost the link
		c.paged(epoch, models)
		c.mu.Lock()
		has := map[string]wire.Generation{}
		for _, h := range c.held(1) {
			has[h.Key] = h.Generation
		}
		c.loads = nil
		c.mu.Unlock()
		free := pages - 7*len(has)
		var asked []wire.LoadID
		gone := map[wire.Generation]bool{} // unloaded, perhaps before it was there
		for range r.IntN(5) {
			model := r.IntN(models)
			key := fmt.Sprintf("resnet50_v2-%d/1", model)
			id++
			switch g := has[key]; {
			case g != 0:
				_ = c.control().Send(unloadOf(epoch, id, 1, wire.ModelID(10+model), g).Append(nil))
				delete(has, key)
				free, gone[g] = free+7, true
			case free >= 7:
				gen++
				_ = c.control().Send(loadOf(epoch, id, 1, wire.ModelID(10+model), gen).Append(nil))
				has[key] = gen
				free -= 7
			default:
				continue
			}
			asked = append(asked, id)
		}
		waited := 0 // for so many reports
		if len(asked) > 0 {
			waited = r.IntN(len(asked) + 1)
		}
		for _, load := range asked[:waited] {
			if l := c.loaded(load); l.Reason != wire.ReasonNone && (l.Reason != wire.ReasonCold || !gone[l.Generation]) {
				t.Errorf("%+v, though by its scheduler's count there is room: %v", l, has)
			}
		}
		if waited == len(asked) {
			if n, _ := b.pools[0].executors[1].Pages(); n != free {
				t.Errorf("%d pages are free, the scheduler counts %d", n, free)
			}
		}
		held := c.again(1)
		for _, h := range held {
			if h.Generation > gen || waited == len(asked) && has[h.Key] != h.Generation {
				t.Errorf("%+v is told, ordered was %v", h, has)
			}
		}
		if waited == len(asked) && len(held) != len(has) {
			t.Errorf("%v is told, ordered was %v", held, has)
		}
	}
	e := b.pools[0].executors[1]
	c.wait("rest", func() bool { n, all := e.Pages(); return all-n == 7*len(e.Held()) })
}

// Who takes over is told what is held before it hears that it is obeyed; the loads of the one before are void.
func TestTakeOverOfWeights(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := led(t, inPages(20, 2))
	defer g.end()
	reports := func(p *peer) (all []wire.Loaded) {
		for _, m := range p.heard {
			if l, ok := m.(wire.Loaded); ok {
				all = append(all, l)
			}
		}
		return all
	}
	g.a.send(loadOf(1000, 1, 0, g.a.model, 5).Append(nil))
	g.a.wait("a report", func() bool { return len(reports(g.a)) == 1 })
	g.b.send(loadOf(1000, 2, 0, g.b.model, 6).Append(nil)) // it is not obeyed
	g.a.send(loadOf(1000, 3, 0, g.a.model+1, 7).Append(nil))
	g.b.mu.Lock()
	g.b.docs = nil
	g.b.mu.Unlock()
	g.b.promise(2000, true)
	g.b.hears(wire.Promised{Epoch: 2000, Highest: 2000})
	var told []catalog.Held
	g.b.wait("what is held", func() bool {
		told = nil
		for _, d := range g.b.docs {
			if d.kind == wire.DocHeld {
				h, err := catalog.DecodeHeld(d.payload)
				if err != nil {
					t.Error(err)
				}
				told = append(told, h)
			}
		}
		return len(told) == 2
	})
	if want := []catalog.HeldModel{{Key: "resnet50_v2-0/1", Generation: 5}}; told[0].Device != 0 || !slices.Equal(told[0].Models, want) || told[1].Device != 1 || len(told[1].Models) != 0 {
		t.Errorf("told %+v", told)
	}
	g.a.send(loadOf(1000, 4, 0, g.a.model+1, 8).Append(nil))
	g.b.send(loadOf(2000, 5, 0, g.b.model+1, 9).Append(nil))
	g.b.wait("a report", func() bool { return len(reports(g.b)) == 1 })
	g.b.mu.Lock()
	if l := reports(g.b)[0]; l.Load != 5 || l.Reason != wire.ReasonNone || l.Free != 6 {
		t.Errorf("%+v", l)
	}
	g.b.mu.Unlock()
	g.a.mu.Lock()
	if l := reports(g.a); len(l) != 1 {
		t.Errorf("void loads are reported: %+v", l)
	}
	g.a.mu.Unlock()
}

// A model that the control plane takes away takes its weights along before its files are given back; a device that was
// out of service comes back empty.
func TestPagedModelsComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t, func(cfg *Config) { cfg.Pools[0].Paged = &Paged{Page: 1 << 20, Pages: 10} })
	defer s.end()
	s.admitted(100)
	m := source(t, "m", "1", "memory: {static: 3MiB}\nload: 1ms\n")
	large := source(t, "large", "1", "memory: {static: 11MiB}\n")
	s.keep(catalog.Keep{Device: 0, Load: []catalog.Source{m, large}})
	last := s.until("m/1", catalog.StateReady, 0)
	if last.Spec.WeightsBytes != 3<<20 || last.Spec.LoadTime != mono.Millisecond {
		t.Errorf("%+v", last.Spec)
	}
	if l := s.until("large/1", catalog.StateFailed); !strings.Contains(l.Error, "11 pages, and a device has 10") {
		t.Errorf("%+v", l)
	}
	s.bindTo(map[string]wire.ModelID{"m/1": 4})
	_ = s.control().Send(loadOf(100, 1, 0, 4, 1).Append(nil))
	if l := s.loaded(1); l.Reason != wire.ReasonNone || l.Free != 7 {
		t.Errorf("%+v", l)
	}
	e := s.b.pools[0].executors[0]
	s.b.OutOfService(0, 0, "test", "it is")
	if free, _ := e.Pages(); free != 10 || len(e.Held()) != 0 {
		t.Errorf("%d pages are free on a device out of service", free)
	}
	s.b.InService(0, 0, "test")
	_ = s.control().Send(loadOf(100, 2, 0, 4, 2).Append(nil))
	s.loaded(2)
	if d := s.runWith(100, 1, 0, 4, 2, 32); d.Ran != 1 {
		t.Errorf("%+v", d)
	}
	s.keep(catalog.Keep{Device: 0, Unload: []string{"m/1", "large/1"}})
	s.until("m/1", catalog.StateGone)
	if free, _ := e.Pages(); free != 10 {
		t.Errorf("%d pages are free of 10", free)
	}
	if d := s.runWith(100, 2, 0, 4, 2, 32); d.Reason != wire.ReasonExecution {
		t.Errorf("%+v", d)
	}
}
