package backend

import (
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
)

// profileKey is what a profile of a model on the pool's devices belongs to.
func (s *stock) profileKey(m *repository.Model) profiler.Key {
	if len(s.p.gpus) > 0 {
		c := gpuModel(m, &s.p.cfg)
		return s.b.gpuHost.profileKey(m, &c, s.p.gpus[0].info, s.p.doc.DeviceType, s.b.cfg.ProfileDir)
	}
	return ProfileKey(m, s.p.cfg, s.b.cfg.ProfileDir)
}

// ladder are the batch sizes that the pool's devices run; nil: all.
func (p *pool) ladder(m *repository.Model) []int {
	if len(p.gpus) > 0 {
		return gpuModel(m, &p.cfg).Sizes
	}
	return nil
}
