package server

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// leadShare: a batch may start a 32nd of the time left to its deadline before
// frontrun: 3 ms of 100 ms, 62 ms of two seconds. A busy machine pauses a thread
// for as long as that.
const leadShare = 32

// Config of a Server. Zero values mean the defaults in brackets; without brackets, zero is zero.
type Config struct {
	Listen      []string // addresses; at least one
	Network     transport.Network
	Name        string                // of this process, for peers' logs ["scheduler"]
	Token       string                // the cluster's secret [none]
	Logger      zerolog.Logger        // [discards]
	Metrics     prometheus.Registerer // [none]
	ModelLoops  int                   // per sub-cluster [1]
	Placement   engine.Placement      // how loops share the machine; pools share their threads (engine.Threads) [threads that sleep]
	Margin      mono.Dur              // taken off every deadline
	QueueMax    int                   // waiting requests per model [32768]
	RequestsMax int                   // per model loop [131072]
	DelayMin    mono.Dur              // least assumed d_ctrl
	DelayMax    mono.Dur              // most believed d_ctrl
	Lead        mono.Dur              // how long before frontrun the window opens, at least

	Headroom   rank.Headroom // which GPUs may take batches early [all]
	TunerShare float64       // of a processor's time, per pool; 0: the whole deferral is spent, always
	// Setting is in force where TunerShare is 0: the whole deferral, except in comparisons.
	Setting batching.Setting

	FrontendsMax int // [1024]
	BackendsMax  int // [1024]
	PoolsMax     int // sub-clusters [256 / ModelLoops: as many loops as there can be]
	ModelsMax    int // over all sub-clusters, of which each serves at most 4096 [10000]
	GPUsMax      int // per sub-cluster [4096]

	reportGrace mono.Dur // how late a report may be, at least; for tests [10 s]

	Group     []string // schedulers of which one leads and the others are its spares; its own address may be among them [it is alone]
	Heartbeat mono.Dur // of the group [a millisecond]
	Past      *Past    // of this process in the group [none]

	Record *engine.Recording // of the first pool, for replay tests [none]
	Watch  Watch             // for benchmarks [none]
}

// Watch is told of a request's way through the scheduler, by the goroutines that
// carry it: it must not block. All fields may be nil.
type Watch struct {
	Submitted  func(wire.RequestID)               // the record has come
	Dispatched func(*shard.Dispatch)              // its batch leaves
	Done       func(d *wire.Done, shift mono.Dur) // the report has come; its instants were shifted by that much
	// Of paged pools: an order to a loader leaves, and its report has come.
	Ordered func(*engine.LoadOrder)
	Loaded  func(d *wire.Loaded, shift mono.Dur)
}

const (
	// modelsMax bounds the models of a scheduler.
	modelsMax = 10000
	// loopsMax is as many model loops as a wire.BatchID tells apart.
	loopsMax = 256
)

func (c *Config) complete() error {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.ModelLoops, 1)
	def(&c.QueueMax, 1<<15)
	def(&c.RequestsMax, 1<<17)
	def(&c.FrontendsMax, 1024)
	def(&c.BackendsMax, 1024)
	def(&c.PoolsMax, max(1, loopsMax/max(1, c.ModelLoops)))
	def(&c.ModelsMax, modelsMax)
	def(&c.GPUsMax, 4096)
	if c.reportGrace == 0 {
		c.reportGrace = 10 * mono.Second
	}
	if c.Name == "" {
		c.Name = "scheduler"
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = mono.Millisecond
	}
	if c.Past == nil {
		c.Past = &Past{}
	}
	var errs []error
	if len(c.Listen) == 0 {
		errs = append(errs, errors.New("scheduler: no address to listen on"))
	}
	if c.Network == nil {
		errs = append(errs, errors.New("scheduler: no network"))
	}
	if c.ModelLoops*c.PoolsMax > loopsMax {
		errs = append(errs, fmt.Errorf("scheduler: %d model loops for each of %d sub-clusters, at most %d in all", c.ModelLoops, c.PoolsMax, loopsMax))
	}
	if min(c.Margin, c.DelayMin, c.Lead) < 0 {
		errs = append(errs, fmt.Errorf("scheduler: margin %v, least delay %v and lead %v must not be negative", c.Margin, c.DelayMin, c.Lead))
	}
	if c.DelayMax < c.DelayMin {
		errs = append(errs, fmt.Errorf("scheduler: delay bound at most %v is below its least %v", c.DelayMax, c.DelayMin))
	}
	if least := min(c.FrontendsMax, c.BackendsMax, c.PoolsMax, c.ModelsMax, c.GPUsMax); least < 1 || c.ModelsMax > modelsMax {
		errs = append(errs, fmt.Errorf("scheduler: at most %d frontends, %d backends, %d sub-clusters, %d models and %d GPUs: each must be at least 1, and models at most %d",
			c.FrontendsMax, c.BackendsMax, c.PoolsMax, c.ModelsMax, c.GPUsMax, modelsMax))
	}
	if len(c.Group) > transport.GroupMax || c.Heartbeat < 0 {
		errs = append(errs, fmt.Errorf("scheduler: a group of %d schedulers with heartbeats each %v: at most %d, and not negative", len(c.Group), c.Heartbeat, transport.GroupMax))
	}
	errs = append(errs, c.engine(0, nil, false).Check())
	return errors.Join(errs...)
}

// engine is the configuration of a pool's engine, by the pool's number, on the threads of all
// pools. What is wrong with it is wrong for all pools, and said when the server starts.
func (c *Config) engine(pool int, threads *engine.Threads, isPaged bool) engine.Config {
	cfg := engine.Config{ModelLoops: c.ModelLoops, FirstLoop: pool * c.ModelLoops, Threads: threads, Placement: c.Placement, GPUsMax: c.GPUsMax,
		Margin: c.Margin, RequestsMax: c.RequestsMax, Headroom: c.Headroom, TunerShare: c.TunerShare, Setting: c.Setting}
	if pool == 0 {
		cfg.Record = c.Record
	}
	if isPaged {
		cfg.Paged = &paged.Config{}
	}
	return cfg
}
