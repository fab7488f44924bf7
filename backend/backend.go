package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/emugpu"
	"github.com/symphony-serving/symphony/backend/outbound"
	"github.com/symphony-serving/symphony/backend/snapshot"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Backend is a running backend.
type Backend struct {
	cfg     Config
	log     zerolog.Logger
	clock   *emugpu.Clock
	pools   []*pool
	metrics *metrics
	members *members
	faults  faults
	losses  losses
	outputs *outbound.Sender // of all devices
	service service

	snapshots snapshot.Store // of the repository's models

	gpuHost  *gpuHost       // nil: no pool of kind cuda
	watcher  Watcher        // of its GPUs; may be nil
	revivals sync.WaitGroup // of those that are lost
	stop     chan struct{}  // closed: no GPU is brought back any more

	instance   uint64 // of this process: a link of the same one replaces the one before
	configured int64  // when its configuration was read, unix ns: the newest holds for all

	uplinks   []*uplink      // to the schedulers of its group, or to the only one. Immutable.
	reigns    reigns         // which of them is obeyed
	keeps     chan keepOrder // what devices shall have
	helpers   sync.WaitGroup // of who tells them of models, and of who watches the repository
	measuring *turns
	draining  atomic.Bool
	closing   sync.Once
}

// New loads models, makes devices, profiles what has no profile, and begins to
// dial the schedulers. ctx bounds the start, not the life.
func New(ctx context.Context, cfg Config) (*Backend, error) {
	if cfg.Name == "" || len(cfg.Pools) == 0 || cfg.Network == nil {
		return nil, errors.New("backend: it needs a name, a network, and at least one pool of devices")
	}
	group, err := groupOf(cfg.Scheduler)
	for i := range cfg.Pools {
		err = errors.Join(err, cfg.Pools[i].checkPaged())
	}
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	b := &Backend{cfg: cfg, snapshots: snapshot.Store{Base: cfg.Snapshots}, log: cfg.Logger, clock: emugpu.NewClock(1), instance: rand.Uint64(), configured: time.Now().UnixNano(), stop: make(chan struct{}),
		keeps: make(chan keepOrder, keepsMax), measuring: newTurns()}
	b.reigns.b, b.uplinks = b, newUplinks(b, group)
	b.takeLogs()
	b.outputs = outbound.New(cfg.OutputsMax)
	b.members = newMembers(b)
	watched := newWatch(b)
	repo, failed, err := loadRepository(&cfg, b.log)
	if err == nil && slices.ContainsFunc(cfg.Pools, func(p PoolConfig) bool { return p.Kind == KindCUDA }) {
		// Before the other pools: there is one ONNX Runtime in a process.
		if b.gpuHost, err = openGPUs(cfg.GPUs, b.log); err != nil {
			err = fmt.Errorf("pool of kind cuda: %w", err)
		} else {
			b.gpuHost.empty = cfg.mayBeEmpty()
		}
	}
	for _, p := range cfg.Pools {
		var built *pool
		if err == nil {
			built, err = b.buildPool(ctx, p, repo)
		}
		if err != nil {
			b.abandon()
			return nil, fmt.Errorf("backend: %w", err)
		}
		b.pools = append(b.pools, built)
	}
	if b.gpuHost != nil {
		b.gpuHost.tellUnused()
	}
	for i, p := range b.pools {
		p.stock = newStock(b, p, i)
	}
	if b.metrics, err = newMetrics(b, cfg.Metrics); err != nil {
		b.abandon()
		return nil, fmt.Errorf("backend: %w", err)
	}
	memory := transport.BuffersOf(cfg.Network)
	for i, p := range b.pools {
		for k, d := range p.devices {
			p.executors = append(p.executors, b.executorOf(p, d, i, k, memory))
		}
	}
	for _, p := range b.pools {
		p.stock.seed()
	}
	b.keepGPUs()
	b.tellUnread(failed)
	b.begin(watched)
	return b, nil
}

// begin starts what runs beside the devices, and dials the schedulers.
func (b *Backend) begin(watched *watch) {
	b.helpers.Go(b.keepAll)
	b.helpers.Go(b.learnAll)
	for _, u := range b.uplinks {
		b.helpers.Go(u.tell)
	}
	if watched != nil {
		b.helpers.Go(watched.run)
	}
	for _, u := range b.uplinks {
		u.dial()
	}
}

func (b *Backend) hello() wire.Hello {
	return wire.Hello{Role: wire.RoleBackend, Incarnation: b.instance, Token: transport.Token(b.cfg.Token), Name: b.cfg.Name}
}

// Ready reports whether this backend has been admitted by the scheduler that it obeys.
func (b *Backend) Ready() bool {
	_, obeyed := b.reigns.state()
	return obeyed != nil && !b.draining.Load()
}

// Report implements executor.Reporter.
func (b *Backend) Report(d *wire.Done) { b.reigns.report(d) }

// Drain takes no more orders, finishes what is there or until ctx ends, and
// closes.
func (b *Backend) Drain(ctx context.Context) error {
	b.draining.Store(true)
	untold := leave(b.uplinks)
	var err error
	for quiet := 0; quiet < 5 && err == nil; quiet++ { // orders that crossed our Leave arrive meanwhile
		if !b.idle() {
			quiet = 0
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("backend: batches still run: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	leave(untold) // their links were about to come
	return errors.Join(err, b.Close())
}

// leave tells schedulers that this backend drains, and returns those to which there is no link.
func leave(all []*uplink) (untold []*uplink) {
	for _, u := range all {
		if !u.leave() {
			untold = append(untold, u)
		}
	}
	return untold
}

func (b *Backend) idle() bool {
	if !b.outputs.Idle() {
		return false
	}
	for _, p := range b.pools {
		for _, e := range p.executors {
			if !e.Idle() {
				return false
			}
		}
	}
	return true
}

// Close ends the backend at once.
func (b *Backend) Close() error {
	b.closing.Do(func() {
		b.draining.Store(true)
		b.hangUp()
		for _, p := range b.pools {
			if p.stock != nil {
				p.stock.end()
			}
		}
		b.endGPUs()
		b.helpers.Wait()
		b.closeDevices()
		b.revivals.Wait()
		b.members.closeAll()
		b.closeBuffers()
		b.closeShelf()
		b.closeSnapshots()
		if b.metrics != nil {
			b.metrics.unregister()
		}
	})
	return nil
}

// hangUp ends the links to the schedulers, all at a time: each may have much to send yet.
func (b *Backend) hangUp() {
	var all sync.WaitGroup
	for _, u := range b.uplinks {
		if u.keeper != nil {
			all.Go(u.keeper.Close)
		}
	}
	all.Wait()
}

// abandon ends a start that failed.
func (b *Backend) abandon() {
	b.closeDevices()
	b.closeBuffers()
	b.closeShelf()
	b.closeSnapshots()
}

func (b *Backend) closeSnapshots() {
	if err := b.snapshots.Close(); err != nil {
		b.log.Warn().Err(err).Msg("copies of the repository's models could not be removed")
	}
}

func (b *Backend) closeShelf() {
	if b.cfg.Shelf == nil {
		return
	}
	if err := b.cfg.Shelf.Close(); err != nil {
		b.log.Warn().Err(err).Msg("model cache")
	}
}

func (b *Backend) closeDevices() {
	for _, p := range b.pools {
		for _, e := range p.executors {
			e.Close()
		}
		if len(p.executors) == 0 {
			for _, d := range p.devices {
				d.Close()
			}
		}
	}
	b.clock.Close()
}
