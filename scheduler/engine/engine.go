package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ModelsMax bounds the models of an engine: its mailboxes are made at start.
const ModelsMax = 4096

// ErrLimit is the cause when a model or GPU is beyond the engine's limits.
var ErrLimit = errors.New("engine limit reached")

// Engine is the scheduler of one sub-cluster.
type Engine struct {
	cfg   Config       // Immutable after New.
	sink  Sink         // Immutable.
	loops []*modelLoop // Immutable.
	rank  *rankLoop    // Immutable.
	boxes []mailbox    // Each guards itself.

	fetches    fetches
	wait       sync.WaitGroup
	stopReason wire.Reason // Written before the loops are stopped.

	mu      sync.Mutex // Guards what follows: membership, the cold path.
	gpus    map[wire.GPUID]rank.Life
	lives   map[wire.GPUID]rank.Life
	models  map[wire.ModelID]bool
	started bool
	stopped bool
}

// New makes an engine; Start runs it.
func New(cfg Config, sink Sink) (*Engine, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, sink: sink, boxes: make([]mailbox, ModelsMax), stopReason: wire.ReasonDraining,
		gpus: map[wire.GPUID]rank.Life{}, lives: map[wire.GPUID]rank.Life{}, models: map[wire.ModelID]bool{}}
	batches := cfg.GPUsMax * cfg.Outstanding
	for i := range cfg.ModelLoops {
		l := &modelLoop{index: i, engine: e, requests: ring.NewQueue[input](cfg.RingSize),
			commands: ring.NewQueue[input](cfg.GPUsMax + batches + 1024),
			shard:    shard.New(shard.Config{Index: cfg.FirstLoop + i, RequestsMax: cfg.RequestsMax, BatchesMax: batches})}
		l.waiter.Spin = cfg.Spin
		e.loops = append(e.loops, l)
	}
	e.rank = &rankLoop{engine: e, events: ring.NewQueue[rankInput](ModelsMax + cfg.GPUsMax + batches + 1024),
		rank: rank.New(rank.Config{Outstanding: cfg.Outstanding})}
	e.rank.waiter.Spin = cfg.Spin
	return e, nil
}

// Start runs the loops.
func (e *Engine) Start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return
	}
	e.started = true
	e.wait.Add(len(e.loops) + 1)
	for _, l := range e.loops {
		go l.run()
	}
	go e.rank.run()
}

// Stop answers everything that waits with reason draining and ends the loops.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started || e.stopped {
		return
	}
	e.stopped = true
	for _, l := range e.loops {
		l.stop.Store(true)
		l.waiter.Wake()
	}
	e.rank.stop.Store(true)
	e.rank.waiter.Wake()
	e.wait.Wait()
}

// Submit hands a request to its model's loop; false when the loop's ring is
// full or the engine is stopped. Any goroutine.
func (e *Engine) Submit(model wire.ModelID, r *batching.Request) bool {
	l := e.loopOf(model)
	if l.stop.Load() || !l.requests.Push(&input{op: opSubmit, model: model, request: *r}) {
		l.stats.full.Add(1)
		return false
	}
	l.waiter.Wake()
	return true
}

// Done hands in a backend's report.
func (e *Engine) Done(d Done) {
	if i := shard.ShardOf(d.Batch) - e.cfg.FirstLoop; i >= 0 && i < len(e.loops) {
		e.command(e.loops[i], &input{op: opCompleted, done: d})
	}
}

// AddModel begins to serve a model.
func (e *Engine) AddModel(id wire.ModelID, cfg batching.Config) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id >= ModelsMax {
		return fmt.Errorf("%w: model %d, at most %d", ErrLimit, id, ModelsMax)
	}
	e.models[id] = true
	e.command(e.loopOf(id), &input{op: opAddModel, model: id, config: &shard.ModelConfig{Config: cfg, Margin: e.cfg.Margin}})
	e.tellGPUs()
	return nil
}

