package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
)

// placeCUDA chooses the GPUs of a pool, which tell its device type if it has none.
func (b *Backend) placeCUDA(cfg *PoolConfig) ([]cuda.Info, error) {
	infos, err := chooseGPUs(b.gpuHost.infos, cfg, b.gpuHost.taken)
	if err != nil {
		return nil, err
	}
	if cfg.DeviceType == "" {
		cfg.DeviceType = deviceType(infos[0].Name)
	}
	for _, g := range infos {
		b.gpuHost.taken[g.Index] = cfg.DeviceType
	}
	return infos, nil
}

// loadCUDA opens the GPUs with the models, and measures those without a profile. A model
// that a GPU of the pool refuses is left out, and a GPU that cannot be opened: the others
// serve.
func (b *Backend) loadCUDA(ctx context.Context, p *pool, infos []cuda.Info, cfg PoolConfig, models []repository.Model) error {
	p.loader = &cudaLoader{pool: p, host: b.gpuHost}
	models, err := b.modelsOfGPUs(p, cfg, models)
	if err != nil {
		return err
	}
	var list []cuda.Model
	served := make([]bool, len(models))
	for i := range models {
		list, served[i] = append(list, gpuModel(&models[i], &cfg)), true
	}
	err = b.openAll(ctx, p, infos, &cfg, list, func(r *cuda.RefusedError) {
		if served[r.Index] {
			b.refuse(p, models[r.Index], r)
		}
		served[r.Index] = false
	})
	if err != nil {
		return err
	}
	if err := b.profileCUDA(ctx, p, cfg, models, list, served); err != nil {
		return err
	}
	p.doc.Memory = p.gpus[0].budget
	for _, g := range p.gpus {
		p.doc.Memory = min(p.doc.Memory, g.budget)
	}
	b.tellGPUs(p)
	return nil
}

// modelsOfGPUs are those that GPUs may run. None is an error where none can come.
func (b *Backend) modelsOfGPUs(p *pool, cfg PoolConfig, models []repository.Model) ([]repository.Model, error) {
	models = slices.DeleteFunc(slices.Clone(models), func(m repository.Model) bool {
		other := m.Spec.Platform != repository.PlatformONNX
		if other {
			b.refuse(p, m, errNotEmulated)
		}
		return other
	})
	if len(models) == 0 && !b.cfg.mayBeEmpty() {
		return nil, fmt.Errorf("pool %s has no model: a pool of kind cuda serves those that its key models names, and those whose config.yaml has device_type: cuda or %s",
			cfg.DeviceType, cfg.DeviceType)
	}
	return models, nil
}

// openAll opens a pool's GPUs with models, those that can be opened. refuse is told of each model that one does not take.
func (b *Backend) openAll(ctx context.Context, p *pool, infos []cuda.Info, cfg *PoolConfig, list []cuda.Model, refuse func(*cuda.RefusedError)) error {
	var errs []error
	for _, info := range infos {
		if ctx.Err() != nil { // each takes a while
			return ctx.Err()
		}
		g, refused, err := b.gpuHost.open(info, cfg, list)
		if err != nil {
			about(b.log.Error(), info).Err(err).Msg("a GPU is not used")
			errs = append(errs, err)
			continue
		}
		for _, r := range refused {
			refuse(r)
		}
		p.gpus, p.devices = append(p.gpus, g), append(p.devices, g.executes())
	}
	if len(p.gpus) == 0 {
		return fmt.Errorf("pool %s: none of its GPUs can be used: %w", cfg.DeviceType, errors.Join(errs...))
	}
	p.doc.Devices = len(p.gpus)
	return nil
}

// tellGPUs says which GPUs serve how much.
func (b *Backend) tellGPUs(p *pool) {
	for _, g := range p.gpus {
		about(b.log.Info(), g.info).Str("pool", p.cfg.DeviceType).Str("runtime", b.gpuHost.name).Int("models", len(p.specs)).
			Int64("held_mib", g.device.Stats().Memory.Load()>>20).Int64("budget_mib", g.budget>>20).Msg("a GPU serves")
	}
}

