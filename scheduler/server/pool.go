package server

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pool is the devices of one type and their engine. Who and what belongs to it is the
// members' core's to say.
type pool struct {
	engine *engine.Engine
	sink   *sink

	// Guarded by Server.mu.
	index      int
	deviceType string
	name       string         // "": of all devices of the type, where nobody plans
	paged      *catalog.Paged // its devices' memory; nil: models are resident
	delay      batching.Delay
	told       tuner.Choice // what was logged last of the tuner
	worst      mono.Dur     // of the delays of its links
	models     int          // that are served here
	infeasible int          // of them, those of which no request can be in time, at the last look
	rate       float64      // requests/s of its models, at the last look
	share      float64      // of its GPUs' time that was busy, in the second before it
	busyTold   int64        // likewise: what the GPUs' busy were then

	pagesTold pagesTold // of a paged pool, likewise

	alive atomic.Int64 // GPUs seated; read on the request path
	aside atomic.Int64 // GPUs whose backends have not promised (aside); likewise

	// Copy on write under Server.mu; read by the engine's loops.
	gpus atomic.Pointer[[]*gpu]
}

// gpu is one device of a pool, over its lives.
type gpu struct {
	id   wire.GPUID // Immutable.
	name string     // "backend/device"; guarded by Server.mu, as is life.
	life engine.GPU // as the engine counts

	// seat says where it is now; nil while its backend is away.
	seat atomic.Pointer[seat]

	// Written by the engine's loops.
	busy    atomic.Int64 // ns of execution
	batches atomic.Uint64
}

// seat is a GPU's place on a backend during one life.
type seat struct {
	backend *backend
	life    engine.GPU
	reign   wire.Epoch // of the orders that its backend obeys
	pool    uint32     // index in the backend's list of pools
	device  uint32     // index in the pool's devices there

	// Written by the engine's loops, of this life: what is on its way when a life ends must not
	// count for the next one.
	undone atomic.Int64 // batches that were sent and not reported
	until  atomic.Int64 // planned end of the last batch, mono.Time
	length atomic.Int64 // planned length of the last batch
}

func (p *pool) gpu(id wire.GPUID) *gpu {
	gpus := *p.gpus.Load()
	if int(id) >= len(gpus) {
		return nil
	}
	return gpus[id]
}

// grow makes room for a GPU id. Caller holds Server.mu.
func (p *pool) grow(id wire.GPUID) *gpu {
	gpus := *p.gpus.Load()
	if int(id) < len(gpus) {
		return gpus[id]
	}
	grown := slices.Clone(gpus)
	for int(id) >= len(grown) {
		grown = append(grown, &gpu{id: wire.GPUID(len(grown))})
	}
	p.gpus.Store(&grown)
	return grown[id]
}

// label is what people call it.
func (p *pool) label() string {
	if p.name == "" {
		return p.deviceType
	}
	return p.deviceType + "/" + p.name
}

// livePools are those that there are, by the core's index. Caller holds mu.
func (s *Server) livePools(yield func(*pool) bool) {
	for _, p := range s.pools {
		if p != nil && !yield(p) {
			return
		}
	}
}

// newPool starts an engine, paged where its devices' memory is. Caller holds mu.
func (s *Server) newPool(index int, memory *catalog.Paged) {
	p := &pool{index: index, paged: memory}
	p.gpus.Store(&[]*gpu{})
	p.sink = newSink(s, p, s.cfg.ModelLoops)
	var err error
	if p.engine, err = engine.New(s.cfg.engine(index, s.threads, memory != nil), p.sink); err != nil {
		panic(fmt.Sprintf("scheduler/server: the engine of pool %d: %v, which New has checked", index, err))
	}
	p.engine.Start()
	p.delay = batching.Delay{Ctrl: s.cfg.DelayMin, Lead: s.cfg.Lead, LeadShare: leadShare}
	p.engine.SetDelay(p.delay)
	if s.hastened {
		p.engine.Hasten()
	}
	s.pools[index] = p
	s.setLoops(index, p)
}

// removePool ends a sub-cluster that has neither models nor GPUs.
func (s *Server) removePool(p *pool) {
	s.endLeaving(p)
	s.log.Info().Str("pool", p.label()).Msg("sub-cluster ends")
	s.pools[p.index] = nil
	s.setLoops(p.index, nil)
	s.ending.Add(1)
	go func() { // its loops end when they have done what they were told
		defer s.ending.Done()
		p.engine.Stop()
	}()
}

// setLoops changes the table from a batch id's loop to its pool.
func (s *Server) setLoops(index int, p *pool) {
	var table []*pool
	if old := s.byLoop.Load(); old != nil {
		table = slices.Clone(*old)
	}
	first := index * s.cfg.ModelLoops
	for len(table) < first+s.cfg.ModelLoops {
		table = append(table, nil)
	}
	for i := range s.cfg.ModelLoops {
		table[first+i] = p
	}
	s.byLoop.Store(&table)
}

