package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/emugpu"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pool is the devices of one type and their models.
type pool struct {
	doc       catalog.Pool        // what the scheduler is told; of the models only a digest
	specs     []catalog.ModelSpec // Immutable once built
	documents documents           // that it may ask for
	models    []executor.Model
	devices   []executor.Device
	gpus      []*gpu // of kind cuda: the devices
	executors []*executor.Executor
}

// buildPool loads the pool's models and makes its devices.
func (b *Backend) buildPool(ctx context.Context, cfg PoolConfig, repo []repository.Model) (*pool, error) {
	var gpus []cuda.Info
	if cfg.Kind == KindCUDA {
		var err error
		if gpus, err = b.placeCUDA(&cfg); err != nil {
			return nil, fmt.Errorf("%s of kind cuda: %w", strings.TrimSpace("pool "+cfg.DeviceType), err)
		}
	}
	models, err := choose(cfg, repo)
	if err != nil {
		return nil, err
	}
	models = slices.DeleteFunc(models, func(m repository.Model) bool {
		err := checkLabels(&m.Spec)
		if err != nil {
			b.log.Error().Str("model", m.Spec.Key()).Err(err).Msg("not served")
		}
		return err != nil
	})
	p := &pool{doc: catalog.Pool{DeviceType: cfg.DeviceType, Devices: cfg.Devices}}
	switch cfg.Kind {
	case KindEmulated:
		err = p.emulate(b.clock, cfg, models)
	case KindCPU:
		err = b.loadCPU(ctx, p, cfg, models)
	case KindCUDA:
		err = b.loadCUDA(ctx, p, gpus, cfg, models)
	default:
		err = fmt.Errorf("pool %s: kind %q is none of %s, %s, %s", cfg.DeviceType, cfg.Kind, KindCPU, KindCUDA, KindEmulated)
	}
	if err == nil && len(p.specs) == 0 {
		err = fmt.Errorf("pool %s has no model that could be loaded", cfg.DeviceType)
	}
	if err == nil {
		if p.documents, p.doc.Models, err = newDocuments(p.specs); err != nil {
			err = fmt.Errorf("pool %s: %w", cfg.DeviceType, err)
		}
	}
	if err != nil {
		for _, d := range p.devices {
			d.Close()
		}
		return nil, err
	}
	for i := range p.specs {
		m := &p.specs[i]
		in, out := size(m.Inputs), size(m.Outputs)
		p.models = append(p.models, executor.Model{InputSize: in, InputMax: in, OutputSize: out, MaxBatch: m.MaxBatch})
	}
	p.makeBuffers(b.cfg.Network, b.cfg.Buffers)
	return p, nil
}

