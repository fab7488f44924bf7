package server

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// handsOver tells whether what waits moves with its model.
func handsOver() bool {
	_, ok := any(&engine.Engine{}).(interface {
		HandOver(wire.ModelID, *engine.Engine) error
	})
	return ok
}

// stream submits requests of models, one after the other, until it is stopped; then it waits
// until each has one answer, of a backend or of the scheduler, and says how many were dropped.
func stream(f *peer, models []wire.ModelID, every time.Duration) (stop func(hosts ...*host) (sent, dropped int)) {
	end, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-end:
				done <- n
				return
			case <-time.After(every):
			}
			for range 4 {
				n++
				f.submit(wire.RequestID(n), models[n%len(models)], 2*mono.Second)
			}
		}
	}()
	return func(hosts ...*host) (int, int) {
		close(end)
		n := <-done
		answers := func() (sum, twice, dropped int) {
			count := map[wire.RequestID]int{}
			for _, p := range hosts {
				p.mu.Lock()
				for id, a := range p.answers {
					count[id] += len(a)
				}
				p.mu.Unlock()
			}
			for id, a := range f.answers {
				count[id] += len(a)
				if a[0] != wire.ReasonDeadline { // that is a busy machine's
					dropped++
				}
			}
			for _, c := range count {
				if c > 1 {
					twice++
				}
			}
			return len(count), twice, dropped
		}
		f.wait("an answer to each", func() bool { sum, _, _ := answers(); return sum == n })
		f.mu.Lock()
		defer f.mu.Unlock()
		_, twice, dropped := answers()
		if twice > 0 {
			f.t.Errorf("%d requests of %d are answered twice", twice, n)
		}
		return n, dropped
	}
}

// runs submits requests of a model until a host has run one: a busy machine loses some.
func (p *peer) runs(name string, hosts ...*host) {
	p.t.Helper()
	model := p.entryNow(name).ID
	from, next := p.asked+1, time.Time{}
	p.wait(name+" runs", func() bool {
		if time.Now().After(next) {
			p.asked++
			p.submit(p.asked, model, mono.Second)
			next = time.Now().Add(100 * time.Millisecond)
		}
		for _, h := range hosts {
			h.mu.Lock()
			for id := from; id <= p.asked; id++ {
				if len(h.answers[id]) > 0 {
					h.mu.Unlock()
					return true
				}
			}
			h.mu.Unlock()
		}
		return false
	})
}

// begin makes two sub-clusters of two hosts, with a model each.
func begin(t *testing.T, n *loopback.Network) (c *boss, a, b *host) {
	t.Helper()
	a, b = newHost(t, "a", 1), newHost(t, "b", 1)
	a.join(n)
	b.join(n)
	c = newBoss(t, n)
	for _, s := range []struct{ gpu, to, model string }{{"a/emulated/0", "A", "m"}, {"b/emulated/0", "B", "n"}} {
		c.must(load(s.gpu, s.model))
		c.must(drainOf(s.gpu))
		c.must(seatTo(s.gpu, s.to))
		c.must(routeTo(s.to, s.model))
	}
	return c, a, b
}

// A model moves from one sub-cluster to the other and back while requests for it come: each has
// one answer, and none is lost. It keeps its id.
func TestModelMovesUnderLoad(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, n := newServer(t, nil)
	c, a, b := begin(t, n)
	f := frontendPeer(t, n)
	f.wait("both", func() bool { return f.entry("m").Ready && f.entry("n").Ready })
	id, other := f.entryNow("m").ID, f.entryNow("n").ID
	stop := stream(f, []wire.ModelID{id, other}, 2*time.Millisecond)
	c.must(load("b/emulated/0", "m"))
	for range 10 {
		for _, to := range []string{"B", "A"} {
			c.must(routeTo(to, "m"))
			f.wait("the frontend hears", func() bool { return f.subs[id] == to })
			time.Sleep(20 * time.Millisecond)
		}
	}
	sent, dropped := stop(a, b)
	if handsOver() && dropped > 0 {
		t.Errorf("%d of %d requests are lost by moves", dropped, sent)
	}
	if e := f.entryNow("m"); e.ID != id {
		t.Errorf("its id was %d and is %d", id, e.ID)
	}
	c.wait("its counts", func() bool { m := c.facts.models["m/1"]; return m.Served > 0 && m.In == "A" })
	for _, p := range []*peer{c.peer, a.peer, b.peer, f} {
		p.link.Close(nil)
	}
	s.Close()
}

