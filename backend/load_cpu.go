package backend

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
)

// cpuLoader loads ONNX models on devices of this host's processors.
type cpuLoader struct {
	cfg     PoolConfig
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
	l.one.Lock()
	defer l.one.Unlock()
	if err := ctx.Err(); err != nil {
		return need{}, err
	}
	s, err := onnx.OpenLater(m.Path, &m.Spec, l.cfg.Threads)
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

func (l *cpuLoader) unload(device, slot int) {
	if s := l.devices[device].Unload(slot); s != nil {
		s.Close()
	}
}

// folderBytes is what a folder's files have, those of folders below it among them. What cannot be read loading tells of.
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
