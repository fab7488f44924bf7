package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/wire"
)

// host is a backend whose models come and go: it does what it is told by Keep, and looks that no
// batch comes to a device that does not have its model. What it knows survives its links.
type host struct {
	t        *testing.T
	name     string
	instance uint64
	fails    map[string]string // models that cannot be loaded, and why
	loading  time.Duration     // what a model takes

	// Guarded by the link's peer.mu: one link at a time.
	*peer
	has   []map[string]bool // by device
	in    []string
	told  map[string]*catalog.Told
	slots []string // keys
	ids   map[wire.ModelID]string
	order map[string]bool
}

func newHost(t *testing.T, name string, devices int, own ...string) *host {
	h := &host{t: t, name: name, instance: rand.Uint64(), in: make([]string, devices), told: map[string]*catalog.Told{}, order: map[string]bool{}, fails: map[string]string{}}
	for range devices {
		has := map[string]bool{}
		for _, k := range own {
			has[k+"/1"] = true
		}
		h.has = append(h.has, has)
	}
	return h
}

// everywhere tells whether all devices have a model.
func (h *host) everywhere(key string) bool {
	return !slices.ContainsFunc(h.has, func(m map[string]bool) bool { return !m[key] })
}

func (h *host) keys() []string {
	all := map[string]bool{}
	for _, m := range h.has {
		maps.Copy(all, m)
	}
	return slices.Sorted(maps.Keys(all))
}

