package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
)

// pagedCUDALoader gives the host's memory ONNX models, which GPUs load on demand. What one takes is what a GPU holds of it,
// loaded once and unloaded again; GPUs count their memory themselves, so that a model that takes more later is refused there.
type pagedCUDALoader struct {
	pool *pool

	mu    sync.Mutex             // Guards what follows.
	files map[string]*sharedFile // by path
}

// sharedFile is a file of which several GPUs make programs.
type sharedFile struct {
	*cuda.File
	uses int // by GPUs' slots
}

// check also says what the model takes: see weigh.
func (l *pagedCUDALoader) check(m *repository.Model) error {
	if m.Spec.Platform != repository.PlatformONNX {
		return errNotEmulated
	}
	_, err := l.measure(l.pool.stock.ctx, m, l.emptiest(), func(*gpu, *cuda.Aside) error { return nil })
	switch {
	case errors.Is(err, cuda.ErrMemory):
		return fmt.Errorf("%w (a model that comes later is weighed beside those that are loaded: leave a GPU room for it with fewer pages)", err)
	case err != nil:
		return err
	}
	return nil
}

// measure loads a model on the first of some GPUs that is not lost, and weighs it; more is done with it while it is there. The file
// is as it was read for that.
func (l *pagedCUDALoader) measure(ctx context.Context, m *repository.Model, gpus []*gpu, more func(*gpu, *cuda.Aside) error) (*cuda.File, error) {
	file, err := l.read(m)
	if err != nil {
		return nil, err
	}
	for _, g := range gpus {
		if err = l.measureOn(ctx, g, m, file, more); !errors.Is(err, cuda.ErrLost) {
			break
		}
	}
	return file, err
}

// emptiest are the GPUs, the one that has most room first.
func (l *pagedCUDALoader) emptiest() []*gpu {
	held := func(g *gpu) int64 { return g.device.Stats().Memory.Load() - g.budget }
	all := slices.Clone(l.pool.gpus)
	slices.SortStableFunc(all, func(a, b *gpu) int { return cmp.Compare(held(a), held(b)) })
	return all
}

func (l *pagedCUDALoader) measureOn(ctx context.Context, g *gpu, m *repository.Model, file *cuda.File, more func(*gpu, *cuda.Aside) error) error {
	model := l.model(g, m, file)
	if err := g.warmUp(ctx, model); err != nil {
		return err
	}
	a, end, err := g.paged.Aside(ctx, model)
	if err != nil {
		return err
	}
	defer end()
	m.GPU.Graphs = string(a.Model.Graphs) // off, where graphs were tried in vain: not in each load
	if err := l.pool.weigh(m, a.Bytes, a.Took); err != nil {
		return err
	}
	return more(g, a)
}

// warmUp has a GPU load its first model once for nothing: what stays of that, such as kernels of the libraries, is no model's weight.
func (g *gpu) warmUp(ctx context.Context, m cuda.Model) error {
	g.warming.Lock()
	defer g.warming.Unlock()
	if g.warm {
		return nil
	}
	_, end, err := g.paged.Aside(ctx, m)
	if err == nil {
		end()
		g.warm = true
	}
	return err
}

// model is one as a GPU loads it.
func (l *pagedCUDALoader) model(g *gpu, m *repository.Model, file *cuda.File) cuda.Model {
	c := gpuModel(m, &l.pool.cfg)
	c.Memory, c.File = g.budget, file
	return c
}

// read has a model's file in the host's memory; nil: its provider wants the path.
func (l *pagedCUDALoader) read(m *repository.Model) (*cuda.File, error) {
	if gpuModel(m, &l.pool.cfg).Provider == cuda.ProviderTensorRT {
		return nil, nil
	}
	return cuda.ReadFile(m.Path)
}

// need: weights are counted in pages; files in the host's memory are not.
func (l *pagedCUDALoader) need(*repository.Model) need { return need{} }

func (l *pagedCUDALoader) held(_, _ int, _ *repository.Model) need { return need{} }

func (l *pagedCUDALoader) load(_ context.Context, device, slot int, m *repository.Model) (need, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[m.Path]
	if f == nil {
		read, err := l.read(m)
		if err != nil {
			return need{}, err
		}
		f = l.keep(m, read)
	}
	f.uses++
	g := l.pool.gpus[device]
	g.paged.Put(slot, l.model(g, m, f.File))
	return need{}, nil
}

// keep has GPUs make programs of a file that was read, until the last of them has left. Caller holds mu, or nobody else is there yet.
func (l *pagedCUDALoader) keep(m *repository.Model, read *cuda.File) *sharedFile {
	f := &sharedFile{File: read}
	l.files[m.Path] = f
	return f
}

func (l *pagedCUDALoader) unload(device, slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.pool.gpus[device].paged.Take(slot)
	if m == nil {
		return
	}
	if f := l.files[m.Path]; f != nil {
		if f.uses--; f.uses == 0 {
			delete(l.files, m.Path)
		}
	}
}

// aside is a GPU with a model whose latencies are measured, beside those of its slots: no order has loaded it there.
func (l *pagedCUDALoader) aside(ctx context.Context, m *repository.Model, device int) (executor.Device, int, func(), error) {
	file, err := l.read(m)
	if err != nil {
		return nil, 0, nil, err
	}
	g := l.pool.gpus[device]
	a, end, err := g.paged.Aside(ctx, l.model(g, m, file))
	if err != nil {
		return nil, 0, nil, err
	}
	return g.device, a.Slot, end, nil
}

// loadPagedCUDA makes GPUs that load on demand. Models are weighed on the first one, and those without a profile measured, one after
// the other; one that fails is left out.
func (b *Backend) loadPagedCUDA(ctx context.Context, p *pool, infos []cuda.Info, cfg PoolConfig, models []repository.Model) error {
	l := &pagedCUDALoader{pool: p, files: map[string]*sharedFile{}}
	p.loader = l
	models, err := b.modelsOfGPUs(p, cfg, models)
	if err != nil {
		return err
	}
	if err := b.openAll(ctx, p, infos, &cfg, nil, nil); err != nil {
		return err
	}
	for _, m := range models {
		unmeasured := m
		file, err := l.measure(ctx, &m, p.gpus[:1], func(g *gpu, a *cuda.Aside) error { return b.profileAside(ctx, g, a, &m, cfg) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cuda.ErrLost):
			return fmt.Errorf("pool %s: model %s: %w", cfg.DeviceType, m.Spec.Key(), err)
		case err != nil:
			b.refuse(p, unmeasured, err)
			continue
		}
		l.keep(&m, file)
		for d := range p.gpus {
			if _, err := l.load(ctx, d, len(p.specs), &m); err != nil {
				return fmt.Errorf("model %s: %w", m.Spec.Key(), err)
			}
		}
		p.serve(m)
		b.tellWeighed(p, &m)
	}
	b.tellGPUs(p)
	return nil
}

// profileAside reads the profile of a model that a GPU has, or measures it there.
func (b *Backend) profileAside(ctx context.Context, g *gpu, a *cuda.Aside, m *repository.Model, cfg PoolConfig) (err error) {
	key := b.gpuHost.profileKey(m, a.Model, g.info, cfg.DeviceType, b.cfg.ProfileDir)
	m.Spec.Profile, err = b.profile(key, &m.Spec, cfg.DeviceType, a.Model.Sizes, func(o profiler.Options) (*profiler.Result, error) {
		return profiler.Measure(ctx, g.device, a.Slot, &m.Spec, o)
	})
	if err != nil {
		return fmt.Errorf("it loads, but its profile cannot be made: %w", err)
	}
	return nil
}