// A GPU that is drained finishes what it has, the others run what comes, and it joins another
// sub-cluster. A sub-cluster without GPUs and models ends, and its engine with it.
func TestGPUChangesSides(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, n := newServer(t, func(c *Config) { c.Metrics = registry })
	c, a, b := begin(t, n)
	h := newHost(t, "c", 2)
	h.join(n)
	for _, gpu := range []string{"c/emulated/0", "c/emulated/1"} {
		c.must(load(gpu, "m", "n"))
		c.must(drainOf(gpu))
		c.must(seatTo(gpu, "A"))
	}
	f := frontendPeer(t, n)
	f.wait("three GPUs", func() bool { return f.entry("m").GPUs == 3 && f.entry("n").GPUs == 1 })
	stop := stream(f, []wire.ModelID{f.entryNow("m").ID, f.entryNow("n").ID}, 2*time.Millisecond)
	for range 3 {
		for _, to := range []string{"B", "A"} {
			c.must(drainOf("c/emulated/1"))
			c.must(seatTo("c/emulated/1", to))
			c.must(seatTo("c/emulated/1", to)) // again: nothing
		}
	}
	sent, dropped := stop(a, b, h)
	if dropped > 0 {
		t.Errorf("%d of %d requests are lost by a GPU that changes sides", dropped, sent)
	}
	c.wait("facts", func() bool {
		return c.facts.subs["A"].GPUs == 3 && c.facts.gpus["c/emulated/1"].State == catalog.GPUServing
	})
	c.must(load("a/emulated/0", "n"))
	c.must(routeTo("A", "n"))
	c.must(drainOf("b/emulated/0"))
	c.wait("B has ended", func() bool { _, there := c.facts.subs["B"]; return !there })
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.livePools {
		if p.name == "B" {
			t.Error("the engine of a sub-cluster that has ended runs")
		}
	}
}

// What would break the rule that a model is routed where all GPUs have it is refused, with a
// reason, and so is what comes of an older plan.
func TestOrdersAreRefused(t *testing.T) {
	_, n := newServer(t, nil)
	c, a, _ := begin(t, n)
	a.mu.Lock()
	a.fails["broken/1"] = "its file is broken"
	a.mu.Unlock()
	c.must(catalog.Order{Kind: catalog.OrderRoute, DeviceType: "emulated", To: "A", Keys: []string{"m/1"}, Plan: 7})
	slo, batch := int64(0), 4
	for what, o := range map[string]catalog.Order{
		"on 0 of the 1 GPUs":         routeTo("A", "n"),
		"not known":                  routeTo("A", "nobody"),
		"has no GPU":                 routeTo("C", "m"),
		"lacks models":               {},
		"route it elsewhere first":   {Kind: catalog.OrderUnload, GPU: "a/emulated/0", Keys: []string{"m/1"}},
		"drain it first":             seatTo("a/emulated/0", "B"),
		"drain it first ":            {Kind: catalog.OrderMeasure, GPU: "a/emulated/0", Keys: []string{"m/1"}},
		"is not there":               load("z/emulated/0", "m"),
		"its file is broken":         load("a/emulated/0", "broken"),
		"plan 7 is under way":        {Kind: catalog.OrderNames, Plan: 6},
		"SLO":                        {Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &slo}},
		"there is none":              {Kind: "dance", GPU: "a/emulated/0"},
		"where its files are":        {Kind: catalog.OrderLoad, GPU: "a/emulated/0", Sources: []catalog.Source{{Name: "x", Version: "1"}}},
		"all weights are 0":          {Kind: catalog.OrderNames, Names: []catalog.Name{{Name: "m", Shares: []catalog.Share{{Version: "1"}}}}},
		"which is no model's name a": {Kind: catalog.OrderLoad, GPU: "a/emulated/0", Sources: []catalog.Source{{Name: "x", Version: "1/2/", URL: "u"}}},
	} {
		if what == "lacks models" {
			c.must(drainOf("b/emulated/0"))
			o = seatTo("b/emulated/0", "A")
		}
		if why := c.outcome(c.order(o)); !strings.Contains(why, strings.TrimSpace(what)) {
			t.Errorf("%+v: %q, want %q in it", o, why, what)
		}
	}
	c.must(catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{MaxBatch: &batch}})
	f := frontendPeer(t, n)
	f.wait("the new max_batch", func() bool { return f.entry("m").Spec.MaxBatch == batch })
	c.wait("the failure is a fact", func() bool {
		m := c.facts.stock["a/emulated/0"]["broken/1"]
		return m.State == catalog.StateFailed && m.Error == "its file is broken"
	})
}

