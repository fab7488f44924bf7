package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pool is the devices of one type and their models.
type pool struct {
	cfg       PoolConfig
	doc       catalog.Pool                // what the scheduler is told; of the models only a digest
	specs     []catalog.ModelSpec         // that it was built with, in the first slots; immutable once built
	built     []repository.Model          // likewise
	models    []executor.Model            // likewise
	refused   []refusal                   // that it was to be built with
	copies    map[string]func()           // by folder: end the snapshots that built ones are loaded from
	documents []atomic.Pointer[documents] // by scheduler of the group
	loader    loader
	devices   []executor.Device
	gpus      []*gpu // of kind cuda: the devices
	executors []*executor.Executor
	stock     *stock
	crowd     crowd

	served   atomic.Pointer[[]*catalog.ModelSpec] // by slot, for who tells of them; nil: none is there
	counters atomic.Pointer[[]*modelCounters]     // likewise
}

// refusal is a model that cannot be served now.
type refusal struct {
	model repository.Model
	err   error
}

// refuse leaves a model out, and says so.
func (b *Backend) refuse(p *pool, m repository.Model, err error) {
	err = m.Explain(err)
	if end := p.copies[m.Files]; end != nil { // it is read again when it is tried again
		end()
		delete(p.copies, m.Files)
	}
	p.refused = append(p.refused, refusal{m, err})
}

// serve takes a model in that all devices have in their next slot.
func (p *pool) serve(m repository.Model) {
	p.specs, p.built = append(p.specs, served(&m, &catalog.Source{})), append(p.built, m)
}

// spec is that of a slot's model; nil: there is none.
func (p *pool) spec(slot int) *catalog.ModelSpec {
	if all := p.served.Load(); all != nil && slot >= 0 && slot < len(*all) {
		return (*all)[slot]
	}
	return nil
}

