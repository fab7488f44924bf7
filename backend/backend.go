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
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Backend is a running backend.
type Backend struct {
	cfg     Config
	log     zerolog.Logger
	clock   *emugpu.Clock
	pools   []*pool
	keeper  *transport.Keeper
	metrics *metrics
	members *members
	faults  faults
	service service

	gpuHost  *gpuHost       // nil: no pool of kind cuda
	watcher  Watcher        // of its GPUs; may be nil
	revivals sync.WaitGroup // of those that are lost
	stop     chan struct{}  // closed: no GPU is brought back any more

	instance   uint64 // of this process: a link of the same one replaces the one before
	configured int64  // when its configuration was read, unix ns: the newest holds for all

	epoch     atomic.Uint64                  // the highest promised
	scheduler atomic.Pointer[transport.Link] // the admitted link; nil while there is none
	table     atomic.Pointer[[]modelRef]     // by wire.ModelID
	tableMu   sync.Mutex                     // Guards the making of another table.
	telling   chan struct{}                  // the scheduler is to be told of models
	keeps     chan keepOrder                 // what devices shall have
	helpers   sync.WaitGroup                 // of who tells it, and of who watches the repository
	measuring chan struct{}                  // full while a model is measured
	draining  atomic.Bool
	closing   sync.Once

	doneMu    sync.Mutex // Guards doneFrame: reports come from many devices.
	doneFrame []byte
	orders    schedulerHandler
}

// modelRef says where a model is.
type modelRef struct {
	pool  int             // -1: not served here
	index int             // its slot
	model *executor.Model // that is to be there
}

// New loads models, makes devices, profiles what has no profile, and begins to
// dial the scheduler. ctx bounds the start, not the life.
func New(ctx context.Context, cfg Config) (*Backend, error) {
	if cfg.Name == "" || len(cfg.Pools) == 0 || cfg.Network == nil {
		return nil, errors.New("backend: it needs a name, a network, and at least one pool of devices")
	}
	b := &Backend{cfg: cfg, log: cfg.Logger, clock: emugpu.NewClock(1), instance: rand.Uint64(), configured: time.Now().UnixNano(), stop: make(chan struct{}),
		telling: make(chan struct{}, 1), keeps: make(chan keepOrder, keepsMax), measuring: make(chan struct{}, 1)}
	b.faults.log = b.log
	b.members = newMembers(b)
	watched := newWatch(b)
	repo, err := loadRepository(&cfg, b.log)
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
			p.executors = append(p.executors, executor.New(d, p.models, b.members, p.memory(k, memory), b, b.metrics.observer(i, k)))
		}
	}
	for _, p := range b.pools {
		p.stock.seed()
	}
	b.orders.backend = b
	b.keepGPUs()
	b.helpers.Go(b.tell)
	b.helpers.Go(b.keepAll)
	if watched != nil {
		b.helpers.Go(watched.run)
	}
	b.keeper = transport.Keep(cfg.Network, cfg.Scheduler, transport.Options{Hello: b.hello()}, &b.orders, b.introduce, func(err error) {
		b.log.Warn().Str("scheduler", cfg.Scheduler).Err(err).Msg("no link to the scheduler; trying on")
	})
	return b, nil
}

func (b *Backend) hello() wire.Hello {
	return wire.Hello{Role: wire.RoleBackend, Incarnation: b.instance, Token: transport.Token(b.cfg.Token), Name: b.cfg.Name}
}

// introduce is the first message on a new link: what we have.
func (b *Backend) introduce(l transport.Link) {
	info := catalog.BackendInfo{Name: b.cfg.Name, Instance: b.instance, Configured: b.configured}
	now := mono.Now()
	for _, p := range b.pools {
		doc := p.introduction(l)
		for _, e := range p.executors { // a link lost and dialled again finds devices that still run
			doc.FreeAt = append(doc.FreeAt, e.FreeIn(now))
		}
		info.Pools = append(info.Pools, doc)
	}
	transport.SendDoc(l, wire.DocBackend, info)
	if b.draining.Load() { // the link before was told, and this one was not
		_ = l.Send((&wire.Leave{Epoch: wire.Epoch(b.epoch.Load())}).Append(nil))
	}
}

// Ready reports whether the scheduler has admitted this backend.
func (b *Backend) Ready() bool { return b.scheduler.Load() != nil && !b.draining.Load() }

// Report implements executor.Reporter.
func (b *Backend) Report(d *wire.Done) {
	l := b.scheduler.Load()
	if l == nil || uint64(d.Epoch) != b.epoch.Load() {
		return
	}
	b.doneMu.Lock()
	defer b.doneMu.Unlock()
	b.doneFrame = d.Append(b.doneFrame[:0])
	if err := (*l).Send(b.doneFrame); errors.Is(err, transport.ErrFull) {
		(*l).Close(err) // reports may not be lost: start anew
	}
}

// Drain takes no more orders, finishes what is there or until ctx ends, and
// closes.
func (b *Backend) Drain(ctx context.Context) error {
	b.draining.Store(true)
	told := b.leave()
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
	if !told { // its link was about to come
		b.leave()
	}
	return errors.Join(err, b.Close())
}

// leave tells the scheduler that this backend drains, also where it has not heard yet that it is
// admitted; false: there is no link.
func (b *Backend) leave() bool {
	l := b.keeper.Link()
	return l != nil && l.Send((&wire.Leave{Epoch: wire.Epoch(b.epoch.Load())}).Append(nil)) == nil
}

func (b *Backend) idle() bool {
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
		if b.keeper != nil {
			b.keeper.Close()
		}
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
		if b.metrics != nil {
			b.metrics.unregister()
		}
	})
	return nil
}

// abandon ends a start that failed.
func (b *Backend) abandon() {
	b.closeDevices()
	b.closeBuffers()
	b.closeShelf()
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
