package server

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// joinModels adds a backend's models to the pool of their type. Caller holds mu and has
// checked the pool.
func (s *Server) joinModels(b *backend, doc *catalog.Pool) error {
	p := s.pools[doc.DeviceType]
	if p == nil {
		var err error
		if p, err = s.newPool(doc.DeviceType); err != nil {
			return err
		}
	}
	if s.othersIn(p, b.name) == "" {
		return s.setModels(p, doc)
	}
	return nil
}

// joinGPUs adds a backend's devices to the pool of their type, which has their models.
// Batches may go to them before it returns.
func (s *Server) joinGPUs(b *backend, index uint32, doc *catalog.Pool) error {
	p := s.pools[doc.DeviceType]
	for device := range doc.Devices {
		free := mono.Now()
		g := p.slot(b.name, device, free)
		if device < len(doc.FreeAt) {
			free = free.Add(max(0, doc.FreeAt[device]))
		}
		// The seat comes first: a loop may have a batch for the GPU before AddGPU returns,
		// and throws away what it finds no seat for (sink.Dispatch).
		g.undone.Store(0)
		g.seat.Store(&seat{backend: b, life: engine.GPU{ID: g.id, Life: g.life + 1}, pool: index, device: uint32(device)})
		life, err := p.engine.AddGPU(g.id, free)
		if err != nil {
			g.seat.Store(nil)
			return err
		}
		g.life++
		invariants.Check(life == engine.GPU{ID: g.id, Life: g.life}, "the engine counts another life of the GPU")
		b.seats = append(b.seats, seated{p, g, life})
	}
	return nil
}

func (s *Server) newPool(deviceType string) (*pool, error) {
	p := &pool{deviceType: deviceType, slots: map[string]wire.GPUID{}}
	p.gpus.Store(&[]*gpu{})
	p.sink = newSink(s, p, s.cfg.ModelLoops)
	cfg := engine.Config{ModelLoops: s.cfg.ModelLoops, FirstLoop: len(s.pools) * s.cfg.ModelLoops, Placement: s.placement(),
		Margin: s.cfg.Margin, RequestsMax: s.cfg.RequestsMax, Headroom: s.cfg.Headroom, TunerShare: s.cfg.TunerShare}
	if len(s.pools) == 0 {
		cfg.Record = s.cfg.Record
	}
	var err error
	if p.engine, err = engine.New(cfg, p.sink); err != nil {
		return nil, fmt.Errorf("pool %s: %w", deviceType, err)
	}
	p.engine.Start()
	p.delay = batching.Delay{Ctrl: s.cfg.DelayMin, Lead: s.cfg.Lead, LeadShare: leadShare}
	p.engine.SetDelay(p.delay)
	s.pools[deviceType] = p
	s.byLoop.Store(appendPool(s.byLoop.Load(), p, s.cfg.ModelLoops))
	return p, nil
}

// placement is that of the next pool: its threads get the cores behind those of the
// pools before, and float where none are left.
func (s *Server) placement() engine.Placement {
	p := s.cfg.Placement
	threads := s.cfg.ModelLoops + 1
	if p.Joined {
		threads--
	}
	from := min(len(s.pools)*threads, len(p.Cores))
	p.Cores = p.Cores[from:min(from+threads, len(p.Cores))]
	return p
}

// setModels makes the pool serve exactly doc's models.
func (s *Server) setModels(p *pool, doc *catalog.Pool) error {
	keys, err := poolKeys(doc)
	if err != nil {
		return err
	}
	gone, _ := difference(p.keys, keys)
	for _, key := range gone {
		id := s.models[key]
		p.engine.RemoveModel(id, wire.ReasonUnavailable)
		s.entries[id].Ready = false
		delete(s.models, key)
	}
	for i := range doc.Models {
		spec := &doc.Models[i]
		cfg, err := modelConfig(spec, s.cfg.QueueMax)
		if err != nil {
			return err
		}
		id, known := s.models[spec.Key()]
		if known {
			p.engine.RemoveModel(id, wire.ReasonUnavailable)
		} else {
			id = wire.ModelID(len(s.entries))
			s.entries = append(s.entries, catalog.Entry{ID: id, DeviceType: p.deviceType})
			s.models[spec.Key()] = id
		}
		s.entries[id].Spec = *spec
		if err := p.engine.AddModel(id, cfg); err != nil {
			return err
		}
		p.engine.SetDelay(p.delay)
	}
	p.keys = keys
	return nil
}

// catalogue is the document; caller holds mu.
func (s *Server) catalogue() catalog.Catalogue {
	c := catalog.Catalogue{Epoch: s.epoch, Serial: s.serial}
	for i := range s.entries {
		e := s.entries[i]
		if id, ok := s.models[e.Spec.Key()]; !ok || id != e.ID {
			continue // no longer served
		}
		c.Entries = append(c.Entries, e)
	}
	slices.SortFunc(c.Entries, func(a, b catalog.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

// broadcastCatalogue recomputes who serves what, publishes the routes, and
// tells everybody. Caller holds mu.
func (s *Server) broadcastCatalogue() {
	s.serial++
	routes := make([]route, len(s.entries))
	for i := range s.entries {
		e := &s.entries[i]
		p := s.pools[e.DeviceType]
		id, served := s.models[e.Spec.Key()]
		e.GPUs = p.seated()
		e.Ready = served && id == e.ID && e.GPUs > 0
		routes[i] = route{p.engine, e.Ready}
	}
	s.routes.Store(&routes)
	c := s.catalogue()
	for _, f := range s.frontends {
		transport.SendDoc(f.link, wire.DocCatalogue, c)
	}
	for _, b := range s.backends {
		transport.SendDoc(b.link, wire.DocCatalogue, c)
	}
}

// appendPool extends the table from a batch id's loop to its pool.
func appendPool(old *[]*pool, p *pool, loops int) *[]*pool {
	var table []*pool
	if old != nil {
		table = slices.Clone(*old)
	}
	for range loops {
		table = append(table, p)
	}
	return &table
}

// poolOf finds the pool whose engine made the batch; nil for a foreign id.
func (s *Server) poolOf(id wire.BatchID) *pool {
	table := s.byLoop.Load()
	if i := shard.ShardOf(id); table != nil && i < len(*table) {
		return (*table)[i]
	}
	return nil
}