// join dials and introduces itself.
func (h *host) join(n *loopback.Network) {
	h.t.Helper()
	h.peer = newPeer(h.t)
	h.onKeep, h.onBound, h.onBatch = h.keep, h.bind, h.look
	h.slots, h.ids = nil, map[wire.ModelID]string{}
	var specs []catalog.ModelSpec
	pool := catalog.Pool{DeviceType: "emulated", Devices: len(h.has), In: slices.Clone(h.in), Runtime: true}
	for _, k := range h.keys() {
		if h.everywhere(k) {
			if h.order[k] {
				pool.Ordered = append(pool.Ordered, len(specs))
			}
			h.slots = append(h.slots, k)
			specs = append(specs, spec(k[:len(k)-2]))
		}
	}
	for _, t := range h.told {
		if slices.Contains(h.in, t.SubCluster) {
			pool.Told = append(pool.Told, *t)
		}
	}
	list, d, err := catalog.EncodeModels(specs)
	if err != nil {
		h.t.Fatal(err)
	}
	pool.Models = d
	h.lists[d] = list
	h.dial(n, wire.RoleBackend, h.name)
	transport.SendDoc(h.link, wire.DocBackend, catalog.BackendInfo{Name: h.name, Instance: h.instance, Configured: 1, Pools: []catalog.Pool{pool}})
	h.wait("admission of "+h.name, func() bool { return h.admitted != nil })
	if h.admitted.Error != "" {
		h.t.Fatalf("%s is refused: %s", h.name, h.admitted.Error)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.keys() {
		if !h.everywhere(k) {
			h.tell(k, catalog.StateReady, "")
		}
	}
}

// tell says what became of a model. Caller holds mu.
func (h *host) tell(key, state, why string) {
	slot := slices.Index(h.slots, key)
	if slot < 0 {
		slot = len(h.slots)
		h.slots = append(h.slots, key)
	}
	d := catalog.Stocked{Slot: slot, Key: key, State: state, Error: why, Local: !h.order[key]}
	for i, m := range h.has {
		if m[key] {
			d.Devices = append(d.Devices, i)
		}
	}
	if s := spec(key[:len(key)-2]); len(d.Devices) > 0 {
		d.Spec = &s
	} else if state == catalog.StateReady {
		d.State = catalog.StateGone
	}
	if h.closed == nil {
		transport.SendDoc(h.link, wire.DocStock, catalog.Stock{Models: []catalog.Stocked{d}})
	}
}

// keep does what it is told, in its time. The peer holds mu.
func (h *host) keep(k *catalog.Keep) {
	h.in[k.Device] = k.In
	if t := k.Told; t != nil {
		keys := map[string]bool{}
		if old := h.told[t.SubCluster]; old != nil && !t.Whole {
			for _, key := range old.Keys {
				keys[key] = true
			}
		}
		for _, key := range t.Keys {
			keys[key] = true
		}
		for _, key := range t.Gone {
			delete(keys, key)
		}
		h.told[t.SubCluster] = &catalog.Told{SubCluster: t.SubCluster, Epoch: t.Epoch, Serial: t.Serial, Whole: true, Keys: slices.Sorted(maps.Keys(keys))}
	}
	order := *k
	go func() {
		time.Sleep(h.loading)
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, s := range order.Load {
			if why := h.fails[s.Key()]; why != "" {
				h.tell(s.Key(), catalog.StateFailed, why)
				continue
			}
			if !slices.Contains(h.keys(), s.Key()) {
				h.order[s.Key()] = true
			}
			h.has[order.Device][s.Key()] = true
			h.tell(s.Key(), catalog.StateReady, "")
		}
		for _, key := range order.Unload {
			delete(h.has[order.Device], key)
			h.tell(key, catalog.StateReady, "")
		}
		for _, key := range order.Measure {
			h.tell(key, catalog.StateMeasuring, "")
			h.tell(key, catalog.StateReady, "")
		}
	}()
}

func (h *host) bind(b *catalog.Bound) {
	for i, id := range b.IDs {
		slot := i
		if len(b.Slots) > 0 {
			slot = b.Slots[i]
		}
		h.ids[id] = h.slots[slot]
	}
}

// look is at each batch: its device has the model.
func (h *host) look(m *wire.Batch) {
	if key := h.ids[m.Model]; !h.has[m.Device][key] {
		h.t.Errorf("a batch of %q comes to device %d of %s, which has %v", key, m.Device, h.name, h.has[m.Device])
	}
}

// factsSeen is what a controller knows.
type factsSeen struct {
	gpus   map[string]catalog.GPUFacts
	stock  map[string]map[string]catalog.Stocked
	models map[string]catalog.ModelFacts
	subs   map[string]catalog.SubClusterFacts
	wholes int
}

func newFactsSeen() *factsSeen {
	return &factsSeen{map[string]catalog.GPUFacts{}, map[string]map[string]catalog.Stocked{}, map[string]catalog.ModelFacts{}, map[string]catalog.SubClusterFacts{}, 0}
}

func (s *factsSeen) apply(d *catalog.Facts) {
	if d.Whole {
		n := s.wholes + 1
		*s = *newFactsSeen()
		s.wholes = n
	}
	for _, g := range d.GoneGPUs {
		delete(s.gpus, g)
		delete(s.stock, g)
	}
	for _, m := range d.GoneModels {
		delete(s.models, m)
	}
	for _, g := range d.GPUs {
		if s.gpus[g.Name] = g; s.stock[g.Name] == nil {
			s.stock[g.Name] = map[string]catalog.Stocked{}
		}
		for _, m := range g.Stock {
			s.stock[g.Name][m.Key] = m
		}
	}
	for _, m := range d.Models {
		s.models[m.Key] = m
	}
	for _, c := range d.SubClusters {
		if s.subs[c.Name] = c; c.GPUs == 0 && c.Models == 0 {
			delete(s.subs, c.Name)
		}
	}
}

// boss is a controller.
type boss struct {
	*peer
	last uint64
}

func newBoss(t *testing.T, n *loopback.Network) *boss {
	t.Helper()
	c := &boss{peer: dial(t, n, wire.RoleController, "controller")}
	c.must(catalog.Order{Kind: catalog.OrderJoin})
	c.wait("whole facts", func() bool { return c.facts.wholes == 1 })
	return c
}

// order sends one.
func (c *boss) order(o catalog.Order) uint64 {
	c.last++
	o.ID = c.last
	transport.SendDoc(c.link, wire.DocOrder, o)
	return o.ID
}

// outcome waits for what came of an order; "": it is done.
func (c *boss) outcome(id uint64) string {
	c.t.Helper()
	c.wait(fmt.Sprint("the outcome of order ", id), func() bool { _, ok := c.outcomes[id]; return ok })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcomes[id].Error
}

func (c *boss) must(o catalog.Order) {
	c.t.Helper()
	if why := c.outcome(c.order(o)); why != "" {
		c.t.Fatalf("%+v: %s", o, why)
	}
}

func load(gpu string, names ...string) catalog.Order {
	o := catalog.Order{Kind: catalog.OrderLoad, GPU: gpu}
	for _, n := range names {
		o.Sources = append(o.Sources, catalog.Source{Name: n, Version: "1", URL: "file:///" + n})
	}
	return o
}

func seatTo(gpu, to string) catalog.Order {
	return catalog.Order{Kind: catalog.OrderSeat, GPU: gpu, To: to, DeviceType: "emulated"}
}

func drainOf(gpu string) catalog.Order { return catalog.Order{Kind: catalog.OrderDrain, GPU: gpu} }

func routeTo(to string, names ...string) catalog.Order {
	o := catalog.Order{Kind: catalog.OrderRoute, DeviceType: "emulated", To: to}
	for _, n := range names {
		o.Keys = append(o.Keys, n+"/1")
	}
	return o
}
