package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
)

var _ asider = (*pagedCUDALoader)(nil)

// Models of a paged pool of GPUs are weighed, and measured, on a GPU beside those that orders have loaded there. One at a time on a
// GPU, from its loading to its end, and in the memory that pages leave: so nothing that is ordered lacks a page for it, and models
// that come together do not lack room for each other.

// weighings are the GPUs' turns at that.
type weighings struct {
	mu    sync.Mutex // Guards what follows.
	busy  map[*gpu]bool
	freed chan struct{} // closed, and another one made, when one has ended
}

// take waits for the best of some GPUs that are not busy; leave gives it back.
func (w *weighings) take(ctx context.Context, from []*gpu, better func(a, b *gpu) int) (*gpu, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.mu.Lock()
		free := slices.DeleteFunc(slices.Clone(from), func(g *gpu) bool { return w.busy[g] })
		if len(free) > 0 {
			g := slices.MinFunc(free, better)
			w.busy[g] = true
			w.mu.Unlock()
			return g, nil
		}
		freed := w.freed
		w.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
}

func (w *weighings) leave(g *gpu) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, g)
	close(w.freed)
	w.freed = make(chan struct{})
}

// beside is a model that a GPU has beside those of its slots, until end.
type beside struct {
	*cuda.Aside
	gpu *gpu
	end func()
}

// bring loads a model on the one of some GPUs that has most room, when it is its turn there; a GPU that is lost is passed over.
// The model's file is read then, not before: of those that wait none has its file in memory for that.
func (l *pagedCUDALoader) bring(ctx context.Context, m *repository.Model, from []*gpu) (*beside, error) {
	for left := slices.Clone(from); ; {
		g, err := l.turns.take(ctx, left, l.roomier)
		if err != nil {
			return nil, err
		}
		b, err := l.bringTo(ctx, g, m)
		if err == nil {
			return b, nil
		}
		l.turns.leave(g)
		left = slices.DeleteFunc(left, func(o *gpu) bool { return o == g })
		if !errors.Is(err, cuda.ErrLost) || len(left) == 0 {
			return nil, err
		}
	}
}

// bringTo is bring for a GPU whose turn the caller has.
func (l *pagedCUDALoader) bringTo(ctx context.Context, g *gpu, m *repository.Model) (*beside, error) {
	file, err := l.hold(m)
	if err != nil {
		return nil, err
	}
	most, model := int64(0), l.model(g, m, file)
	if l.serves {
		at := slices.Index(l.pool.gpus, g)
		most, model.Busy = max(1, l.spare(g)), func() bool { return l.pool.busy(at) }
	}
	a, end, err := g.paged.Aside(ctx, model, most)
	if err != nil {
		l.drop(m.Path)
		return nil, err
	}
	return &beside{Aside: a, gpu: g, end: func() {
		end()
		l.drop(m.Path)
		l.turns.leave(g)
	}}, nil
}

// spare is what pages leave of the memory of a GPU.
func (l *pagedCUDALoader) spare(g *gpu) int64 {
	pages := l.pool.cfg.Paged
	return g.budget - pages.Page*int64(pages.Pages) // no overflow: the GPU has room for them (fitPages)
}

// roomier orders GPUs: first those that pages leave most of, and of equal ones those that hold least.
func (l *pagedCUDALoader) roomier(a, b *gpu) int {
	return cmp.Or(cmp.Compare(l.spare(b), l.spare(a)), cmp.Compare(a.device.Stats().Memory.Load(), b.device.Stats().Memory.Load()))
}

// working are the GPUs that are in service; all, where none is.
func (l *pagedCUDALoader) working() (works []*gpu) {
	s := l.pool.stock
	for k, g := range l.pool.gpus {
		if !s.b.service.heldBeside(place{s.index, k}, "") {
			works = append(works, g)
		}
	}
	if len(works) == 0 {
		return l.pool.gpus
	}
	return works
}

// quiet are those of them that are in no sub-cluster, if there are any: nothing runs there that a measurement would have to wait for.
func (l *pagedCUDALoader) quiet() (all []*gpu) {
	s, works := l.pool.stock, l.working()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, g := range l.pool.gpus {
		if s.devices[k].in == catalog.Nowhere && slices.Contains(works, g) {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return works
	}
	return all
}

// weigh says in a model's specification what it takes, loaded beside others.
func (l *pagedCUDALoader) weigh(m *repository.Model, b *beside) error {
	m.GPU.Graphs = string(b.Model.Graphs) // off, where graphs were tried in vain: not in each load
	return l.pool.weigh(m, b.Bytes, b.Took)
}

// check also says what the model takes: see weigh. The file stays in memory until forget: it is loaded from there.
func (l *pagedCUDALoader) check(ctx context.Context, m *repository.Model) error {
	if m.Spec.Platform != repository.PlatformONNX {
		return errNotEmulated
	}
	m.Spec.WeightsBytes = 0 // to be found out
	b, err := l.bring(ctx, m, l.working())
	if err != nil {
		return leaveRoom(err)
	}
	defer b.end()
	if err := l.weigh(m, b); err != nil {
		return err
	}
	_, err = l.hold(m)
	return err
}

// forget is the end of a model that check has found to be well.
func (l *pagedCUDALoader) forget(m *repository.Model) { l.drop(m.Path) }

// aside is a GPU with a model whose latencies are measured, beside those of its slots: no order has loaded it there.
func (l *pagedCUDALoader) aside(ctx context.Context, m *repository.Model) (*runner, error) {
	b, err := l.bring(ctx, m, l.quiet())
	if err != nil {
		return nil, leaveRoom(err)
	}
	at := slices.Index(l.pool.gpus, b.gpu)
	return &runner{device: b.gpu.device, slot: b.Slot, exec: l.pool.executors[at], end: b.end}, nil
}

// noRoom reports whether a model could not be measured for want of a GPU, or of its memory, which may be there later.
func (l *pagedCUDALoader) noRoom(err error) bool {
	return errors.Is(err, cuda.ErrMemory) || errors.Is(err, cuda.ErrLost)
}

// leaveRoom says what to do where a model has no room beside pages.
func leaveRoom(err error) error {
	if !errors.Is(err, cuda.ErrMemory) {
		return err
	}
	return fmt.Errorf("%w (a model that comes later is weighed and measured in the memory that pages leave: leave a GPU room for it with fewer pages: lower paged.pages, or memory where that says how many there are)", err)
}
