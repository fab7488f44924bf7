package backend

import (
	"context"
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
)

// pagedCPULoader gives the host's memory ONNX models, of which devices make sessions on demand. What a session takes is
// measured once for a model, with a session that is ended again.
type pagedCPULoader struct {
	pool    *pool
	devices []*onnx.Paged

	mu    sync.Mutex             // Guards what follows.
	blobs map[string]*sharedBlob // by path
}

// sharedBlob is a file that several devices make sessions of.
type sharedBlob struct {
	*onnx.Blob
	uses int // by devices' slots
}

// check also says what the model takes: see weigh.
func (l *pagedCPULoader) check(_ context.Context, m *repository.Model) error {
	b, s, err := l.measure(m)
	if s != nil {
		s.Close()
		b.Close()
	}
	return err
}

// measure opens a model once and weighs it. Both are the caller's to close; nil: it cannot be opened.
func (l *pagedCPULoader) measure(m *repository.Model) (*onnx.Blob, *onnx.Session, error) {
	if m.Spec.Platform != repository.PlatformONNX {
		return nil, nil, errNotEmulated
	}
	b, err := onnx.ReadBlob(m.Path, &m.Spec, l.pool.cfg.Threads, m.Warmup)
	if err != nil {
		return nil, nil, err
	}
	s, bytes, took, err := b.Measure()
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return b, s, l.pool.weigh(m, bytes, took)
}

// need: sessions are counted in pages; files in the host's memory are not.
func (l *pagedCPULoader) need(*repository.Model) need { return need{} }

func (l *pagedCPULoader) held(_, _ int, _ *repository.Model) need { return need{} }

func (l *pagedCPULoader) load(_ context.Context, device, slot int, m *repository.Model) (need, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.blobs[m.Path]
	if b == nil {
		read, err := onnx.ReadBlob(m.Path, &m.Spec, l.pool.cfg.Threads, m.Warmup)
		if err != nil {
			return need{}, err
		}
		b = l.keep(m, read)
	}
	b.uses++
	l.devices[device].Put(slot, b.Blob)
	return need{}, nil
}

// keep has devices make sessions of a file that was read, until the last of them has left. Caller holds mu, or nobody else is there yet.
func (l *pagedCPULoader) keep(m *repository.Model, read *onnx.Blob) *sharedBlob {
	b := &sharedBlob{Blob: read}
	l.blobs[m.Path] = b
	return b
}

func (l *pagedCPULoader) unload(device, slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.devices[device].Take(slot)
	for path, s := range l.blobs {
		if s.Blob == b {
			if s.uses--; s.uses == 0 {
				delete(l.blobs, path)
			}
		}
	}
}

// aside is a device of its own for a model whose latencies are measured: no order has loaded it on any.
func (l *pagedCPULoader) aside(ctx context.Context, m *repository.Model) (*runner, error) {
	b, err := onnx.ReadBlob(m.Path, &m.Spec, l.pool.cfg.Threads, m.Warmup)
	if err != nil {
		return nil, err
	}
	defer b.Close() // once the session is closed
	s, err := b.Open()
	if err != nil {
		return nil, err
	}
	return besideOn(ctx, s, l.pool.cfg.Threads, s.Close)
}

// noRoom: the host's memory is not counted.
func (l *pagedCPULoader) noRoom(error) bool { return false }

var _ asider = (*pagedCPULoader)(nil)

// loadPagedCPU makes devices of this host's processors that load on demand. Models are weighed, and those without a profile
// measured, one after the other; one that fails is left out.
func (b *Backend) loadPagedCPU(ctx context.Context, p *pool, cfg PoolConfig, models []repository.Model) error {
	if err := b.openONNX(cfg); err != nil {
		return err
	}
	l := &pagedCPULoader{pool: p, blobs: map[string]*sharedBlob{}}
	p.loader = l
	for range cfg.Devices {
		d, err := onnx.NewPaged(cfg.Paged.Pages, cfg.Paged.Page)
		if err != nil {
			return err
		}
		p.devices, l.devices = append(p.devices, d), append(l.devices, d)
	}
	for _, m := range models {
		unmeasured := m
		blob, s, err := l.measure(&m)
		if err == nil {
			if m.Spec.Profile, err = b.profileOf(ctx, s, &m, cfg); err != nil {
				err = fmt.Errorf("it loads, but its profile cannot be made: %w", err)
			}
		}
		if s != nil {
			s.Close()
		}
		if err == nil {
			l.keep(&m, blob)
		} else if blob != nil {
			blob.Close()
		}
		for d := range l.devices {
			if err == nil {
				_, err = l.load(ctx, d, len(p.specs), &m)
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			b.refuse(p, unmeasured, err)
		default:
			p.serve(m)
			b.tellWeighed(p, &m)
		}
	}
	return nil
}
