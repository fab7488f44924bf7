// Package config is the configuration of every subcommand: one struct, one
// file format (YAML), three layers. It knows nothing of how the parts are
// started; cmd/symphony turns it into their own Config types.
//
// Layers, each over the one before: the file, the flags, the environment
// (SYMPHONY_SCHEDULER__LISTEN is scheduler.listen). What no layer names keeps
// the default of Default. Every error of a configuration is reported at once.
package config

import (
	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config is the whole configuration.
type Config struct {
	Log       Log       `yaml:"log"`
	Token     string    `yaml:"token"`      // shared secret of the cluster's links; empty: none
	Procs     int       `yaml:"procs"`      // GOMAXPROCS; 0: the processors it may use (of a container: its quota) plus the threads that must be on time
	GCPercent int       `yaml:"gc_percent"` // GOGC
	Drain     mono.Dur  `yaml:"drain"`      // how long Ctrl-C waits for open requests
	Metrics   string    `yaml:"metrics"`    // host:port of /metrics, and of a frontend's statistics; empty: none, or that of HTTP
	Admin     string    `yaml:"admin"`      // host:port for who operates this process: profiles (pprof), of a scheduler the live picture (/ui); empty: none, and of serve 127.0.0.1:8003
	Traces    Traces    `yaml:"traces"`
	RDMA      RDMA      `yaml:"rdma"`
	TCP       TCP       `yaml:"tcp"`
	Scheduler Scheduler `yaml:"scheduler"`
	Frontend  Frontend  `yaml:"frontend"`
	Backend   Backend   `yaml:"backend"`
	Control   Control   `yaml:"control"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // auto (readable on a terminal, JSON otherwise), console, json
}

// Traces says which requests a frontend tells an OpenTelemetry collector of.
type Traces struct {
	Endpoint string            `yaml:"endpoint"` // of its OTLP over HTTP: http://127.0.0.1:4318; empty: there are no traces
	Share    float64           `yaml:"share"`    // of the requests whose caller does not say: a traceparent does
	Rate     int               `yaml:"rate"`     // traces a second, at most; 0: any number
	Headers  map[string]string `yaml:"headers"`  // of what is sent to the collector, for example its authorisation
}

// RDMA says which links go over RDMA, and with what.
type RDMA struct {
	Mode         string   `yaml:"mode"`          // auto: where both ends have a device, else TCP; never; always: refuse to do without
	Device       string   `yaml:"device"`        // name; empty: the first that can be used (symphony rdma list)
	Port         int      `yaml:"port"`          // of the device; 0: its first active one
	GID          int      `yaml:"gid"`           // index in the port's table; negative: RoCE v2 over IPv4 first
	Poll         string   `yaml:"poll"`          // adaptive: spins while that pays, then sleeps; busy: takes a core; event: always sleeps
	Spin         mono.Dur `yaml:"spin"`          // longest spin of adaptive
	Reads        Size     `yaml:"reads"`         // bytes of inputs on their way to this host at a time
	TrafficClass int      `yaml:"traffic_class"` // of RoCE packets, DSCP << 2, where switches tell traffic apart by it
	Buffers      Size     `yaml:"buffers"`       // memory for batches, registered with the network and of each GPU: taken as needed
}

// TCP configures links over kernel sockets.
type TCP struct {
	BusyPoll  mono.Dur `yaml:"busy_poll"`  // how long a link looks at its socket before it parks, for machines with processors to spare; 0: not at all
	KernelRTT string   `yaml:"kernel_rtt"` // auto: the kernel's round-trip times by eBPF where privileges allow; never: heartbeats alone
}

// Scheduler configures the decision maker.
type Scheduler struct {
	Listen      []string  `yaml:"listen"`       // "tcp:host:port", "inproc:name"
	Standby     Addresses `yaml:"standby"`      // the group: schedulers of which one leads and the others are hot spares, its own address may be among them; empty: it is alone
	Heartbeat   mono.Dur  `yaml:"heartbeat"`    // between the schedulers of a group, while there are requests; 100 times as long while there are none. 0: 1 ms, and 100 us where rdma.mode is always
	ModelLoops  int       `yaml:"model_loops"`  // threads that batch; models are sharded over them
	ModelWait   string    `yaml:"model_wait"`   // model loops without work: park (sleep), spin (a core each), poll (a while, then sleep); auto: by the cores
	RankWait    string    `yaml:"rank_wait"`    // the rank loop, likewise
	RankThread  string    `yaml:"rank_thread"`  // own; shared: with the first model loop; auto: shared where cores are no more than loops
	Pin         string    `yaml:"pin"`          // loops to cores: always, never; auto: where cores are twice the loops and two to spare, and no quota is set
	Spin        mono.Dur  `yaml:"spin"`         // how long before an instant a parked loop wakes up to spin; 0: not at all
	Doze        mono.Dur  `yaml:"doze"`         // how long requests in a dense row may wait for a model loop to wake up; 0: each wakes it
	Margin      mono.Dur  `yaml:"margin"`       // taken off every deadline for what no profile foresees
	QueueMax    int       `yaml:"queue_max"`    // waiting requests per model
	RequestsMax int       `yaml:"requests_max"` // waiting and running requests per model loop
	DelayMin    mono.Dur  `yaml:"delay_min"`    // least assumed d_ctrl
	DelayMax    mono.Dur  `yaml:"delay_max"`    // most believed d_ctrl
	Headroom    string    `yaml:"headroom"`     // GPUs beyond the need that may be spent on latency: all, or a share of the need (0.25; 0: full deferral)
	Tuner       float64   `yaml:"tuner"`        // share of a processor, per pool, for choosing how much of the deferral pays; 0: full deferral
	Watch       string    `yaml:"watch"`        // events for the live picture and for requests' stories are kept: viewers (while somebody looks), always
	WatchAfter  mono.Dur  `yaml:"watch_after"`  // how long they are kept on after the last viewer, or a question
	Lead        mono.Dur  `yaml:"lead"`         // how long before frontrun batches may start, at least: what late wake-ups cost
}

// Frontend configures the client library and the HTTP ingress.
type Frontend struct {
	Name        string    `yaml:"name"`
	Scheduler   Addresses `yaml:"scheduler"`     // where the scheduler listens; of several, each with models of its own, all of them; A+B: a group, of which one leads
	Listen      string    `yaml:"listen"`        // where backends read slabs; 0.0.0.0: on all addresses, and the scheduler tells backends the one that it sees
	Advertise   string    `yaml:"advertise"`     // that address as backends reach it, behind a proxy or a translated address; empty: as listen says
	HTTP        string    `yaml:"http"`          // host:port of the ingress; empty: none
	GRPC        string    `yaml:"grpc"`          // host:port of the same over gRPC; auto: port 8001 where http has port 8000, else none; empty: none
	Admin       string    `yaml:"admin"`         // host:port of repository, settings and shared memory calls; empty: that of http
	Shared      bool      `yaml:"shared_memory"` // clients on this host may send names of shared memory instead of tensors: any object of /dev/shm that this process may write; leave it off behind a proxy on this host, as whoever comes through it seems to be on this host
	Control     string    `yaml:"control"`       // URL of the control plane's API, for clients that load and unload models; empty: those calls are refused
	Arena       Size      `yaml:"arena"`         // memory for inputs
	MaxInFlight int       `yaml:"max_in_flight"` // open requests
	Preprocess  int       `yaml:"preprocess"`    // images decoded at a time; 0: the processors it may use less one, at least 1
	ImagePixels int       `yaml:"image_pixels"`  // of one image, at most
	ImageMemory Size      `yaml:"image_memory"`  // for decoding images, all at a time; one may take 7/8 of it
	OutputsMax  Size      `yaml:"outputs_max"`   // of outputs of more than 16 KiB that are awaited, or whose reply its client has not read, at most
	ReplyMargin mono.Dur  `yaml:"reply_margin"`  // reserved for the way back of an output
	BodyMax     Size      `yaml:"body_max"`      // largest HTTP body, or gRPC message
	UnsentMax   Size      `yaml:"unsent_max"`    // replies of gRPC streams that wait for their clients to read, of all streams; 0: 4 times body_max, at least 256 MiB
	Connections int       `yaml:"connections"`   // open HTTP connections, and as many over gRPC
	FullStatus  int       `yaml:"full_status"`   // HTTP status where too much comes: 429 or 503
	HeaderTime  mono.Dur  `yaml:"header_time"`   // a client has for a request's headers
	BodyTime    mono.Dur  `yaml:"body_time"`     // and for its body
	BodyRate    Size      `yaml:"body_rate"`     // bytes per second that a body must come at; 0: any
	AccessLog   string    `yaml:"access_log"`    // a line of JSON for each request, into this file; -: standard output; empty: none
	AccessShare float64   `yaml:"access_share"`  // of the requests that were served in time; all others are told in any case
	AccessRate  int       `yaml:"access_rate"`   // lines a second, at most; those beyond are counted
	Record      string    `yaml:"record"`        // file into which it is written which inferences come when, for bench load --replay; one that is there goes on; empty: none
	RecordMax   Size      `yaml:"record_max"`    // of that file
}

// Backend configures the owner of devices.
type Backend struct {
	Name        string `yaml:"name"`
	Scheduler   string `yaml:"scheduler"`   // where the scheduler listens: a backend belongs to one, or to a group of which one leads: A+B
	Repository  string `yaml:"repository"`  // folder of models; empty: none
	Watch       bool   `yaml:"watch"`       // models that come into it, change or go are taken up while it serves
	Cache       string `yaml:"cache"`       // folder for files of models that the control plane orders, of this backend alone; empty: it gets none
	CacheSize   Size   `yaml:"cache_size"`  // of that folder, at most
	CacheRate   Size   `yaml:"cache_rate"`  // bytes per second that are fetched, at most; 0: any
	ONNXRuntime string `yaml:"onnxruntime"` // path of libonnxruntime.so; empty: where make puts it
	OutputsMax  Size   `yaml:"outputs_max"` // of batches whose outputs wait for the links to their frontends, at most
	Pools       []Pool `yaml:"pools"`
}

// Pool is a set of equal devices of a backend.
type Pool struct {
	DeviceType string   `yaml:"device_type"`      // "cpu", "emulated-1080ti": pools of one type form a sub-cluster; of a cuda pool empty: the GPUs' name, "nvidia-h100-80gb-hbm3"
	Kind       string   `yaml:"kind"`             // "cpu", "cuda" or "emulated"
	Devices    int      `yaml:"devices"`          // how many; of a cuda pool 0: all that CUDA_VISIBLE_DEVICES leaves, or those that gpus names
	Threads    int      `yaml:"threads"`          // of one execution on a cpu device; 0: 1
	GPUs       []string `yaml:"gpus,omitempty"`   // cuda: which, by UUID ("GPU-5a1c...", "MIG-...", a unique beginning will do) or by CUDA's index
	Memory     Size     `yaml:"memory"`           // of each device, for models, at most; 0: any; of a GPU, for batches, too; 0: 90 % of what is free at the start
	Precision  string   `yaml:"precision"`        // cuda: fp32, tf32 or fp16, of models that do not say; empty: fp32
	Provider   string   `yaml:"provider"`         // cuda: cuda or tensorrt, of models that do not say; empty: cuda
	Jitter     float64  `yaml:"jitter"`           // emulated: share by which a run may take longer
	Models     []string `yaml:"models,omitempty"` // of the repository; empty: all of this device type
	Zoo        []Zoo    `yaml:"zoo,omitempty"`    // emulated models from a table of profiles
	Paged      *Paged   `yaml:"paged,omitempty"`  // weights come to the devices and go as requests need them; nothing: all models are resident, but where those that the pool begins with do not fit into memory (not of kind cuda)
	Resident   bool     `yaml:"resident"`         // all models are resident, also where they do not fit: what does not is refused
	Strict     bool     `yaml:"strict,omitempty"` // no batch begins before the start that was planned for it, as in Clockwork: to compare plans with what is done; else as soon as its inputs are there
}

// Paged is the memory of each device of a pool with more models than fit.
type Paged struct {
	Page      Size   `yaml:"page"`      // a model takes whole ones; 0: 16MiB
	Pages     int    `yaml:"pages"`     // for weights; 0: as many as the pool's memory has
	PCIe      string `yaml:"pcie"`      // emulated: "shared", copies to all devices of this backend's pools that say so go over one bus; empty: each device has its own
	Bandwidth Size   `yaml:"bandwidth"` // emulated: bytes a second, of models that do not say how long they load; 0: a V100's, 12.4 GB/s
}

// PageDefault is the size of a page where none is given: Clockwork's.
const PageDefault Size = 16 << 20

// Size is how many bytes a page has.
func (m *Paged) Size() Size {
	if m.Page == 0 {
		return PageDefault
	}
	return m.Page
}

// Count is how many pages a device of a pool with so much memory has.
func (m *Paged) Count(memory Size) int {
	if m.Pages == 0 {
		return int(memory / m.Size())
	}
	return m.Pages
}

// Zoo makes emulated models from a CSV of latency profiles
// (model,alpha_ms,beta_ms,slo_ms), or of profiles and weights (as bench/zoo/zoo_v100_clockwork.csv has them).
type Zoo struct {
	CSV      string   `yaml:"csv"`
	Models   []string `yaml:"models,omitempty"` // rows to take; empty: all
	Copies   int      `yaml:"copies"`           // of each, named Model-0, Model-1, ...; 0 or 1: one, named Model
	SLO      mono.Dur `yaml:"slo"`              // 0: the table's
	MaxBatch int      `yaml:"max_batch"`        // 0: 64
	Resident bool     `yaml:"resident"`         // in a paged pool: on all of its devices at all times
}

// Default is what holds where nothing is said.
func Default() Config {
	return Config{
		Log:       Log{Level: "info", Format: "auto"},
		GCPercent: 200,
		Drain:     5 * mono.Second,
		Traces:    Traces{Share: 0.01, Rate: 100},
		RDMA:      RDMA{Mode: "auto", GID: -1, Poll: "adaptive", Spin: 50 * mono.Microsecond, Reads: 2 << 20, Buffers: 1 << 30},
		TCP:       TCP{KernelRTT: "auto"},
		Scheduler: Scheduler{
			Listen: []string{"tcp:127.0.0.1:9000"}, ModelLoops: 1, Margin: 250 * mono.Microsecond,
			ModelWait: "auto", RankWait: "auto", RankThread: "auto", Pin: "auto",
			QueueMax: 1 << 15, RequestsMax: 1 << 17,
			DelayMin: 100 * mono.Microsecond, DelayMax: 5 * mono.Millisecond, Lead: mono.Millisecond,
			Headroom: "all", Tuner: tuner.ShareDefault, Watch: "viewers", WatchAfter: 30 * mono.Second,
		},
		Frontend: Frontend{
			Scheduler: Addresses{"tcp:127.0.0.1:9000"}, Listen: "tcp:127.0.0.1:0", HTTP: "127.0.0.1:8000", GRPC: GRPCAuto,
			Arena: 256 << 20, MaxInFlight: 1 << 16, ReplyMargin: frontend.ReplyMarginDefault,
			ImagePixels: 16 << 20, ImageMemory: 48 << 20, OutputsMax: frontend.OutputsMaxDefault,
			BodyMax: 64 << 20, Connections: 16384, FullStatus: 429,
			HeaderTime: 10 * mono.Second, BodyTime: 30 * mono.Second, BodyRate: 16 << 10,
			AccessShare: 1, AccessRate: 1000, RecordMax: 1 << 30,
		},
		Backend: Backend{Scheduler: "tcp:127.0.0.1:9000", Watch: true, CacheSize: 20 << 30, OutputsMax: outbound.MaxDefault},
		Control: Control{Prefix: store.PrefixDefault, Autoscale: defaultAutoscale(), Lease: 10 * mono.Second, HTTP: "127.0.0.1:8002", Scheduler: Addresses{"tcp:127.0.0.1:9000"},
			Objective: "gpus", Interval: 300 * mono.Second, Moves: 0.05},
	}
}
