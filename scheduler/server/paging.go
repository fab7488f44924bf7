package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
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
type paging struct {
	seating sync.Mutex                          // Guards that a report is in what an engine begins with, or comes to it afterwards.
	mu      sync.Mutex                          // Guards devices; rank loops take it: nobody waits for one meanwhile.
	devices map[spot][]holding                  // of all spots that the backend told of, and of no others
	at      atomic.Pointer[map[spot]*pagedSeat] // copy on write under Server.mu
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
	pool *pool
	gpu  wire.GPUID
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
		p.devices = map[spot][]holding{}
	}
	p.devices[at] = nil
}

// replace takes all that a device holds, if the backend has it.
func (p *paging) replace(pool, device int, held []catalog.HeldModel) {
	all := make([]holding, len(held))
	for i := range held {
		all[i] = holding{key: held[i].Key, generation: held[i].Generation}
	}
	at := spot{uint32(pool), uint32(device)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.devices[at]; ok {
		p.devices[at] = all
	}
}

// gains notes weights that came.
func (p *paging) gains(at spot, id wire.ModelID, gen wire.Generation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, ok := p.devices[at]
	if !ok {
		return // a device that its backend has not
	}
	of := func(h holding) bool { return h.key == "" && h.id == id }
	p.devices[at] = append(slices.DeleteFunc(all, of), holding{id: id, generation: gen})
}

// loses notes weights that go.
func (p *paging) loses(at spot, id wire.ModelID, gen wire.Generation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.devices[at]) == 0 {
		return
	}
	p.devices[at] = slices.DeleteFunc(p.devices[at], func(h holding) bool { return h.key == "" && h.id == id && h.generation == gen })
}

// held is what an engine begins with, least recently used first as far as it was told; idOf finds the ids of keys.
func (p *paging) held(at spot, idOf func(key string) (wire.ModelID, bool)) (weights []residency.Weights) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.devices[at]
	for i := range all {
		h := &all[i]
		if h.key != "" {
			id, ok := idOf(h.key)
			if !ok {
				continue // its backend has no such model: it has none of its weights either
			}
			h.key, h.id = "", id
		}
		weights = append(weights, residency.Weights{Model: h.id, Generation: residency.Generation(h.generation)})
	}
	return weights
}

// seatIn gives the GPU to its pool's engine. Caller holds Server.mu.
func (s *Server) seatIn(b *backend, p *pool, g *gpu, index, device int, free mono.Time) (engine.GPU, error) {
	if p.paged == nil {
		return p.engine.AddGPU(g.id, free)
	}
	b.rows.seating.Lock()
	defer b.rows.seating.Unlock()
	at := spot{uint32(index), uint32(device)}
	b.rows.seat(at, &pagedSeat{p, g.id})
	memory := s.cluster.Memory(b.conn, index)
	if memory == nil {
		return engine.GPU{}, fmt.Errorf("pool %s is paged, and a device of %s is not", p.label(), b.name)
	}
	return p.engine.AddPagedGPU(g.id, free, memory.Pages, b.rows.held(at, s.cluster.ModelID))
}

// seat notes what a device is now; nil: nothing. Caller holds Server.mu.
func (p *paging) seat(at spot, now *pagedSeat) {
	seats := map[spot]*pagedSeat{}
	if old := p.at.Load(); old != nil {
		maps.Copy(seats, *old)
	}
	if delete(seats, at); now != nil {
		seats[at] = now
	}
	p.at.Store(&seats)
}

// onLoaded takes a loader's report, to the engine that has the device now.
func (b *backend) onLoaded(l transport.Link, body []byte) {
	d := &b.loaded
	if err := d.Decode(body, l.Shift()); err != nil {
		l.Close(errors.Join(transport.ErrProtocol, err))
		return
	}
	s, at := b.server, spot{d.Pool, d.Device}
	if d.Epoch != wire.Epoch(s.reign.Load()) || d.Op == wire.OpUnload { // of another scheduler's order; of an unload, which cannot fail
		return
	}
	b.rows.seating.Lock()
	defer b.rows.seating.Unlock()
	ok := d.Reason == wire.ReasonNone
	if ok {
		b.rows.gains(at, d.Model, d.Generation)
	}
	seats := b.rows.at.Load()
	if seats == nil || (*seats)[at] == nil {
		return // whoever gets it begins with what came
	}
	seat := (*seats)[at]
	end := min(d.End, mono.Now()) // clocks are only so well aligned
	seat.pool.engine.Loaded(engine.LoadReport{GPU: seat.gpu, Model: d.Model, Generation: residency.Generation(d.Generation),
		Report: residency.Report{ID: residency.LoadID(d.Load), Start: min(d.Start, end), End: end, OK: ok}})
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
	w := residency.Model{Pages: p.paged.PagesOf(spec), LoadTime: spec.LoadTime}
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
}

// FlushLoads implements engine.Loader.
func (k *sink) FlushLoads() { k.flush(&k.loads.loopSink) }

// modelAt is a model on a GPU.
type modelAt struct {
	model wire.ModelID
	gpu   wire.GPUID
}

// countStart counts a batch's requests as cold, if it is the first one with its weights, or warm.
func (k *sink) countStart(l *loopSink, d *shard.Dispatch) {
	if l.seen == nil {
		l.seen = map[modelAt]uint32{}
	}
	at := modelAt{d.Model, d.GPU}
	if l.seen[at] == d.Generation {
		k.warm.Add(uint64(len(d.Requests)))
		return
	}
	l.seen[at] = d.Generation
	k.cold.Add(uint64(len(d.Requests)))
}