// Without a controller all goes on: a backend that comes back is told what it lacks, as a new
// process, too, and its GPU is where it was.
func TestControllerAway(t *testing.T) {
	registry := prometheus.NewRegistry()
	_, n := newServer(t, func(c *Config) { c.Metrics = registry })
	c, a, b := begin(t, n)
	if got := gaugeOf(t, registry, "symphony_scheduler_controllers"); got != 1 {
		t.Errorf("%v controllers, want 1", got)
	}
	c.link.Close(nil)
	f := frontendPeer(t, n)
	f.wait("both", func() bool { return f.entry("m").Ready && f.entry("n").Ready })
	b.link.Close(nil)
	f.wait("n is away", func() bool { return f.entry("n").Spec.Name == "n" && !f.entry("n").Ready })
	if got := gaugeOf(t, registry, "symphony_scheduler_controllers"); got != 0 {
		t.Errorf("%v controllers, want none", got)
	}
	again := newHost(t, "b", 1)
	again.join(n)
	f.wait("n is back", func() bool { return f.entry("n").Ready && f.subs[f.entry("n").ID] == "B" })
	f.runs("m", a)
	f.runs("n", again)
}

// A scheduler that starts again finds what was routed where, of the backends alone.
func TestRestartFindsRoutes(t *testing.T) {
	s, n := newServer(t, nil)
	c, a, b := begin(t, n)
	c.must(load("a/emulated/0", "o"))
	c.must(routeTo("A", "o"))
	c.must(load("b/emulated/0", "o"))
	c.must(routeTo("B", "o"))
	a.wait("a hears that o has gone", func() bool { return len(a.told["A"].Keys) == 1 })
	s.Close()
	for _, h := range []*host{a, b} {
		h.wait("its end", func() bool { return h.closed != nil })
	}
	again, err := New(Config{Listen: []string{"inproc:scheduler"}, Network: n, DelayMax: 5 * mono.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	b.join(n)
	a.join(n)
	f := frontendPeer(t, n)
	f.wait("all is as it was", func() bool {
		return f.entry("m").Ready && f.entry("n").Ready && f.entry("o").Ready &&
			f.subs[f.entry("m").ID] == "A" && f.subs[f.entry("n").ID] == "B" && f.subs[f.entry("o").ID] == "B"
	})
}

// Where nobody plans, a model that a backend drops into its folder is served when all have it,
// and no longer when one takes it away.
func TestModelsComeAndGo(t *testing.T) {
	_, n := newServer(t, nil)
	a, b := newHost(t, "a", 2, "m"), newHost(t, "b", 1, "m")
	a.join(n)
	b.join(n)
	f := frontendPeer(t, n)
	f.wait("m", func() bool { return f.entry("m").GPUs == 3 })
	put := func(h *host, there bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, has := range h.has {
			if has["x/1"] = there; !there {
				delete(has, "x/1")
			}
		}
		h.tell("x/1", catalog.StateReady, "")
	}
	put(a, true)
	c := newBoss(t, n)
	c.wait("a has it", func() bool { return c.facts.stock["a/emulated/1"]["x/1"].State == catalog.StateReady })
	if e := f.entryNow("x"); e.Spec.Name != "" {
		t.Errorf("%+v is served, and b does not have it", e)
	}
	put(b, true)
	f.wait("x", func() bool { return f.entry("x").Ready })
	f.runs("x", a, b)
	id := f.entryNow("x").ID
	put(b, false)
	f.wait("x is gone", func() bool { return f.entry("x").Spec.Name == "" })
	const last = 1 << 20
	f.submit(last, id, 2*mono.Second)
	f.wait("an answer", func() bool { return len(f.answers[last]) == 1 && f.answers[last][0] == wire.ReasonUnavailable })
	if !f.entryNow("m").Ready {
		t.Error("m went with it")
	}
}

func gaugeOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
