package server

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// paging is what a backend's paged devices hold, by all that it has said and was ordered. An engine reckons for itself
// what is on its GPUs; this is for the next engine, or the next life of a GPU there: where a device goes to another
// sub-cluster, or was suspected and is back, its backend says nothing.
//
//	Pool.Held, DocHeld   all that the device holds
//	Loaded               it holds these, too, and they go to the engine that has the device now
//	an order to unload   it holds those no more
//	a GPU is seated      its engine begins with what the device holds (AddPagedGPU)
//
// What a report brings is either in what an engine begins with, or the engine is told of it after it has begun:
//
//	report:  under mu: note what came, see who has the device; then wait until that engine has begun, and tell it
//	seating: under mu: see what the device holds, note who has it; then the engine begins
//
// Nothing is locked while either waits for an engine.
type paging struct {
	mu      sync.Mutex    // Guards what follows; rank loops take it: nobody waits for one meanwhile.
	devices map[spot]*row // all that the backend told of
}

// row is what is known of a device.
type row struct {
	held []holding
	seat *pagedSeat // nil: nobody has it
	out  bool       // of service: it holds nothing, whatever is still on its way
}

// spot is a device as its backend counts.
type spot struct{ pool, device uint32 }

// holding is a model's weights on a device. Its backend names models by key, and reports of orders by id.
type holding struct {
	key        string // "": id says which
	id         wire.ModelID
	generation wire.Generation
}

// pagedSeat is the GPU that a device is now.
type pagedSeat struct {
	pool  *pool
	life  engine.GPU
	begun chan struct{} // closed when its engine has been told of it
}

// introduce takes what a newcomer says that it holds.
func (p *paging) introduce(info *catalog.BackendInfo) {
	for i := range info.Pools {
		in := &info.Pools[i]
		if in.Paged == nil {
			continue
		}
		for device := range in.Devices {
			p.know(spot{uint32(i), uint32(device)})
		}
		for device, held := range in.Held {
			p.replace(i, device, held)
		}
	}
}

// know begins with a device that holds nothing.
func (p *paging) know(at spot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.devices == nil {
		p.devices = map[spot]*row{}
	}
	p.devices[at] = &row{}
}

// replace takes all that a device holds, if the backend has it.
func (p *paging) replace(pool, device int, held []catalog.HeldModel) {
	all := make([]holding, len(held))
	for i := range held {
		all[i] = holding{key: held[i].Key, generation: held[i].Generation}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.devices[spot{uint32(pool), uint32(device)}]; r != nil {
		r.held = all
	}
}

// service takes a device out of service, which it comes back from empty, or back.
func (p *paging) service(pool, device int, works bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.devices[spot{uint32(pool), uint32(device)}]; r != nil {
		if r.out = !works; r.out {
			r.held = nil
		}
	}
}

// reported notes what a load brought, if it brought any, and is who is to be told; nil: nobody has the device.
func (p *paging) reported(d *wire.Loaded) *pagedSeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.devices[spot{d.Pool, d.Device}]
	if r == nil || r.out { // a device that its backend has not, or that lost all before this came
		return nil
	}
	if d.Reason == wire.ReasonNone {
		of := func(h holding) bool { return h.key == "" && h.id == d.Model }
		r.held = append(slices.DeleteFunc(r.held, of), holding{id: d.Model, generation: d.Generation})
	}
	return r.seat
}

// loses notes weights that go; with wire.ModelNone those of models without id, of a generation or all.
func (p *paging) loses(at spot, id wire.ModelID, gen wire.Generation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.devices[at]
	if r == nil {
		return
	}
	r.held = slices.DeleteFunc(r.held, func(h holding) bool {
		if id == wire.ModelNone {
			return h.key != "" && (gen == 0 || h.generation == gen)
		}
		return h.key == "" && h.id == id && h.generation == gen
	})
}

// seat notes who has a device, and is what its engine begins with, least recently used first as far as it was told; idOf finds
// the ids of keys. What has none is there all the same, as wire.ModelNone: the engine orders it away.
func (p *paging) seat(at spot, seat *pagedSeat, idOf func(key string) (wire.ModelID, bool)) (weights []residency.Weights) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.devices[at]
	if r == nil {
		return nil
	}
	r.seat = seat
	for i := range r.held {
		h := &r.held[i]
		id := h.id
		if h.key != "" {
			if known, ok := idOf(h.key); ok {
				h.key, h.id, id = "", known, known
			} else {
				id = wire.ModelNone
			}
		}
		weights = append(weights, residency.Weights{Model: id, Generation: residency.Generation(h.generation)})
	}
	return weights
}

// unseat notes that nobody has it.
func (p *paging) unseat(at spot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.devices[at]; r != nil {
		r.seat = nil
	}
}

