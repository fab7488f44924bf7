package backend

import (
	"context"
	"fmt"

	"github.com/symphony-serving/symphony/backend/emugpu"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pagedEmulatedLoader gives the host of emulated devices models, which the devices load on demand.
type pagedEmulatedLoader struct {
	pool    *pool
	devices []*emugpu.Paged
}

// check also says what the model takes: see weigh.
func (l *pagedEmulatedLoader) check(ctx context.Context, m *repository.Model) error {
	if err := (&emulatedLoader{deviceType: l.pool.cfg.DeviceType}).check(ctx, m); err != nil {
		return err
	}
	load := m.LoadTime
	if load == 0 {
		bandwidth := l.pool.cfg.Paged.Bandwidth
		if bandwidth == 0 {
			bandwidth = BandwidthDefault
		}
		load = mono.Dur(float64(m.Static) / float64(bandwidth) * float64(mono.Second))
	}
	return l.pool.weigh(m, m.Static, load)
}

// need: the host's memory is not counted, and weights are by pages.
func (l *pagedEmulatedLoader) need(*repository.Model) need { return need{} }

func (l *pagedEmulatedLoader) held(_, _ int, _ *repository.Model) need { return need{} }

func (l *pagedEmulatedLoader) load(_ context.Context, device, slot int, m *repository.Model) (need, error) {
	lengths, err := profile.FromDoc(m.Spec.Profile, m.Spec.MaxBatch)
	if err != nil {
		return need{}, err
	}
	l.devices[device].Put(slot, emugpu.Model{Profile: lengths, Bytes: m.Spec.WeightsBytes, Copy: m.Spec.LoadTime})
	return need{}, nil
}

func (l *pagedEmulatedLoader) unload(device, slot int) { l.devices[device].Drop(slot) }

// emulatePaged makes emulated devices that load on demand.
func (b *Backend) emulatePaged(p *pool, cfg PoolConfig, models []repository.Model) error {
	l := &pagedEmulatedLoader{pool: p}
	p.loader = l
	for range cfg.Devices {
		d := b.clock.NewPaged(emugpu.Memory{Pages: cfg.Paged.Pages, Shared: cfg.Paged.Shared}, cfg.Jitter)
		p.devices, l.devices = append(p.devices, d), append(l.devices, d)
	}
	for _, m := range models {
		if err := l.check(context.Background(), &m); err != nil {
			b.refuse(p, m, err)
			continue
		}
		for d := range l.devices {
			if _, err := l.load(context.Background(), d, len(p.specs), &m); err != nil {
				return fmt.Errorf("model %s: %w", m.Spec.Key(), err)
			}
		}
		p.serve(m)
	}
	return nil
}
