package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
)

// pagedCUDALoader gives the host's memory ONNX models, which GPUs load on demand. What one takes is what a GPU holds of it,
// loaded once and unloaded again; GPUs count their memory themselves, so that a model that takes more later is refused there.
type pagedCUDALoader struct {
	pool   *pool
	turns  weighings
	serves bool // pages are ordered: what is beside them has what they leave. Immutable from then on

	mu    sync.Mutex             // Guards what follows.
	files map[string]*sharedFile // by path
}

// sharedFile is a file of which several GPUs make programs.
type sharedFile struct {
	*cuda.File
	uses int // by GPUs' slots, and by models while they are weighed, measured or kept
}

// model is one as a GPU loads it.
func (l *pagedCUDALoader) model(g *gpu, m *repository.Model, file *cuda.File) cuda.Model {
	c := gpuModel(m, &l.pool.cfg)
	c.Memory, c.File, c.Weighed = g.budget, file, m.Spec.WeightsBytes
	return c
}

// read has a model's file in the host's memory; nil: its provider wants the path.
func (l *pagedCUDALoader) read(m *repository.Model) (*cuda.File, error) {
	if gpuModel(m, &l.pool.cfg).Provider == cuda.ProviderTensorRT {
		return nil, nil
	}
	return cuda.ReadFile(m.Path)
}

// hold is a use of a model's file, which is read if nobody uses it yet; drop ends it.
func (l *pagedCUDALoader) hold(m *repository.Model) (*cuda.File, error) {
	if f, ok := l.use(m, nil); ok {
		return f, nil
	}
	read, err := l.read(m) // without the lock: it may take seconds
	if err != nil {
		return nil, err
	}
	f, _ := l.use(m, &sharedFile{File: read})
	return f, nil
}

// use counts a use of a file that is there, or of one that was read just now, if nobody was quicker.
func (l *pagedCUDALoader) use(m *repository.Model, read *sharedFile) (*cuda.File, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[m.Path]
	switch {
	case f == nil && read == nil:
		return nil, false
	case f == nil:
		f = read
		l.files[m.Path] = f
	case read != nil:
		read.Close()
	}
	f.uses++
	return f.File, true
}

func (l *pagedCUDALoader) drop(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[path]
	if f.uses--; f.uses == 0 {
		delete(l.files, path)
		f.Close()
	}
}

// need: weights are counted in pages; files in the host's memory are not.
func (l *pagedCUDALoader) need(*repository.Model) need { return need{} }

func (l *pagedCUDALoader) held(_, _ int, _ *repository.Model) need { return need{} }

func (l *pagedCUDALoader) load(_ context.Context, device, slot int, m *repository.Model) (need, error) {
	f, err := l.hold(m)
	if err != nil {
		return need{}, err
	}
	g := l.pool.gpus[device]
	g.paged.Put(slot, l.model(g, m, f))
	return need{}, nil
}

func (l *pagedCUDALoader) unload(device, slot int) {
	if m := l.pool.gpus[device].paged.Take(slot); m != nil {
		l.drop(m.Path)
	}
}

// loadPagedCUDA makes GPUs that load on demand. Models are weighed on the first one, and those without a profile measured, one after
// the other; one that fails is left out. The other GPUs have one of them once, for nothing.
func (b *Backend) loadPagedCUDA(ctx context.Context, p *pool, infos []cuda.Info, cfg PoolConfig, models []repository.Model) error {
	l := &pagedCUDALoader{pool: p, turns: weighings{busy: map[*gpu]bool{}, freed: make(chan struct{})}, files: map[string]*sharedFile{}}
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
		err := b.takeIn(ctx, l, &m, cfg)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cuda.ErrLost):
			return fmt.Errorf("pool %s: model %s: %w", cfg.DeviceType, m.Spec.Key(), err)
		case err != nil:
			b.refuse(p, unmeasured, err)
			continue
		}
		p.serve(m)
		b.tellWeighed(p, &m)
	}
	if err := b.warmOthers(ctx, p); err != nil {
		return err
	}
	l.serves = true
	b.tellGPUs(p)
	return nil
}

// takeIn weighs and measures a model on the first GPU, and has the host keep it for all of them, in the next slot.
func (b *Backend) takeIn(ctx context.Context, l *pagedCUDALoader, m *repository.Model, cfg PoolConfig) error {
	m.Spec.WeightsBytes = 0 // to be found out
	a, err := l.bring(ctx, m, l.pool.gpus[:1])
	if err != nil {
		return err
	}
	defer a.end()
	if err := l.weigh(m, a); err != nil {
		return err
	}
	if err := b.profileAside(ctx, a.gpu, a.Aside, m, cfg); err != nil {
		return err
	}
	for d := range l.pool.gpus {
		if _, err := l.load(ctx, d, len(l.pool.specs), m); err != nil {
			return err
		}
	}
	return nil
}

// warmOthers has the GPUs on which nothing was weighed load the first model once, all at a time, so that what is ordered first does not
// take twice as long. One that is lost by that ends the start: nobody would bring it back yet.
func (b *Backend) warmOthers(ctx context.Context, p *pool) error {
	errs := make([]error, len(p.gpus))
	var all sync.WaitGroup
	for k, g := range p.gpus[1:] {
		all.Go(func() { errs[k] = g.paged.Warm(ctx, 0) })
	}
	all.Wait()
	for _, err := range errs {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, cuda.ErrLost):
			return fmt.Errorf("pool %s: %w", p.cfg.DeviceType, err)
		case err != nil:
			b.log.Warn().Str("pool", p.cfg.DeviceType).Err(err).Msg("a GPU is not warm yet")
		}
	}
	return nil
}

// profileAside reads the profile of a model that a GPU has, or measures it there.
func (b *Backend) profileAside(ctx context.Context, g *gpu, a *cuda.Aside, m *repository.Model, cfg PoolConfig) (err error) {
	key := b.gpuHost.profileKey(m, a.Model, g.info, cfg.DeviceType, b.cfg.ProfileDir)
	m.Spec.Profile, err = b.profile(key, m, cfg.DeviceType, a.Model.Sizes, func(o profiler.Options) (*profiler.Result, error) {
		return profiler.Measure(ctx, g.device, a.Slot, &m.Spec, o)
	})
	if err != nil {
		return fmt.Errorf("it loads, but its profile cannot be made: %w", err)
	}
	return nil
}
