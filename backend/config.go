package backend

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport"
)

// Kinds of pools.
const (
	KindCPU      = "cpu"
	KindCUDA     = "cuda"
	KindEmulated = "emulated"
)

// Config of a Backend.
type Config struct {
	Name        string // unique among the backends; a restart under it gets the same GPUs
	Scheduler   string // its address; of a group, of which one leads, all, with + between
	Network     transport.Network
	Token       string
	Repository  string // folder of models; empty: none
	ONNXRuntime string // path of the shared library; needed for pools of kind cpu
	ProfileDir  string // where profiles are kept when not beside the models; empty: beside them
	Snapshots   string // folder below which copies are kept of the repository's models that are served; empty: a temporary one of the system
	Watch       bool   // the repository: models that come, change and go in it do so here
	Shelf       Shelf  // gets models that the scheduler orders; nil: they cannot be got. Closed with the backend, or when New fails
	Pools       []PoolConfig
	GPUs        *GPUs            // for pools of kind cuda; nil: this program cannot have any
	OutputsMax  int64            // most bytes of batches whose outputs wait for the links to their frontends; 0: outbound.MaxDefault
	Buffers     int64            // most bytes of pinned batch buffers, of each GPU; 0: 1 GiB
	Profiling   profiler.Options // of models without a profile, at start
	Logger      zerolog.Logger
	LogBatches  bool                  // each batch's begin and end, at level debug
	Metrics     prometheus.Registerer // nil: none
}

// mayBeEmpty reports whether models may come later: a pool without any is no mistake then.
func (c *Config) mayBeEmpty() bool { return c.Shelf != nil || c.Watch && c.Repository != "" }

// PoolConfig is a set of equal devices.
type PoolConfig struct {
	DeviceType string
	Kind       string  // KindCPU, KindCUDA or KindEmulated
	Devices    int     // cuda: 0 are all that are left
	Threads    int     // of one execution on a cpu device; 0: 1
	Jitter     float64 // emulated: share by which a run may take longer
	Models     []string
	Zoo        []repository.Zoo
	Memory     int64  // of each device, for models, bytes; 0: without a bound; cuda: 90 % of what is free
	Paged      *Paged // weights come to the devices and go by the scheduler's orders; nil: all models are resident, but where those of the start do not fit (Resident), if it is not of kind cuda
	Resident   bool   // they are resident, whether or not they fit
	Page       int64  // bytes, of a pool that becomes paged by itself; 0: none does
	Strict     bool   // no batch begins before its planned start

	// Of kind cuda. DeviceType may be empty: it is the GPUs' name then.
	GPUs      []string       // indices or UUIDs; nil: the first Devices
	Precision cuda.Precision // of models that do not say; empty: cuda.FP32
	Provider  cuda.Provider  // likewise; empty: cuda.ProviderCUDA
}

// Paged is the memory of each device of a pool whose models need not all be there at once.
type Paged struct {
	Page  int64 // bytes
	Pages int   // for weights
	// Emulated devices.
	Shared    bool  // copies of all of the host's devices that have this go over one bus, one after the other
	Bandwidth int64 // bytes a second that weights come with, of models that do not say how long they take; 0: BandwidthDefault
}

// BandwidthDefault is what a V100 copies from the host's memory: the transfers of Clockwork's Table 1.
const BandwidthDefault = 12_400_000_000