// setSpec says what a slot has. Caller holds the stock's mu, or is alone.
func (p *pool) setSpec(slot int, spec *catalog.ModelSpec) {
	var all []*catalog.ModelSpec
	if old := p.served.Load(); old != nil {
		all = append(all, *old...)
	}
	for len(all) <= slot {
		all = append(all, nil)
	}
	all[slot] = spec
	p.served.Store(&all)
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
	var refused []refusal
	models = slices.DeleteFunc(models, func(m repository.Model) bool {
		err := checkLabels(&m.Spec)
		if err == nil {
			err = b.checkOutputs(&m.Spec)
		}
		if err != nil {
			refused = append(refused, refusal{m, err})
		}
		return err != nil
	})
	if err := b.page(&cfg, models); err != nil { // by what is served
		return nil, err
	}
	p := &pool{cfg: cfg, refused: refused, documents: make([]atomic.Pointer[documents], len(b.uplinks)), doc: catalog.Pool{DeviceType: cfg.DeviceType, Devices: cfg.Devices, Memory: cfg.Memory, Runtime: true, Measures: cfg.Kind != KindEmulated, Paged: cfg.paging(), CannotPage: cfg.cannotPage(), Strict: cfg.Strict}}
	if models, err = b.takeCopies(ctx, p, models); err == nil {
		err = b.load(ctx, p, gpus, cfg, models)
	}
	if err == nil && len(p.specs) == 0 && !b.cfg.mayBeEmpty() {
		err = errors.Join(p.reasons()...)
		if err == nil {
			err = errors.New("there is none: give a folder of models (backend.repository), or one for files of models that the control plane orders (backend.cache)")
		}
		err = fmt.Errorf("pool %s has no model that could be loaded: %w", cfg.DeviceType, err)
	}
	if err == nil {
		if _, _, err = newDocuments(p.specs); err != nil {
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
		p.models = append(p.models, p.execModel(&p.specs[i]))
		p.setSpec(i, &p.specs[i])
	}
	p.makeBuffers(b.cfg.Network, b.cfg.Buffers)
	return p, nil
}

// load makes the pool's devices, with the models that they take.
func (b *Backend) load(ctx context.Context, p *pool, gpus []cuda.Info, cfg PoolConfig, models []repository.Model) error {
	paged := cfg.Paged != nil
	switch {
	case cfg.Kind == KindEmulated && paged:
		return b.emulatePaged(p, cfg, models)
	case cfg.Kind == KindEmulated:
		return b.emulate(p, cfg, models)
	case cfg.Kind == KindCPU && paged:
		return b.loadPagedCPU(ctx, p, cfg, models)
	case cfg.Kind == KindCPU:
		return b.loadCPU(ctx, p, cfg, models)
	case cfg.Kind == KindCUDA && paged:
		return b.loadPagedCUDA(ctx, p, gpus, cfg, models)
	case cfg.Kind == KindCUDA:
		return b.loadCUDA(ctx, p, gpus, cfg, models)
	}
	return fmt.Errorf("pool %s: kind %q is none of %s, %s, %s", cfg.DeviceType, cfg.Kind, KindCPU, KindCUDA, KindEmulated)
}

// executorOf is the executor of device k of pool i.
func (b *Backend) executorOf(p *pool, d executor.Device, i, k int, memory transport.Allocator) *executor.Executor {
	e := executor.New(d, p.models, nil, p.memory(k, memory), b, b.observer(i, k))
	e.SendBy(b.outputs)
	if p.doc.Strict {
		e.Strict()
	}
	return e
}

// choose picks the repository's models of the device type, and the zoo's.
func choose(cfg PoolConfig, repo []repository.Model) ([]repository.Model, error) {
	var out []repository.Model
	var errs []error
	for _, m := range repo {
		if cfg.takes(&m) {
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

// takes reports whether a model of the repository is for the pool.
func (cfg *PoolConfig) takes(m *repository.Model) bool {
	named := slices.Contains(cfg.Models, m.Spec.Name)
	of := m.DeviceType == cfg.DeviceType
	if cfg.Kind == KindCUDA { // the name of a GPU is no model's business
		of = of || named || m.DeviceType == KindCUDA
	}
	return of && (named || len(cfg.Models) == 0)
}

func size(specs []catalog.TensorSpec) int {
	n := int64(0)
	for _, s := range specs {
		n += s.ByteSize()
	}
	return int(n)
}

// reasons are why models are not served.
func (p *pool) reasons() (all []error) {
	for _, r := range p.refused {
		all = append(all, fmt.Errorf("model %s: %w", r.model.Spec.Key(), r.err))
	}
	return all
}

// room leaves out what does not fit beside the models before it.
func (p *pool) room(used *need, n need) error {
	most := p.cfg.Memory
	if want := used.static + n.static + max(used.dynamic, n.dynamic); most > 0 && want > most {
		free := most - used.static - used.dynamic
		return roomError(n.static+max(0, n.dynamic-used.dynamic), free, most)
	}
	used.static += n.static
	used.dynamic = max(used.dynamic, n.dynamic)
	return nil
}

// emulate makes emulated devices.
func (b *Backend) emulate(p *pool, cfg PoolConfig, models []repository.Model) error {
	l := &emulatedLoader{deviceType: cfg.DeviceType}
	p.loader = l
	var profiles []*profile.Profile
	var used need
	for _, m := range models {
		err := l.check(context.Background(), &m)
		if err == nil {
			err = p.room(&used, l.need(&m))
		}
		if err != nil {
			b.refuse(p, m, err)
			continue
		}
		lengths, err := profile.FromDoc(m.Spec.Profile, m.Spec.MaxBatch)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Spec.Key(), err)
		}
		profiles = append(profiles, lengths)
		p.serve(m)
	}
	for range cfg.Devices {
		d := b.clock.NewDevice(profiles, cfg.Jitter)
		p.devices, l.devices = append(p.devices, d), append(l.devices, d)
	}
	return nil
}

// loadCPU opens the models on every device and measures those without a
// profile. A model that fails is left out.
func (b *Backend) loadCPU(ctx context.Context, p *pool, cfg PoolConfig, models []repository.Model) error {
	if err := b.openONNX(cfg); err != nil {
		return err
	}
	l := &cpuLoader{cfg: cfg, log: b.log}
	p.loader = l
	sessions := make([][]*onnx.Session, cfg.Devices)
	var used need
	for _, m := range models {
		err := l.check(context.Background(), &m)
		if err == nil {
			err = p.room(&used, l.need(&m))
		}
		var opened []*onnx.Session
		if err == nil {
			opened, err = openAll(m, cfg)
		}
		if err != nil {
			b.refuse(p, m, err)
			continue
		}
		unmeasured := m
		if m.Spec.Profile, err = b.profileOf(ctx, opened[0], &m, cfg); err != nil {
			b.refuse(p, unmeasured, fmt.Errorf("it loads, but its profile cannot be made: %w", err))
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
		p.serve(m)
	}
	for i := range sessions {
		d := onnx.NewDevice(sessions[i])
		p.devices, l.devices = append(p.devices, d), append(l.devices, d)
	}
	return nil
}

// openONNX loads ONNX Runtime, if it is not there yet.
func (b *Backend) openONNX(cfg PoolConfig) error {
	if b.gpuHost == nil || onnx.Version() == "" { // else the one for GPUs is loaded, which serves CPUs, too
		if err := onnx.Load(b.cfg.ONNXRuntime); err != nil {
			return fmt.Errorf("pool %s: %w", cfg.DeviceType, err)
		}
	}
	b.log.Info().Str("version", onnx.Version()).Str("pool", cfg.DeviceType).Int("devices", cfg.Devices).Msg("ONNX Runtime on the CPU")
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
	return b.profile(ProfileKey(m, cfg, b.cfg.ProfileDir), m, cfg.DeviceType, nil, func(o profiler.Options) (*profiler.Result, error) {
		d, err := onnx.NewBeside(ctx, s, cfg.Threads, true)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return profiler.Measure(ctx, d, 0, &m.Spec, o)
	})
}

// profile reads a model's profile, or has it measured and keeps it.
func (b *Backend) profile(key profiler.Key, m *repository.Model, deviceType string, ladder []int, measure func(profiler.Options) (*profiler.Result, error)) (catalog.Profile, error) {
	doc, err := profiler.Read(key)
	if err == nil {
		return doc, nil
	}
	b.logNoProfile(m.Spec.Key(), deviceType, err)
	o := b.profiling(m, ladder)
	r, err := measure(o)
	if err != nil {
		return catalog.Profile{}, err
	}
	path, err := profiler.Write(key, r)
	b.logProfile(m.Spec.Key(), r, path, err)
	return r.Profile.Doc(), nil
}

// profiling is how a model without a profile is measured: briefly; `symphony profile` takes its time.
func (b *Backend) profiling(m *repository.Model, ladder []int) profiler.Options {
	o := b.cfg.Profiling
	o.Ladder, o.Inputs = ladder, m.Warmup
	if o.Budget == 0 {
		o.Budget = 1500 * mono.Millisecond
	}
	return o
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
	if len(r.Estimated) > 0 {
		event.Ints("estimated", r.Estimated) // batch sizes: there was no time, or no gap, to run them
	}
	event.Str("model", model).Stringer("alpha", r.Line.Alpha).Stringer("beta", r.Line.Beta).Bool("line", r.IsLine()).Stringer("on", r.Inputs).Str("file", path).Msg("profile measured")
}

// ProfileKey is what a model's stored profile belongs to.
func ProfileKey(m *repository.Model, cfg PoolConfig, dir string) profiler.Key {
	return profiler.Key{ModelPath: m.Path, Dir: profileDir(m, dir), Version: m.Spec.Version, Runtime: "onnxruntime " + onnx.Version(),
		Device: cfg.DeviceType, Threads: max(1, cfg.Threads), MaxBatch: m.Spec.MaxBatch, Warmup: m.Warmup.Print(), Host: profiler.ThisHost()}
}

// profileDir is where a model's profiles lie: beside it, or below dir.
func profileDir(m *repository.Model, dir string) string {
	if dir == "" {
		return m.Dir
	}
	return filepath.Join(dir, m.Spec.Name)
}

// loadRepository reads the models and says which were left out.
func loadRepository(cfg *Config, log zerolog.Logger) (models []repository.Model, failed []error, err error) {
	if cfg.Repository == "" {
		return nil, failed, nil
	}
	models, failed, err = repository.Load(cfg.Repository)
	for _, f := range failed {
		log.Error().Err(f).Msg("not served")
	}
	if errors.Is(err, repository.ErrEmpty) && cfg.mayBeEmpty() {
		return nil, failed, nil
	}
	if err != nil {
		return nil, failed, fmt.Errorf("backend.repository: %w", err)
	}
	return models, failed, nil
}
