package backend

import (
	"context"
	"path/filepath"

	"github.com/symphony-serving/symphony/backend/repository"
)

// cudaLoader loads ONNX models on GPUs, which count their memory themselves.
type cudaLoader struct {
	pool *pool
	host *gpuHost
}

func (l *cudaLoader) check(_ context.Context, m *repository.Model) error {
	if m.Spec.Platform != repository.PlatformONNX {
		return errNotEmulated
	}
	return nil
}

// need is what can be said without the GPU; loading says more.
func (l *cudaLoader) need(m *repository.Model) need {
	return need{static: folderBytes(filepath.Dir(m.Path))}
}

func (l *cudaLoader) held(device, slot int, _ *repository.Model) need {
	return need{static: l.pool.gpus[device].device.Held(slot)}
}

func (l *cudaLoader) load(ctx context.Context, device, slot int, m *repository.Model) (need, error) {
	g := l.pool.gpus[device]
	model := gpuModel(m, &l.pool.cfg)
	model.Memory, model.Busy = g.budget, func() bool { return l.pool.busy(device) }
	held, err := g.device.Load(ctx, slot, model)
	return need{static: held}, err
}

func (l *cudaLoader) unload(device, slot int) { l.pool.gpus[device].device.Unload(slot) }