// profileCUDA measures on the first GPU, for all are equal, and leaves the models that all
// serve in each of them.
func (b *Backend) profileCUDA(ctx context.Context, p *pool, cfg PoolConfig, models []repository.Model, list []cuda.Model, served []bool) error {
	var kept []int
	first := p.gpus[0]
	for i := range models {
		if !served[i] {
			continue
		}
		m, unmeasured := &models[i], models[i]
		key := b.gpuHost.profileKey(m, first.device.Models()[i], first.info, cfg.DeviceType, b.cfg.ProfileDir)
		var err error
		m.Spec.Profile, err = b.profile(key, m, cfg.DeviceType, list[i].Sizes, func(o profiler.Options) (*profiler.Result, error) {
			return profiler.Measure(ctx, first.device, i, &m.Spec, o)
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cuda.ErrLost):
			return fmt.Errorf("pool %s: model %s: %w", cfg.DeviceType, m.Spec.Key(), err)
		case err != nil:
			b.refuse(p, unmeasured, fmt.Errorf("it loads, but its profile cannot be made: %w", err))
			continue
		}
		kept = append(kept, i)
		p.serve(*m)
	}
	if len(kept) == len(models) {
		return nil
	}
	for _, g := range p.gpus {
		g.device.Keep(kept)
	}
	return nil
}

// buffersDefault is Config.Buffers where that is 0.
const buffersDefault = 1 << 30

// makeBuffers makes what each GPU's executor READs into and sends from: pinned for CUDA, and
// registered with the network's device, if it has one.
func (p *pool) makeBuffers(n transport.Network, most int64) {
	if most == 0 {
		most = buffersDefault
	}
	for _, g := range p.gpus {
		g.buffers = transport.BuffersFor(n, g.info.NUMANode, most, g.pinned)
	}
}

// memory is what the executor of a device READs into.
func (p *pool) memory(device int, network transport.Allocator) transport.Allocator {
	if device < len(p.gpus) {
		return p.gpus[device].buffers
	}
	return network
}

// closeBuffers comes after links and devices have closed.
func (b *Backend) closeBuffers() {
	for _, p := range b.pools {
		for _, g := range p.gpus {
			if g.buffers == nil {
				continue
			}
			if err := g.buffers.Close(); err != nil {
				about(b.log.Warn(), g.info).Err(err).Msg("batch buffers")
			}
		}
	}
}

// Profiled is a model measured on a GPU.
type Profiled struct {
	*profiler.Result
	Key profiler.Key
	GPU cuda.Info
}

// ProfileGPU measures a model alone on the first GPU of a pool's configuration.
func ProfileGPU(ctx context.Context, c Config, cfg PoolConfig, m *repository.Model, o profiler.Options) (*Profiled, error) {
	h, err := openGPUs(c.GPUs, c.Logger)
	if err != nil {
		return nil, err
	}
	cfg.GPUs, cfg.Devices, cfg.Paged = cfg.GPUs[:min(1, len(cfg.GPUs))], 1, nil
	infos, err := chooseGPUs(h.infos, &cfg, nil)
	if err != nil {
		return nil, err
	}
	model := gpuModel(m, &cfg)
	g, refused, err := h.open(infos[0], &cfg, []cuda.Model{model})
	if len(refused) > 0 {
		return nil, refused[0]
	}
	if err != nil {
		return nil, err
	}
	defer g.device.Close()
	o.Ladder, o.Inputs = model.Sizes, m.Warmup
	r, err := profiler.Measure(ctx, g.device, 0, &m.Spec, o)
	if err != nil {
		return nil, err
	}
	kind := orElse(cfg.DeviceType, deviceType(infos[0].Name))
	return &Profiled{r, h.profileKey(m, g.device.Models()[0], infos[0], kind, c.ProfileDir), infos[0]}, nil
}
