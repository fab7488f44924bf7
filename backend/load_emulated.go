package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/backend/emugpu"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/scheduler/profile"
)

// emulatedLoader loads models on emulated devices.
type emulatedLoader struct {
	deviceType string
	devices    []*emugpu.Device
}

func (l *emulatedLoader) check(_ context.Context, m *repository.Model) error {
	if m.Spec.Platform != repository.PlatformEmulated {
		return fmt.Errorf("pool %s: model %s is of platform %s; an emulated pool runs emulated models", l.deviceType, m.Spec.Key(), m.Spec.Platform)
	}
	if _, err := profile.FromDoc(m.Spec.Profile, m.Spec.MaxBatch); err != nil {
		return fmt.Errorf("model %s: %w", m.Spec.Key(), err)
	}
	return nil
}

func (l *emulatedLoader) need(m *repository.Model) need { return need{m.Static, m.Dynamic} }

func (l *emulatedLoader) held(_, _ int, m *repository.Model) need { return l.need(m) }

// load takes as long as the model says.
func (l *emulatedLoader) load(ctx context.Context, device, slot int, m *repository.Model) (need, error) {
	lengths, err := profile.FromDoc(m.Spec.Profile, m.Spec.MaxBatch)
	if err != nil {
		return need{}, err
	}
	if m.LoadTime > 0 {
		t := time.NewTimer(m.LoadTime.Std())
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return need{}, ctx.Err()
		}
	}
	l.devices[device].Load(slot, lengths)
	return l.need(m), nil
}

func (l *emulatedLoader) unload(device, slot int) { l.devices[device].Unload(slot) }
