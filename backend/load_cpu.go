package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/mono"
)

// cpuLoader loads ONNX models on devices of this host's processors.
type cpuLoader struct {
	cfg     PoolConfig
	log     zerolog.Logger
	devices []*onnx.Device

	one sync.Mutex // Held while a session is made: it takes a processor, which others serve with.
}

var errNotEmulated = errors.New("an emulated model needs a pool of kind emulated")

func (l *cpuLoader) check(_ context.Context, m *repository.Model) error {
	if m.Spec.Platform != repository.PlatformONNX {
		return errNotEmulated
	}
	return nil
}

// need: a session holds the files' weights, and the buffers of the largest batch.
func (l *cpuLoader) need(m *repository.Model) need {
	return need{static: folderBytes(filepath.Dir(m.Path)), dynamic: int64(m.Spec.MaxBatch) * int64(size(m.Spec.Inputs)+size(m.Spec.Outputs))}
}

func (l *cpuLoader) held(_, _ int, m *repository.Model) need { return l.need(m) }

func (l *cpuLoader) load(ctx context.Context, device, slot int, m *repository.Model) (need, error) {
	s, err := l.open(ctx, m)
	if err == nil {
		err = l.warm(ctx, s, m)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = l.devices[device].Load(slot, s)
	}
	if err != nil {
		if s != nil {
			s.Close()
		}
		return need{}, err
	}
	return l.need(m), nil
}

// open makes a session, when no other is being made.
func (l *cpuLoader) open(ctx context.Context, m *repository.Model) (*onnx.Session, error) {
	l.one.Lock()
	defer l.one.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return onnx.OpenLater(m.Path, &m.Spec, l.cfg.Threads)
}

// Bounds of the runs that warm a model up while others serve.
const (
	warmMost    = 2 * mono.Second        // of one run: a longer one is cut off, and first requests are slower
	warmEnds    = 30 * time.Second       // in which the node ends that runs when the run is cut off
	warmLargest = 200 * mono.Millisecond // of the largest batch, as estimated from one item's run; a longer one is left out
)

// warm runs a model that has been loaded, beside its device: a batch of 1, and the largest one if
// that takes little. A model that fails at it is loaded all the same, as at the start: requests
// may have inputs that it takes. But a model whose run does not end is not loaded: the run has the session's memory.
func (l *cpuLoader) warm(ctx context.Context, s *onnx.Session, m *repository.Model) error {
	d, err := onnx.NewBeside(ctx, s, l.cfg.Threads, false)
	if err != nil {
		return err
	}
	l.warmOn(ctx, d, m)
	d.Close()
	late := time.NewTimer(warmEnds)
	defer late.Stop()
	select {
	case <-d.Ended():
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("its warm-up run has not ended %v after it was to", warmEnds)
	}
}

func (l *cpuLoader) warmOn(ctx context.Context, d *onnx.Beside, m *repository.Model) {
	o := profiler.Options{Inputs: m.Warmup, Hang: warmMost}
	length, err := profiler.Warm(ctx, d, 0, &m.Spec, o, 1)
	if most := mono.Dur(m.Spec.MaxBatch); err == nil && most > 1 && length*most <= warmLargest {
		_, err = profiler.Warm(ctx, d, 0, &m.Spec, o, m.Spec.MaxBatch)
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, profiler.ErrHang):
		l.log.Info().Str("pool", l.cfg.DeviceType).Str("model", m.Spec.Key()).Stringer("after", warmMost).Msg("its warm-up run was ended: it takes long")
	default:
		l.log.Warn().Str("pool", l.cfg.DeviceType).Str("model", m.Spec.Key()).Err(err).Msg("it is loaded, but could not be warmed up")
	}
}

// beside measures a model that a device has with the session that will serve, on a thread of its
// own. One that is served has a further session for that, which ends with the measuring.
func (l *cpuLoader) beside(ctx context.Context, device, slot int, m *repository.Model, serves bool) (*runner, error) {
	if !serves {
		if s := l.devices[device].Session(slot); s != nil {
			return besideOn(ctx, s, l.cfg.Threads, func() {})
		}
		return nil, fmt.Errorf("model %s was unloaded", m.Spec.Key())
	}
	s, err := l.open(ctx, m)
	if err != nil {
		return nil, err
	}
	return besideOn(ctx, s, l.cfg.Threads, s.Close)
}

// besideOn is a runner on a session; end comes when it is done.
func besideOn(ctx context.Context, s *onnx.Session, threads int, end func()) (*runner, error) {
	waits, cancel := context.WithTimeout(ctx, leaseMost)
	defer cancel()
	d, err := onnx.NewBeside(waits, s, threads, false)
	if err != nil {
		end()
		return nil, err
	}
	return &runner{device: d, end: func() {
		d.Close()
		end()
	}}, nil
}

// leaseMost is how long a measurement waits for a run of the same session that was given up.
const leaseMost = 5 * time.Second

func (l *cpuLoader) unload(device, slot int) {
	if s := l.devices[device].Unload(slot); s != nil {
		s.Close()
	}
}

// folderBytes is what a folder's files have, those of folders below it among them. Files that cannot be read do not
// count: loading the model reports them.
func folderBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
