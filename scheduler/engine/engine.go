package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ModelsMax bounds the models that an engine serves at a time, ModelIDsMax their ids, which are
// the cluster's.
const (
	ModelsMax   = 4096
	ModelIDsMax = 1 << 14
)

// ErrLimit is the cause when a model or GPU is beyond the engine's limits.
var ErrLimit = errors.New("engine limit reached")

// Engine is the scheduler of one sub-cluster.
type Engine struct {
	cfg     Config       // Immutable after New.
	sink    Sink         // Immutable.
	loops   []*modelLoop // Immutable.
	rank    *rankLoop    // Immutable.
	threads *Threads     // Immutable.
	// GPUs and models that the rings have room for. They grow under mu.
	room, roomModels atomic.Int64
	changing         atomic.Int64 // beginnings and ends of models that were ordered, and that the rank has not been told of
	tuning           *tuning      // Immutable; nil: the whole deferral is spent.
	changes          *changes     // Guards itself; nil likewise: what the tuner is to know.
	door             *door        // Immutable: for engines that hand models over to this one

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
	e := &Engine{cfg: cfg, sink: sink, stopReason: wire.ReasonDraining,
		gpus: map[wire.GPUID]rank.Life{}, lives: map[wire.GPUID]rank.Life{}, models: map[wire.ModelID]bool{}}
	e.door = &door{}
	e.door.engine.Store(e)
	e.room.Store(int64(min(cfg.GPUsMax, roomLeast)))
	e.roomModels.Store(modelsLeast)
	serial := firstSerial(mono.Now())
	for i := range cfg.ModelLoops {
		l := &modelLoop{index: i, engine: e, log: cfg.Record.loop(i, serial), requests: ring.NewGrowing[Submission](min(cfg.RingSize, ringLeast)),
			commands: ring.NewGrowing[input](e.commandsRoom()), shard: shard.New(cfg.shard(i, serial)), paged: cfg.Paged != nil}
		e.loops = append(e.loops, l)
	}
	if cfg.TunerShare > 0 && !cfg.Headroom.None() && cfg.Paged == nil { // what it simulates has no pages
		e.tuning, e.changes = newTuning(e), newChanges()
		for i, l := range e.loops {
			l.feed = &e.tuning.feeds[i]
		}
	}
	e.rank = &rankLoop{engine: e, log: cfg.Record.rank(serial), events: ring.NewGrowing[rankEvent](e.eventsRoom()), rank: rank.New(cfg.rank())}
	if cfg.Paged != nil {
		loader, ok := sink.(Loader)
		if !ok {
			return nil, fmt.Errorf("engine: the sink of a paged engine must carry out its loads, and a %T does not", sink)
		}
		match := paged.New(cfg.pagedFrom(serial))
		e.rank.paging = &paging{match: match, loader: loader, effort: effortPaged{match: match}}
	}
	if e.threads = cfg.Threads; e.threads == nil {
		e.threads = NewThreads(cfg.Placement)
	}
	e.threads.seat(e)
	return e, nil
}

// riders are the loops' places.
func (e *Engine) riders() []*rider {
	var out []*rider
	for _, l := range e.loops {
		out = append(out, &l.rider)
	}
	return append(out, &e.rank.rider)
}

// Start runs the loops.
func (e *Engine) Start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return
	}
	e.run()
	if e.tuning != nil {
		e.setSetting(e.tuning.choice.Setting)
	} else if e.cfg.Setting != (batching.Setting{}) {
		e.setSetting(e.cfg.Setting)
	}
}

// run lets the loops run. Caller holds mu.
func (e *Engine) run() {
	e.started = true
	e.wait.Add(len(e.loops) + 1)
	e.threads.start(e)
}

// Stop answers everything that waits with reason draining and ends the loops.
func (e *Engine) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	if !e.started { // its threads are there, and others may ride on them
		e.run()
	}
	e.stopped = true
	if e.tuning != nil {
		e.tuning.end()
	}
	for _, l := range e.loops {
		l.stop.Store(true)
		l.rider.rouse()
	}
	e.rank.stop.Store(true)
	e.rank.rider.rouse()
	e.wait.Wait()
	e.door.engine.Store(nil)
}

// Submit hands a request to its model's loop; false when the loop's ring is
// full or the engine is stopped. Any goroutine.
func (e *Engine) Submit(model wire.ModelID, r *batching.Request) bool {
	l := e.loopOf(model)
	if l.stop.Load() || !l.push(&Submission{Model: model, Came: mono.Now(), Request: *r}) {
		l.stats.full.Add(1)
		return false
	}
	l.rider.wake()
	return true
}

// Cancel takes a request out that was submitted before and waits still; the Sink hears of it by Drop,
// as cancelled. r needs ID, Frontend and Deadline. A full ring loses it: then the request is served for
// nobody.
func (e *Engine) Cancel(model wire.ModelID, r *batching.Request) {
	if l := e.loopOf(model); !l.stop.Load() && l.push(&Submission{Model: model, Cancel: true, Came: mono.Now(), Request: *r}) {
		l.rider.wake()
	}
}

