package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Process makes the parts of one process from its configuration.
type Process struct {
	Log   zerolog.Logger
	Watch server.Watch  // for benchmarks
	GPUs  *backend.GPUs // nil: this host's
	// Models loads and unloads models for the ingress's repository API: see Repository. nil: there is no control plane.
	Models ingress.Repository

	// Snapshots is where copies of the repository's models are kept; "": in a temporary folder. New sets it to backend.cache.
	Snapshots string

	setting  batching.Setting // of a scheduler without a tuner, for comparisons (Again)
	cfg      config.Config
	network  transport.Network
	registry *prometheus.Registry
	vitals   *vitals
	admin    admin
}

// New joins the network, and sets what the Go runtime may use.
func New(cfg config.Config) (*Process, error) {
	p := &Process{Snapshots: cfg.Backend.Cache, cfg: cfg, Log: cli.Logger(cfg.Log), registry: prometheus.NewRegistry(), vitals: newVitals()}
	var err error
	var polling int
	if p.network, polling, err = newNetwork(cfg, p.Log, p.registry); err != nil {
		return nil, err
	}
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)} // a leak shows here first
	p.registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	runtime.GOMAXPROCS(procs(cfg, cli.Processors(), polling))
	debug.SetGCPercent(cfg.GCPercent)
	return p, nil
}

// Scheduler starts the scheduler, which is alone: see Scheduling.
func (p *Process) Scheduler() (*server.Server, error) {
	if len(p.cfg.Scheduler.Standby) > 0 {
		return nil, errors.New("scheduler.standby: a scheduler of a group is a process of its own: start it by symphony scheduler")
	}
	cfg, err := p.scheduler()
	if err != nil {
		return nil, err
	}
	s, err := server.New(cfg)
	if err == nil {
		p.watchScheduler(s)
	}
	return s, err
}

// scheduler is the scheduler's configuration.
func (p *Process) scheduler() (server.Config, error) {
	c := p.cfg.Scheduler
	headroom, err := rank.ParseHeadroom(c.Headroom)
	if err != nil {
		return server.Config{}, fmt.Errorf("scheduler.headroom: %w", err)
	}
	p.warnExposed("scheduler.listen", c.Listen...)
	return server.Config{Listen: c.Listen, Network: p.network, Name: "scheduler", Token: p.cfg.Token, Logger: p.Log,
		Metrics: p.registry, ModelLoops: c.ModelLoops, Placement: Placement(c), Margin: c.Margin, QueueMax: c.QueueMax, RequestsMax: c.RequestsMax,
		DelayMin: c.DelayMin, DelayMax: c.DelayMax, Lead: c.Lead, Headroom: headroom, TunerShare: c.Tuner, Setting: p.setting,
		Group: c.Standby, Heartbeat: heartbeat(p.cfg), Watch: p.Watch}, nil
}

// heartbeat is the span between those of a group's schedulers; 0 is the server's default.
func heartbeat(cfg config.Config) mono.Dur {
	if cfg.Scheduler.Heartbeat == 0 && cfg.RDMA.Mode == "always" {
		return 100 * mono.Microsecond // RDMA bears more of them
	}
	return cfg.Scheduler.Heartbeat
}

// Client starts the frontend, which dials its schedulers until they answer.
func (p *Process) Client() (*frontend.Client, error) {
	c := p.cfg.Frontend
	p.warnExposed("frontend.listen", c.Listen)
	return frontend.Open(frontend.Options{Schedulers: c.Scheduler, Listen: c.Listen, Advertise: c.Advertise, Name: c.Name, Token: p.cfg.Token, Network: p.network,
		ArenaBytes: int64(c.Arena), MaxInFlight: c.MaxInFlight, PreprocessConcurrency: decoders(c, cli.Processors()),
		ImagePixels: c.ImagePixels, ImageMemory: int64(c.ImageMemory), OutputsMax: int64(c.OutputsMax), ReplyMargin: &c.ReplyMargin,
		Logger: p.Log, Metrics: p.registry})
}

// Backend connects to the scheduler and opens the devices.
func (p *Process) Backend(ctx context.Context) (*backend.Backend, error) {
	c := p.cfg.Backend
	if len(c.Pools) == 0 {
		return nil, errors.New("backend.pools: no pool is configured; give at least one, for example {device_type: cpu, kind: cpu, devices: 1}, or begin with --config examples/quickstart.yaml")
	}
	if p.GPUs == nil {
		p.GPUs = HostGPUs(c, p.Log)
		p.GPUs.Watch, p.GPUs.PowerLimit = p.watchNVML, powerLimit
	}
	if !slices.ContainsFunc(c.Pools, func(p config.Pool) bool { return p.Kind == backend.KindCUDA }) {
		tellGPUs(p.GPUs, p.Log)
	}
	kept, err := p.shelf()
	if err != nil {
		return nil, err
	}
	// What models were read into is free once they are loaded: an idle process would keep it for
	// minutes, or for good.
	onnxrt.ReturnLargeBlocks()
	defer debug.FreeOSMemory()
	b, err := backend.New(ctx, backend.Config{Name: backendName(c.Name), Scheduler: c.Scheduler, Network: p.network, Token: p.cfg.Token,
		Repository: c.Repository, Snapshots: p.Snapshots, Watch: c.Watch, Shelf: kept, ONNXRuntime: ONNXLibrary(c.ONNXRuntime), Pools: Pools(c.Pools), GPUs: p.GPUs, Buffers: int64(p.cfg.RDMA.Buffers), OutputsMax: int64(c.OutputsMax), Logger: p.Log, LogBatches: p.cfg.Log.Level == "debug", Metrics: p.registry})
	if err == nil {
		p.watchBackend(b)
	}
	return b, err
}

// backendName is unique by default: a restart of the same process on the same
// host has the same name only when it is configured.
func backendName(name string) string {
	if name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "backend"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// ONNXLibrary is where the library lies: configured, SYMPHONY_ONNXRUNTIME, or
// where `make models` puts it.
func ONNXLibrary(path string) string {
	if path == "" {
		path = os.Getenv("SYMPHONY_ONNXRUNTIME")
	}
	if path == "" {
		path = "build/onnxruntime/libonnxruntime.so"
	}
	return path
}

// Pools are a backend's as it takes them.
func Pools(in []config.Pool) []backend.PoolConfig {
	var out []backend.PoolConfig
	for _, p := range in {
		b := backend.PoolConfig{DeviceType: p.DeviceType, Kind: p.Kind, Devices: p.Devices, Threads: p.Threads, Jitter: p.Jitter, Models: p.Models,
			GPUs: p.GPUs, Memory: int64(p.Memory), Resident: p.Resident, Page: int64(config.PageDefault), Precision: cuda.Precision(p.Precision), Provider: cuda.Provider(p.Provider), Strict: p.Strict}
		if m := p.Paged; m != nil {
			b.Memory = 0 // it is counted in pages
			b.Paged = &backend.Paged{Page: int64(m.Size()), Pages: m.Count(p.Memory), Shared: m.PCIe == "shared", Bandwidth: int64(m.Bandwidth)}
		}
		for _, z := range p.Zoo {
			b.Zoo = append(b.Zoo, repository.Zoo{CSV: z.CSV, Models: z.Models, Copies: z.Copies, SLO: z.SLO, MaxBatch: z.MaxBatch, Resident: z.Resident})
		}
		out = append(out, b)
	}
	return out
}

// DrainContext bounds the drain of all parts.
func (p *Process) DrainContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(p.cfg.Drain))
}