// drain is a GPU that shall have nothing left.
type drain struct {
	pool          *pool
	gpu           *gpu
	seat          *seat // nil: its backend does not obey this scheduler (aside)
	conn          members.Conn
	index, device int
	quiet         int // ticks in which it had nothing
}

// retireGPU gives it nothing new.
func (s *Server) retireGPU(p *pool, id wire.GPUID) {
	g := p.gpu(id)
	if b, a := s.asideOf(p, g); a != nil {
		a.retired = true
		if s.cluster.Draining(b.conn, a.index, a.device) {
			s.drains = append(s.drains, &drain{pool: p, gpu: g, conn: b.conn, index: a.index, device: a.device})
		}
		return
	}
	p.engine.RetireGPU(g.life)
	at := g.seat.Load()
	if at != nil && s.cluster.Draining(at.backend.conn, int(at.pool), int(at.device)) {
		s.drains = append(s.drains, &drain{pool: p, gpu: g, seat: at, conn: at.backend.conn, index: int(at.pool), device: int(at.device)})
	}
}

// drained is for how many ticks a GPU must have had nothing: a grant may have been under way
// when it was retired, and its batch is sent within one.
const drained = 2

// lookForIdle tells the core of GPUs that have nothing left. Caller holds mu.
func (s *Server) lookForIdle(now mono.Time) {
	s.drains = slices.DeleteFunc(s.drains, func(d *drain) bool {
		if d.gpu.seat.Load() != d.seat {
			return true // it is gone, and the core knows
		}
		if d.quiet++; d.seat != nil && d.seat.undone.Load() > 0 {
			d.quiet = 0
		}
		if d.quiet < drained {
			return false
		}
		s.cluster.Idle(now, d.conn, d.index, d.device, &s.effects)
		return true
	})
	if len(s.effects) > 0 {
		s.carryOut(&s.effects)
	}
}

// poolOf finds the pool whose engine made the batch; nil for a foreign id.
func (s *Server) poolOf(id wire.BatchID) *pool {
	table := s.byLoop.Load()
	if i := shard.ShardOf(id); table != nil && i < len(*table) {
		return (*table)[i]
	}
	return nil
}

// modelConfig turns a spec into what the engine wants.
func modelConfig(m *catalog.ModelSpec, queueMax int) (batching.Config, error) {
	p, err := profile.FromDoc(m.Profile, m.MaxBatch)
	if err != nil {
		return batching.Config{}, fmt.Errorf("model %s: %w", m.Key(), err)
	}
	policy, err := batching.ParsePolicy(m.DropPolicy)
	if err != nil {
		return batching.Config{}, fmt.Errorf("model %s: %w", m.Key(), err)
	}
	return batching.Config{Profile: p, SLO: m.SLO, Bytes: m.InputBytes(), Policy: policy, QueueMax: queueMax}, nil
}

// seatGPU adds a backend's device. Batches may go to it before it returns.
func (s *Server) seatGPU(b *backend, p *pool, g *gpu, index, device int, free mono.Dur) error {
	// The seat comes first: a loop may have a batch for the GPU before AddGPU returns,
	// and throws away what it finds no seat for (sink.Dispatch).
	life := engine.GPU{ID: g.id, Life: g.life.Life + 1}
	g.seat.Store(&seat{backend: b, life: life, reign: s.reignAt(b), pool: uint32(index), device: uint32(device)})
	got, err := s.seatIn(b, p, life, index, device, mono.Now().Add(free))
	if err == nil && got != life {
		p.engine.RemoveGPU(got)
		g.life = got // the next life is the one after
		err = fmt.Errorf("the engine counts life %d of GPU %s, not %d", got.Life, g.name, life.Life)
	}
	if err != nil {
		g.seat.Store(nil)
		b.rows.unseat(spot{uint32(index), uint32(device)})
		return err
	}
	g.life = got
	p.alive.Add(1)
	b.seats = append(b.seats, seated{p, g})
	return nil
}

// unseatGPU takes it away; what ran there is queued again.
func (s *Server) unseatGPU(p *pool, g *gpu) {
	if b, a := s.asideOf(p, g); a != nil {
		b.unput(a)
		return
	}
	old := g.seat.Swap(nil)
	if old == nil {
		return
	}
	old.backend.seats = slices.DeleteFunc(old.backend.seats, func(x seated) bool { return x.gpu == g })
	if p.paged != nil {
		old.backend.rows.unseat(spot{old.pool, old.device})
	}
	p.alive.Add(-1)
	p.engine.RemoveGPU(g.life)
}
