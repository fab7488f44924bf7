package backend

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
)

// GPUs are what pools of kind cuda run on.
type GPUs struct {
	Driver cuda.Driver
	// Runtime loads what computes, and names it: "onnxruntime 1.31.1". It is called once, if
	// there is a pool of kind cuda.
	Runtime func() (cuda.Runtime, string, error)
	// PowerLimit is a GPU's, by its UUID, as people write it; "": unknown. nil: never known.
	PowerLimit func(uuid string) string
	// Watch begins to watch the GPUs that pools use; nil, or one that returns nil: nobody does.
	Watch func(uuids []string) Watcher
}

// ErrNoCUDA: this program has no door to GPUs.
var ErrNoCUDA = errors.New("this program was built without CUDA: build it with `make build` where CUDA's header is (`make cuda-headers` fetches it), or take kind cpu")

// gpuHost is this host's GPUs, and what computes there.
type gpuHost struct {
	*GPUs
	log     zerolog.Logger
	infos   []cuda.Info
	runtime cuda.Runtime
	name    string         // the runtime's
	taken   map[int]string // pools that have a GPU, by its index
	empty   bool           // a GPU without models serves, too: they come later
}

// openGPUs looks what there is, and loads what computes.
func openGPUs(g *GPUs, log zerolog.Logger) (*gpuHost, error) {
	if g == nil || g.Driver == nil || g.Runtime == nil {
		return nil, ErrNoCUDA
	}
	h := &gpuHost{GPUs: g, log: log, taken: map[int]string{}}
	var err error
	if h.infos, err = g.Driver.Devices(); err != nil {
		return nil, err
	}
	if len(h.infos) == 0 {
		return nil, &cuda.UnsupportedError{What: "no GPU that this process may use", Need: "look at CUDA_VISIBLE_DEVICES and nvidia-smi, or take kind cpu"}
	}
	if h.runtime, h.name, err = g.Runtime(); err != nil {
		return nil, err
	}
	return h, nil
}

// tellUnused says which GPUs no pool has.
func (h *gpuHost) tellUnused() {
	for _, g := range h.infos {
		if _, ok := h.taken[g.Index]; !ok {
			about(h.log.Info(), g).Msg("a GPU that no pool uses")
		}
	}
}

// about are a GPU's fields in a line of the log.
func about(line *zerolog.Event, g cuda.Info) *zerolog.Event {
	return line.Int("gpu", g.Index).Str("name", g.Name).Str("uuid", g.UUID).Str("pci", g.PCI).Int64("memory_mib", g.Memory>>20).
		Str("capability", fmt.Sprintf("%d.%d", g.Major, g.Minor)).Int("numa", g.NUMANode).Str("driver", driverVersion(g.DriverVersion))
}

// gpu is a device of a pool of kind cuda.
type gpu struct {
	info    cuda.Info
	device  *cuda.Device
	paged   *cuda.Paged // of a paged pool: what loads on the device; nil: its models are resident
	pinned  *cuda.Pinned
	buffers *transport.Buffers // of its executor
	budget  int64              // bytes of its memory

	// What is to be done when it is lost: before its batches are finished, and then.
	losing, lost atomic.Pointer[func(error)]

	losses  atomic.Int64 // how often it was lost
	unfit   atomic.Bool  // telemetry wants that nobody has it open
	opening chan opened  // what becomes of an attempt; nil: there is none. Owned by its revival
}

// opened is a GPU's new context, or why there is none.
type opened struct {
	context cuda.Context
	err     error
}

// executes is what its executor gives batches.
func (g *gpu) executes() executor.Device {
	if g.paged != nil {
		return g.paged
	}
	return g.device
}

// call is for hooks that are not there before the backend serves.
func call(f *atomic.Pointer[func(error)], err error) {
	if do := f.Load(); do != nil {
		(*do)(err)
	}
}

