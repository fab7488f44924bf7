package server

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pool is the devices of one type and their engine.
type pool struct {
	deviceType string
	engine     *engine.Engine
	sink       *sink

	// Guarded by Server.mu.
	keys  []string              // the models that every device has, sorted
	slots map[string]wire.GPUID // "backend name/device" -> GPU id, kept for a restart (reserved)
	delay batching.Delay
	told  tuner.Choice // what was logged last of the tuner

	// Copy on write under Server.mu; read by the engine's loops.
	gpus atomic.Pointer[[]*gpu]
}

// gpu is one device of a pool, over its lives.
type gpu struct {
	id   wire.GPUID // Immutable.
	name string     // "backend/device"; guarded by Server.mu, as are left and life.
	left mono.Time  // when it was unseated last
	life rank.Life  // as the engine counts: how often AddGPU added it

	// seat says where it is now; nil while its backend is away.
	seat atomic.Pointer[seat]

	// Written by the engine's loops.
	busy    atomic.Int64 // ns of execution
	batches atomic.Uint64
	undone  atomic.Int64
	until   atomic.Int64 // planned end of the last batch, mono.Time
	length  atomic.Int64 // planned length of the last batch
}

// seat is a GPU's place on a backend during one life.
type seat struct {
	backend *backend
	life    engine.GPU
	pool    uint32 // index in the backend's list of pools
	device  uint32 // index in the pool's devices there
}

func (p *pool) gpu(id wire.GPUID) *gpu {
	gpus := *p.gpus.Load()
	if int(id) >= len(gpus) {
		return nil
	}
	return gpus[id]
}

// reserved is how long an absent device's GPU id waits for its return.
const reserved = 60 * mono.Second

// slot finds the GPU of a backend's device: the one that it had before, else
// the smallest id that nobody has or will come back for, else a new one. So ids
// stay dense however often backends are replaced under new names. Caller holds
// Server.mu.
func (p *pool) slot(backendName string, device int, now mono.Time) *gpu {
	name := fmt.Sprintf("%s/%d", backendName, device)
	gpus := *p.gpus.Load()
	if id, ok := p.slots[name]; ok {
		return gpus[id]
	}
	for _, g := range gpus {
		if g.seat.Load() == nil && now.Sub(g.left) > reserved {
			delete(p.slots, g.name)
			g.name, p.slots[name] = name, g.id
			return g
		}
	}
	g := &gpu{id: wire.GPUID(len(gpus)), name: name}
	p.slots[name] = g.id
	grown := append(slices.Clone(gpus), g)
	p.gpus.Store(&grown)
	return g
}

// seated counts the GPUs that are there now.
func (p *pool) seated() int {
	n := 0
	for _, g := range *p.gpus.Load() {
		if g.seat.Load() != nil {
			n++
		}
	}
	return n
}

// modelConfig turns a spec into what the engine wants.
func modelConfig(m *catalog.ModelSpec, queueMax int) (batching.Config, error) {
	if m.Name == "" || m.Version == "" {
		return batching.Config{}, fmt.Errorf("model %q version %q: both must be given", m.Name, m.Version)
	}
	if m.SLO <= 0 || m.SLO > 3600*mono.Second {
		return batching.Config{}, fmt.Errorf("model %s: SLO %v, must be above 0 and at most an hour", m.Key(), m.SLO)
	}
	p, err := profile.FromDoc(m.Profile, m.MaxBatch)
	if err != nil {
		return batching.Config{}, fmt.Errorf("model %s: %w", m.Key(), err)
	}
	policy, err := batching.ParsePolicy(m.DropPolicy)
	if err != nil {
		return batching.Config{}, fmt.Errorf("model %s: %w", m.Key(), err)
	}
	return batching.Config{Profile: p, SLO: m.SLO, Policy: policy, QueueMax: queueMax}, nil
}

// poolKeys are a pool's model keys, sorted; an error when one is doubled.
func poolKeys(p *catalog.Pool) ([]string, error) {
	var keys []string
	for i := range p.Models {
		keys = append(keys, p.Models[i].Key())
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return nil, fmt.Errorf("pool %s: model %s is there twice", p.DeviceType, keys[i])
		}
	}
	return keys, nil
}

// difference names what a and b (sorted) do not share.
func difference(a, b []string) (onlyA, onlyB []string) {
	for _, k := range a {
		if _, ok := slices.BinarySearch(b, k); !ok {
			onlyA = append(onlyA, k)
		}
	}
	for _, k := range b {
		if _, ok := slices.BinarySearch(a, k); !ok {
			onlyB = append(onlyB, k)
		}
	}
	return onlyA, onlyB
}