// choose picks the repository's models of the device type, and the zoo's.
func choose(cfg PoolConfig, repo []repository.Model) ([]repository.Model, error) {
	var out []repository.Model
	var errs []error
	for _, m := range repo {
		named := slices.Contains(cfg.Models, m.Spec.Name)
		of := m.DeviceType == cfg.DeviceType
		if cfg.Kind == KindCUDA { // the name of a GPU is no model's business
			of = of || named || m.DeviceType == KindCUDA
		}
		if of && (named || len(cfg.Models) == 0) {
			out = append(out, m)
		}
	}
	for _, name := range cfg.Models {
		if !slices.ContainsFunc(out, func(m repository.Model) bool { return m.Spec.Name == name }) {
			errs = append(errs, fmt.Errorf("pool %s: the repository has no model %q of this device type that could be read", cfg.DeviceType, name))
		}
	}
	for _, z := range cfg.Zoo {
		models, err := z.Load(cfg.DeviceType)
		out, errs = append(out, models...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

func size(specs []catalog.TensorSpec) int {
	n := int64(0)
	for _, s := range specs {
		n += s.ByteSize()
	}
	return int(n)
}

// emulate makes emulated devices.
func (p *pool) emulate(clock *emugpu.Clock, cfg PoolConfig, models []repository.Model) error {
	var profiles []*profile.Profile
	for _, m := range models {
		if m.Spec.Platform != repository.PlatformEmulated {
			return fmt.Errorf("pool %s: model %s is of platform %s; an emulated pool runs emulated models", cfg.DeviceType, m.Spec.Key(), m.Spec.Platform)
		}
		l, err := profile.FromDoc(m.Spec.Profile, m.Spec.MaxBatch)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Spec.Key(), err)
		}
		profiles = append(profiles, l)
		p.specs = append(p.specs, m.Spec)
	}
	for range cfg.Devices {
		p.devices = append(p.devices, clock.NewDevice(profiles, cfg.Jitter))
	}
	return nil
}

// loadCPU opens the models on every device and measures those without a
// profile. A model that fails is left out.
func (b *Backend) loadCPU(ctx context.Context, p *pool, cfg PoolConfig, models []repository.Model) error {
	if b.gpuHost == nil || onnx.Version() == "" { // else the one for GPUs is loaded, which serves CPUs, too
		if err := onnx.Load(b.cfg.ONNXRuntime); err != nil {
			return fmt.Errorf("pool %s: %w", cfg.DeviceType, err)
		}
	}
	b.log.Info().Str("version", onnx.Version()).Str("pool", cfg.DeviceType).Int("devices", cfg.Devices).Msg("ONNX Runtime on the CPU")
	sessions := make([][]*onnx.Session, cfg.Devices)
	for _, m := range models {
		if m.Spec.Platform != repository.PlatformONNX {
			b.log.Error().Str("model", m.Spec.Key()).Msg("not served: an emulated model needs a pool of kind emulated")
			continue
		}
		opened, err := openAll(m, cfg)
		if err != nil {
			b.log.Error().Str("model", m.Spec.Key()).Err(err).Msg("not served")
			continue
		}
		if m.Spec.Profile, err = b.profileOf(ctx, opened[0], &m, cfg); err != nil {
			b.log.Error().Str("model", m.Spec.Key()).Err(err).Msg("not served: it loads, but does not run")
			closeAll(opened)
			if ctx.Err() != nil {
				for _, s := range sessions {
					closeAll(s)
				}
				return ctx.Err()
			}
			continue
		}
		for i := range sessions {
			sessions[i] = append(sessions[i], opened[i])
		}
		p.specs = append(p.specs, m.Spec)
	}
	for i := range sessions {
		p.devices = append(p.devices, onnx.NewDevice(sessions[i]))
	}
	return nil
}

func closeAll(sessions []*onnx.Session) {
	for _, s := range sessions {
		s.Close()
	}
}

// openAll opens the model once per device.
func openAll(m repository.Model, cfg PoolConfig) ([]*onnx.Session, error) {
	var out []*onnx.Session
	for range cfg.Devices {
		s, err := onnx.Open(m.Path, &m.Spec, cfg.Threads)
		if err != nil {
			closeAll(out)
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// profileOf reads the model's profile, or measures it on a device of its own.
func (b *Backend) profileOf(ctx context.Context, s *onnx.Session, m *repository.Model, cfg PoolConfig) (catalog.Profile, error) {
	return b.profile(ProfileKey(m, cfg, b.cfg.ProfileDir), &m.Spec, cfg.DeviceType, nil, func(o profiler.Options) (*profiler.Result, error) {
		d := onnx.NewDevice([]*onnx.Session{s})
		defer d.Stop()
		return profiler.Measure(ctx, d, 0, &m.Spec, o)
	})
}

// profile reads a model's profile, or has it measured and keeps it.
func (b *Backend) profile(key profiler.Key, m *catalog.ModelSpec, deviceType string, ladder []int, measure func(profiler.Options) (*profiler.Result, error)) (catalog.Profile, error) {
	doc, err := profiler.Read(key)
	if err == nil {
		return doc, nil
	}
	b.logNoProfile(m.Key(), deviceType, err)
	o := b.cfg.Profiling
	o.Ladder = ladder
	if o.Budget == 0 {
		o.Budget = 1500 * mono.Millisecond // at start, briefly; `symphony profile` takes its time
	}
	r, err := measure(o)
	if err != nil {
		return catalog.Profile{}, err
	}
	path, err := profiler.Write(key, r)
	b.logProfile(m.Key(), r, path, err)
	return r.Profile.Doc(), nil
}

// logNoProfile says why a model is measured.
func (b *Backend) logNoProfile(model, deviceType string, err error) {
	event := b.log.Info().Str("model", model).Str("device_type", deviceType)
	var m *profiler.Mismatch
	switch {
	case errors.As(err, &m) && m.Stored == "":
		event.Str("field", m.Field).Str("here", m.Here).Msg("the stored profile does not say what it was measured on: measuring anew, briefly")
	case errors.As(err, &m):
		event.Str("field", m.Field).Str("stored", m.Stored).Str("here", m.Here).Msg("the stored profile was measured on something else: measuring anew, briefly")
	case errors.Is(err, os.ErrNotExist):
		event.Msg("no profile yet: measuring briefly")
	default:
		event.Err(err).Msg("the stored profile cannot be read: measuring anew, briefly")
	}
}

func (b *Backend) logProfile(model string, r *profiler.Result, path string, err error) {
	event := b.log.Info()
	if err != nil {
		event = b.log.Warn().AnErr("not_kept", err)
	}
	event.Str("model", model).Stringer("alpha", r.Line.Alpha).Stringer("beta", r.Line.Beta).Bool("line", r.IsLine()).Str("file", path).Msg("profile measured")
}

// ProfileKey is what a model's stored profile belongs to.
func ProfileKey(m *repository.Model, cfg PoolConfig, dir string) profiler.Key {
	return profiler.Key{ModelPath: m.Path, Dir: profileDir(m, dir), Version: m.Spec.Version, Runtime: "onnxruntime " + onnx.Version(),
		Device: cfg.DeviceType, Threads: max(1, cfg.Threads), MaxBatch: m.Spec.MaxBatch, Host: profiler.ThisHost()}
}

// profileDir is where a model's profiles lie: beside it, or below dir.
func profileDir(m *repository.Model, dir string) string {
	if dir == "" {
		return m.Dir
	}
	return filepath.Join(dir, m.Spec.Name)
}

// loadRepository reads the models and says which were left out.
func loadRepository(dir string, log zerolog.Logger) ([]repository.Model, error) {
	if dir == "" {
		return nil, nil
	}
	models, failed, err := repository.Load(dir)
	for _, f := range failed {
		log.Error().Err(f).Msg("not served")
	}
	return models, err
}