// open makes a device with models. Those that are refused are said; which, the device knows.
func (h *gpuHost) open(info cuda.Info, cfg *PoolConfig, models []cuda.Model) (*gpu, []*cuda.RefusedError, error) {
	c, err := h.Driver.Open(info.Index)
	if err != nil {
		return nil, nil, err
	}
	warn := func(err error) { about(h.log.Warn(), info).Err(err).Msg("a GPU") }
	g := &gpu{info: info, pinned: cuda.NewPinned()}
	g.pinned.Warn = warn
	var free int64
	if g.budget, free, err = budget(c, cfg.Memory); err == nil {
		err = cfg.fitPages(info, min(g.budget, free))
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	own := append([]cuda.Model(nil), models...)
	for i := range own {
		own[i].Memory = g.budget
	}
	var refused []*cuda.RefusedError
	g.device, refused, err = cuda.NewDevice(c, h.runtime, own, cuda.Options{Budget: g.budget, Pinned: g.pinned, Empty: h.empty, Forgets: cfg.Paged != nil,
		Losing: func(err error) { call(&g.losing, err) },
		Lost: func(err error) {
			about(h.log.Error(), info).Err(err).Msg("a GPU is lost")
			call(&g.lost, err)
		},
		Warn: warn})
	for _, r := range refused {
		about(h.log.Error(), info).Str("model", r.Model).Err(r).Msg("not served")
	}
	if err == nil && cfg.Paged != nil {
		g.paged = cuda.NewPaged(g.device, cfg.Paged.Pages)
	}
	return g, refused, err
}

// fitPages says why a GPU has no room for the pool's pages.
func (cfg *PoolConfig) fitPages(info cuda.Info, room int64) error {
	if cfg.Paged == nil || int64(cfg.Paged.Pages) <= room/cfg.Paged.Page {
		return nil
	}
	all := float64(cfg.Paged.Pages) * float64(cfg.Paged.Page) / (1 << 20) // as an integer it may be too large
	return fmt.Errorf("paged: %d pages of %s are %.1f MiB, and GPU %d has %s for models: lower paged.pages (or memory, where that says how many there are), or free some of the GPU's memory",
		cfg.Paged.Pages, inMiB(cfg.Paged.Page), all, info.Index, inMiB(room))
}

// budget is how much of a device's memory models may take: what is configured, or most of
// what is free. (Not all: the context, kernels and other processes grow, too.)
func budget(c cuda.Context, configured int64) (bytes, free int64, err error) {
	var total int64
	err = cuda.On(c, func() (err error) {
		free, total, err = c.Memory()
		return err
	})
	switch {
	case err != nil:
		return 0, 0, err
	case configured > total:
		return 0, 0, fmt.Errorf("memory: %d MiB of each GPU are configured, GPU %d has %d MiB", configured>>20, c.Info().Index, total>>20)
	case configured > 0:
		return configured, free, nil
	}
	return free / 10 * 9, free, nil
}

// gpuModel is a model as it runs on the pool's GPUs.
func gpuModel(m *repository.Model, cfg *PoolConfig) cuda.Model {
	c := cuda.Model{Spec: &m.Spec, Path: m.Path, Precision: cuda.Precision(m.GPU.Precision), Provider: cuda.Provider(m.GPU.Provider),
		Graphs: cuda.Graphs(m.GPU.Graphs), CPUNodes: m.GPU.CPUNodes, Sizes: m.GPU.Sizes, Warmup: m.Warmup}
	if c.Precision == "" {
		c.Precision = orElse(cfg.Precision, cuda.FP32)
	}
	if c.Provider == "" {
		c.Provider = orElse(cfg.Provider, cuda.ProviderCUDA)
	}
	if c.Sizes == nil {
		c.Sizes = cuda.Ladder(m.Spec.MaxBatch)
	}
	return c
}

func orElse[T ~string](v, other T) T {
	if v == "" {
		return other
	}
	return v
}

// profileKey is what a profile measured on the GPU belongs to.
func (h *gpuHost) profileKey(m *repository.Model, c *cuda.Model, info cuda.Info, deviceType, dir string) profiler.Key {
	k := profiler.Key{ModelPath: m.Path, Dir: profileDir(m, dir), Version: m.Spec.Version, Runtime: h.name, Device: deviceType, MaxBatch: m.Spec.MaxBatch, Warmup: m.Warmup.Print(),
		GPU: profiler.GPU{Product: info.Name, Driver: driverVersion(info.DriverVersion), Precision: string(c.Precision), Provider: string(c.Provider),
			Graphs: orElse(string(c.Graphs), "auto"), Sizes: c.Sizes}}
	if h.PowerLimit != nil {
		k.GPU.Power = h.PowerLimit(info.UUID)
	}
	return k
}