// seatIn gives the GPU to its pool's engine, which counts that life of it. Caller holds Server.mu.
func (s *Server) seatIn(b *backend, p *pool, life engine.GPU, index, device int, free mono.Time) (engine.GPU, error) {
	if p.paged == nil {
		return p.engine.AddGPU(life.ID, free)
	}
	memory := s.cluster.Memory(b.conn, index)
	if memory == nil {
		return engine.GPU{}, fmt.Errorf("pool %s is paged, and a device of %s is not", p.label(), b.name)
	}
	now := &pagedSeat{pool: p, life: life, begun: make(chan struct{})}
	defer close(now.begun)
	held := b.rows.seat(spot{uint32(index), uint32(device)}, now, s.cluster.ModelID)
	return p.engine.AddPagedGPU(life.ID, free, memory.Pages, held)
}

// onLoaded takes a loader's report, to the engine that has the device now.
func (b *backend) onLoaded(l transport.Link, body []byte) {
	d := &b.loaded
	if err := d.Decode(body, l.Shift()); err != nil {
		l.Close(errors.Join(transport.ErrProtocol, err))
		return
	}
	if w := b.server.cfg.Watch.Loaded; w != nil {
		w(d, l.Shift())
	}
	if d.Epoch != wire.Epoch(b.server.reign.Load()) || d.Op == wire.OpUnload { // of another scheduler's order; of an unload, which cannot fail
		return
	}
	seat := b.rows.reported(d)
	if seat == nil {
		return // whoever gets the device begins with what came
	}
	<-seat.begun
	end := min(d.End, mono.Now()) // clocks are only so well aligned
	seat.pool.engine.Loaded(engine.LoadReport{GPU: seat.life, Model: d.Model, Generation: residency.Generation(d.Generation),
		Report: residency.Report{ID: residency.LoadID(d.Load), Start: min(d.Start, end), End: end, OK: d.Reason == wire.ReasonNone, Reason: d.Reason,
			Tells: true, Free: int(min(d.Free, catalog.PagesMax))}})
}

// onHeld takes what a device holds: its loads that were under way are void.
func (b *backend) onHeld(payload []byte) error {
	doc, err := catalog.DecodeHeld(payload)
	if err == nil {
		b.rows.replace(doc.Pool, doc.Device, doc.Models)
	}
	return err
}

// refusedWhole is why a backend answered none of a batch's requests; ReasonNone: it answered them.
func refusedWhole(d *wire.Done) wire.Reason {
	if d.Ran == 0 && d.Failed == 0 && (d.Reason == wire.ReasonLate || d.Reason == wire.ReasonCold) {
		return d.Reason
	}
	return wire.ReasonNone
}

const (
	// loadBandwidth, bytes/s, and loadLeast are what a load is taken to need before any was measured, where its backend
	// does not say: a slow PCIe, and an order.
	loadBandwidth = 6e9
	loadLeast     = mono.Millisecond
)

// serve has the pool's engine serve a model.
func (p *pool) serve(id wire.ModelID, cfg batching.Config, spec *catalog.ModelSpec) error {
	if p.paged == nil {
		return p.engine.AddModel(id, cfg)
	}
	w := residency.Model{Pages: p.paged.PagesOf(spec), LoadTime: spec.LoadTime, Pinned: spec.Resident}
	if w.LoadTime <= 0 {
		w.LoadTime = max(loadLeast, mono.Dur(float64(spec.WeightsBytes)/loadBandwidth*float64(mono.Second)))
	}
	return p.engine.AddPagedModel(id, cfg, w)
}

// loadSink is what the rank loop has gathered for backends. Owned by that loop.
type loadSink struct {
	loopSink
	load wire.Load // scratch
}

// Load implements engine.Loader.
func (k *sink) Load(o *engine.LoadOrder) {
	seat := k.pool.gpu(o.GPU).seat.Load()
	if seat == nil || seat.life.Life != o.Life {
		return // it left just now: who has it next begins with what it holds
	}
	m := &k.loads.load
	*m = wire.Load{Epoch: seat.reign, Load: wire.LoadID(o.ID), Model: o.Model, GPU: o.GPU, Device: seat.device, Pool: seat.pool, Op: wire.OpLoad,
		Generation: wire.Generation(o.Generation), Earliest: o.Earliest, Latest: o.Latest, Until: o.Until}
	if o.ID == 0 {
		m.Op = wire.OpUnload
		seat.backend.rows.loses(spot{seat.pool, seat.device}, o.Model, m.Generation)
	}
	p := k.loads.to(seat.backend.link, seat.backend)
	p.frames = m.Append(p.frames)
	if w := k.server.cfg.Watch.Ordered; w != nil {
		w(o)
	}
}

// FlushLoads implements engine.Loader.
func (k *sink) FlushLoads() { k.flush(&k.loads.loopSink) }

// countStart counts a batch's requests as cold, if it was the first one with its weights, as its backend says, or warm. Those
// that wait again are not counted.
func (k *sink) countStart(c *modelCount, requests int, cold bool) {
	n := uint64(requests)
	switch {
	case cold && c != nil:
		c.cold.Add(n)
	case c != nil:
		c.warm.Add(n)
	}
	if cold {
		k.cold.Add(n)
	} else {
		k.warm.Add(n)
	}
}