// SubmitAll is Submit for several requests of models of one loop (Loop), which came at
// once: one wake-up for all. It says how many it took, from the first on.
func (e *Engine) SubmitAll(loop int, s []Submission) int {
	l := e.loops[loop]
	n, now := 0, mono.Now()
	for i := range s {
		s[i].Came = now
	}
	if !l.stop.Load() {
		for n = l.requests.PushAll(s); n < len(s) && l.widen(); {
			n += l.requests.PushAll(s[n:])
		}
	}
	if n < len(s) {
		l.stats.full.Add(uint64(len(s) - n))
	}
	if n > 0 {
		l.rider.wake()
	}
	return n
}

// Loop is the number of the model's loop, from 0 on.
func (e *Engine) Loop(model wire.ModelID) int { return int(model) % len(e.loops) }

// Done hands in a backend's report. It waits for room as orders do: a backend that reports
// without end must leave some for grants.
func (e *Engine) Done(d Done) {
	i := shard.ShardOf(d.Batch) - e.cfg.FirstLoop
	if i < 0 || i >= len(e.loops) {
		return
	}
	d.told = mono.Now()
	l := e.loops[i]
	e.order(l, &input{op: opCompleted, done: d})
}

// AddModel begins to serve a model.
func (e *Engine) AddModel(id wire.ModelID, cfg batching.Config) error {
	return e.addModel(id, cfg, nil)
}

func (e *Engine) addModel(id wire.ModelID, cfg batching.Config, weights *residency.Model) error {
	if err := e.kindOf(weights != nil, fmt.Sprintf("model %d", id)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case id >= ModelIDsMax:
		return fmt.Errorf("%w: model %d, ids must be below %d", ErrLimit, id, ModelIDsMax)
	case !e.models[id] && len(e.models) >= ModelsMax:
		return fmt.Errorf("%w: %d models are served, and no more can be; move some to another sub-cluster", ErrLimit, ModelsMax)
	}
	e.models[id] = true
	e.makeRoomForModels(len(e.models))
	e.changes.addModel(id, policy.Model{Profile: cfg.Profile, SLO: cfg.SLO, Bytes: cfg.Bytes, Drop: cfg.Policy})
	l := e.loopOf(id)
	if weights != nil {
		e.awaitChange() // the loop tells the rank
	}
	e.order(l, &input{op: opAddModel, model: id, config: &shard.ModelConfig{Config: cfg, Margin: e.cfg.Margin}, weights: weights})
	l.added.Add(1) // after the order, which may have been carried out: who submits does so after the return
	e.tellGPUs()
	return nil
}

// SetModel replaces the configuration of a model that is served. What waits for it stays, and
// so does what was learnt of it. Only how late its batches end is forgotten, where the new profile is
// another. A batch that starts from now on follows the new configuration.
func (e *Engine) SetModel(id wire.ModelID, cfg batching.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.models[id] {
		return
	}
	e.changes.addModel(id, policy.Model{Profile: cfg.Profile, SLO: cfg.SLO, Bytes: cfg.Bytes, Drop: cfg.Policy})
	e.order(e.loopOf(id), &input{op: opSetModel, model: id, config: &shard.ModelConfig{Config: cfg}})
}

// RemoveModel ends a model; what waits is dropped for reason.
func (e *Engine) RemoveModel(id wire.ModelID, reason wire.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.models, id)
	e.changes.removeModel(id)
	e.orderRemoval(&input{op: opRemoveModel, model: id, reason: reason})
}

// SetDelay replaces the network's delay bound.
func (e *Engine) SetDelay(d batching.Delay) {
	e.changes.setDelay(d)
	for _, l := range e.loops {
		e.order(l, &input{op: opSetDelay, delay: d})
	}
}

// Hasten ends the deferral for good (shard.Shard.Hasten).
func (e *Engine) Hasten() {
	for _, l := range e.loops {
		e.order(l, &input{op: opHasten})
	}
}

// AddGPU begins a life of a GPU that is free from freeAt on.
func (e *Engine) AddGPU(id wire.GPUID, freeAt mono.Time) (GPU, error) {
	return e.addGPU(id, freeAt, nil)
}

func (e *Engine) addGPU(id wire.GPUID, freeAt mono.Time, more *pagingEvent) (GPU, error) {
	if err := e.kindOf(more != nil, fmt.Sprintf("GPU %d", id)); err != nil {
		return GPU{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if int(id) >= e.cfg.GPUsMax {
		return GPU{}, fmt.Errorf("%w: GPU %d, at most %d", ErrLimit, id, e.cfg.GPUsMax)
	}
	if life, ok := e.gpus[id]; ok {
		e.removeGPU(GPU{id, life})
	}
	if more != nil {
		e.awaitModels() // else what it holds of them would be unknown there
	}
	e.makeRoom(int(id) + 1)
	e.lives[id]++
	g := GPU{id, e.lives[id]}
	e.gpus[id] = g.Life
	e.orderRank(&rankEvent{op: rankAdd, gpu: g, at: freeAt, paging: more})
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
	e.orderRank(&rankEvent{op: rankRemove, gpu: g})
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
		e.order(l, &input{op: opLost, grant: rank.Grant{GPU: g.ID, Life: g.Life}})
	}
}

// tellGPUs tells the loops how many GPUs there are and a model's share.
func (e *Engine) tellGPUs() {
	n := len(e.gpus)
	e.changes.setGPUs(n)
	share := batching.ShareOf(n, len(e.models))
	for _, l := range e.loops {
		e.order(l, &input{op: opSetGPUs, gpus: n, share: share})
	}
}

func (e *Engine) loopOf(id wire.ModelID) *modelLoop { return e.loops[e.Loop(id)] }