// RemoveModel ends a model; what waits is dropped for reason.
func (e *Engine) RemoveModel(id wire.ModelID, reason wire.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.models, id)
	e.command(e.loopOf(id), &input{op: opRemoveModel, model: id, reason: reason})
}

// SetProfile replaces a model's latency profile.
func (e *Engine) SetProfile(id wire.ModelID, p *profile.Profile) {
	e.command(e.loopOf(id), &input{op: opSetProfile, model: id, profile: p})
}

// SetDelay replaces the network's delay bound.
func (e *Engine) SetDelay(d batching.Delay) {
	for _, l := range e.loops {
		e.command(l, &input{op: opSetDelay, delay: d})
	}
}

// AddGPU begins a life of a GPU that is free from freeAt on.
func (e *Engine) AddGPU(id wire.GPUID, freeAt mono.Time) (GPU, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if int(id) >= e.cfg.GPUsMax {
		return GPU{}, fmt.Errorf("%w: GPU %d, at most %d", ErrLimit, id, e.cfg.GPUsMax)
	}
	if life, ok := e.gpus[id]; ok {
		e.removeGPU(GPU{id, life})
	}
	e.lives[id]++
	g := GPU{id, e.lives[id]}
	e.gpus[id] = g.Life
	e.toRank(&rankInput{op: rankAdd, gpu: g, at: freeAt})
	e.tellGPUs()
	return g, nil
}

// RetireGPU grants the GPU nothing more and lets what runs there end: its
// backend drains. RemoveGPU may follow.
func (e *Engine) RetireGPU(g GPU) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retireGPU(g) {
		e.tellGPUs()
	}
}

func (e *Engine) retireGPU(g GPU) bool {
	if life, ok := e.gpus[g.ID]; !ok || life != g.Life {
		return false
	}
	delete(e.gpus, g.ID)
	e.toRank(&rankInput{op: rankRemove, gpu: g})
	return true
}

// RemoveGPU ends a GPU's life; what ran there is queued again. A later life of
// the same GPU is not touched.
func (e *Engine) RemoveGPU(g GPU) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeGPU(g)
}

func (e *Engine) removeGPU(g GPU) {
	if e.retireGPU(g) {
		defer e.tellGPUs() // after the batches are queued again: without GPUs they are answered
	}
	for _, l := range e.loops {
		e.command(l, &input{op: opLost, grant: rank.Grant{GPU: g.ID, Life: g.Life}})
	}
}

// tellGPUs tells the loops how many GPUs there are and a model's share.
func (e *Engine) tellGPUs() {
	n := len(e.gpus)
	share := batching.ShareOf(n, len(e.models))
	for _, l := range e.loops {
		e.command(l, &input{op: opSetGPUs, gpus: n, share: share})
	}
}

func (e *Engine) loopOf(id wire.ModelID) *modelLoop { return e.loops[int(id)%len(e.loops)] }

// command puts an input into a ring that has room by construction; the yield
// is for a loop that the kernel keeps from running.
func (e *Engine) command(l *modelLoop, in *input) {
	for !l.commands.Push(in) {
		if e.halted(l) {
			return
		}
		l.waiter.Wake()
		runtime.Gosched()
	}
	l.waiter.Wake()
}

// halted reports that the loop no longer takes commands.
func (e *Engine) halted(l *modelLoop) bool { return l.stop.Load() }

func (e *Engine) toRank(in *rankInput) {
	for !e.rank.events.Push(in) {
		if e.rank.stop.Load() {
			return
		}
		e.rank.waiter.Wake()
		runtime.Gosched()
	}
	e.rank.waiter.Wake()
}

// mail puts a model's news into its mailbox and tells the rank loop.
func (e *Engine) mail(id wire.ModelID, a *rank.Answer, c *batching.Candidate) {
	if e.boxes[id].put(a, c) {
		e.toRank(&rankInput{op: rankMail, model: id})
	}
}
