package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pagers are devices whose memory is pages: a Loader that takes what it is ordered at its word. An order that
// does not add up (no pages, weights that are not there or in use) is a failure of the test.
type pagers struct {
	*devices
	t      testing.TB
	rand   *rand.Rand // Guarded by devices.mu, as is what follows.
	memory map[wire.GPUID]*memory
	fails  float64 // share of loads that fail
	misses float64 // share of batches that are refused as cold, and of those that are refused as late
	loads  int     // under way
	orders []LoadOrder
	refuse map[wire.Reason]int

	missing   map[residency.Generation]bool // that it refused batches for
	uses      map[wire.BatchID]use
	disturbed chan struct{} // closed by disturb
}

// memory is one life of a GPU.
type memory struct {
	life   GPU
	free   int
	loader mono.Time // busy until then
	held   map[wire.ModelID]*weights
}

type weights struct {
	generation residency.Generation
	ready      bool
	running    int
}

const (
	gpuPages, modelPages = 12, 3 // four models on a GPU
	loadTime             = 5 * mono.Millisecond
)

func newPagers(t testing.TB, seed uint64, jitter float64) *pagers {
	d := &pagers{devices: newDevices(seed, jitter), t: t, uses: map[wire.BatchID]use{}, missing: map[residency.Generation]bool{}, rand: rand.New(rand.NewPCG(seed, 6)), memory: map[wire.GPUID]*memory{}, refuse: map[wire.Reason]int{}, disturbed: make(chan struct{})}
	d.ends = d.end
	return d
}

// FlushLoads implements Loader.
func (d *pagers) FlushLoads() {}

// Load implements Loader.
func (d *pagers) Load(o *LoadOrder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.memory[o.GPU]
	if m == nil || m.life.Life != o.Life {
		return // of a life that has ended
	}
	d.orders = append(d.orders, *o)
	w := m.held[o.Model]
	if o.ID == 0 {
		if w == nil && d.missing[o.Generation] {
			return // it has said so
		}
		if w == nil || w.generation != o.Generation || !w.ready || w.running > 0 {
			d.t.Errorf("an order to unload %+v, which has %+v", o, w)
			return
		}
		delete(m.held, o.Model)
		m.free += modelPages
		return
	}
	if w != nil || m.free < modelPages {
		d.t.Errorf("an order to load %+v where %+v is and %d pages are free", o, w, m.free)
		return
	}
	m.free -= modelPages
	w = &weights{generation: o.Generation}
	m.held[o.Model] = w
	start := max(mono.Now(), m.loader)
	m.loader = start.Add(loadTime)
	d.loads++
	id, model, fails := o.ID, o.Model, d.rand.Float64() < d.fails
	time.AfterFunc(m.loader.Sub(mono.Now()).Std(), func() { d.loaded(m, w, id, model, start, !fails) })
}

func (d *pagers) loaded(m *memory, w *weights, id residency.LoadID, model wire.ModelID, start mono.Time, ok bool) {
	d.mu.Lock()
	if w.ready = ok; !ok {
		delete(m.held, model)
		m.free += modelPages
	}
	gone := d.memory[m.life.ID] != m
	d.mu.Unlock()
	if gone {
		d.mu.Lock()
		d.loads--
		d.mu.Unlock()
		return
	}
	d.engine.Loaded(LoadReport{residency.Report{ID: id, Start: start, End: mono.Now(), OK: ok}, m.life, model, w.generation})
	d.mu.Lock()
	d.loads--
	d.mu.Unlock()
}

// Dispatch implements Sink.
func (d *pagers) Dispatch(loop int, b *shard.Dispatch) {
	reason, ok, later := d.admit(b)
	switch {
	case !ok:
		return // an order that crossed the end of the GPU's life
	case later > 0: // as a backend does
		again := *b
		again.Requests = slices.Clone(b.Requests)
		time.AfterFunc(later.Std(), func() { d.Dispatch(loop, &again) })
		return
	}
	if reason != wire.ReasonNone {
		batch := b.Batch
		d.mu.Lock()
		d.running++
		d.refuse[reason]++
		d.mu.Unlock()
		time.AfterFunc(100*time.Microsecond, func() {
			d.engine.Done(Done{Batch: batch, End: mono.Now(), Refused: reason})
			d.mu.Lock()
			d.running--
			d.mu.Unlock()
		})
		return
	}
	d.devices.Dispatch(loop, b)
}

// admit says whether the batch may run, and notes that its weights are in use.
func (d *pagers) admit(b *shard.Dispatch) (refused wire.Reason, ok bool, later mono.Dur) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.memory[b.GPU]
	if m == nil || m.life.Life != b.Life {
		return wire.ReasonNone, false, 0
	}
	if b.Generation == 0 || b.Latest == mono.Never {
		d.t.Errorf("a batch of a paged engine without generation or latest: %+v", b)
	}
	w := m.held[b.Model]
	switch {
	case w != nil && !w.ready && uint32(w.generation) == b.Generation: // its weights are on their way
		return wire.ReasonNone, true, max(0, m.loader.Sub(mono.Now())) + 100*mono.Microsecond
	case w == nil || uint32(w.generation) != b.Generation:
		d.missing[residency.Generation(b.Generation)] = true
		return wire.ReasonCold, true, 0
	case d.rand.Float64() < d.misses:
		if w.running == 0 { // it loses them
			delete(m.held, b.Model)
			m.free += modelPages
			d.missing[residency.Generation(b.Generation)] = true
			return wire.ReasonCold, true, 0
		}
		return wire.ReasonLate, true, 0
	case mono.Now() > b.Latest || d.rand.Float64() < d.misses:
		return wire.ReasonLate, true, 0
	}
	w.running++
	d.uses[b.Batch] = use{m, w}
	return wire.ReasonNone, true, 0
}

// use is a batch that runs.
type use struct {
	memory  *memory
	weights *weights
}

func (d *pagers) end(b wire.BatchID) bool {
	u := d.uses[b]
	delete(d.uses, b)
	u.weights.running--
	return d.memory[u.memory.life.ID] == u.memory
}

// add begins a life of a GPU that holds these.
func (d *pagers) add(id wire.GPUID, held ...residency.Weights) {
	d.mu.Lock()
	m := &memory{free: gpuPages - len(held)*modelPages, held: map[wire.ModelID]*weights{}}
	for _, w := range held {
		m.held[w.Model] = &weights{generation: w.Generation, ready: true}
	}
	m.life = GPU{id, d.engine.lives[id] + 1} // AddPagedGPU may have orders for it before it returns
	d.memory[id] = m
	d.dead[id] = false
	d.busy[id] = mono.Past
	d.mu.Unlock()
	got, err := d.engine.AddPagedGPU(id, mono.Now(), gpuPages, held)
	if err != nil || got != m.life {
		d.t.Errorf("GPU %v, %v, want %v", got, err, m.life)
	}
}

// kill ends it, and returns what it held.
func (d *pagers) kill(id wire.GPUID) (held []residency.Weights) {
	d.mu.Lock()
	m := d.memory[id]
	d.dead[id] = true
	delete(d.memory, id)
	for model, w := range m.held {
		if w.ready {
			held = append(held, residency.Weights{Model: model, Generation: w.generation})
		}
	}
	d.mu.Unlock()
	d.engine.RemoveGPU(m.life)
	return held
}

// startPaged makes a running paged engine with models and GPUs.
func startPaged(t testing.TB, cfg Config, d *pagers, models, gpus int) *Engine {
	t.Helper()
	cfg.Margin, cfg.GPUsMax, cfg.RequestsMax = margin, 64, 1<<12
	if cfg.Paged == nil {
		cfg.Paged = &paged.Config{}
	}
	e, err := New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	e.Start()
	e.SetDelay(batching.Delay{Ctrl: 200 * mono.Microsecond})
	for m := range models {
		d.serve(wire.ModelID(m))
	}
	for g := range gpus {
		d.add(wire.GPUID(g))
	}
	return e
}

func (d *pagers) serve(id wire.ModelID) { d.serveIn(id, loadTime) }

func (d *pagers) serveIn(id wire.ModelID, load mono.Dur) {
	err := d.engine.AddPagedModel(id, batching.Config{Profile: line(d.t, 0.5, 2), SLO: 60 * mono.Millisecond, QueueMax: 1 << 12}, residency.Model{Pages: modelPages, LoadTime: load})
	if err != nil {
		d.t.Error(err)
	}
}

// quiet waits until nothing runs, loads or waits.
func (d *pagers) quiet(t *testing.T) {
	t.Helper()
	calm := 0
	for begin := time.Now(); calm < 5; time.Sleep(10 * time.Millisecond) {
		used := 0
		for _, l := range d.engine.Stats().Models {
			used += l.Used + l.Waiting
		}
		d.mu.Lock()
		if calm++; used > 0 || d.running > 0 || d.loads > 0 {
			calm = 0
		}
		d.mu.Unlock()
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("after 20 s there is still something to do: %d requests, %d batches, %d loads", used, d.running, d.loads)
		}
	}
}

// checkMemory compares what the engine takes to be where with what is there. After Stop.
func (d *pagers) checkMemory(t *testing.T, models int) {
	t.Helper()
	r := d.engine.rank.paging.match.Residency()
	for id, m := range d.memory {
		if free, all := r.Pages(id); free != m.free || all != gpuPages {
			t.Errorf("GPU %d has %d of %d pages free, the engine says %d of %d", id, m.free, gpuPages, free, all)
		}
		for model := range wire.ModelID(models) {
			h, ok := r.Held(model, id)
			w := m.held[model]
			if ok != (w != nil) || ok && (h.Generation != w.generation || h.Uses != 0 || h.Loading) {
				t.Errorf("GPU %d has %+v of model %d, the engine says %v %+v", id, w, model, ok, h)
			}
		}
	}
	for model := range wire.ModelID(models) {
		if d, n := r.Demand(model); d != 0 || n != 0 {
			t.Errorf("nothing waits, and the rank has %v of work of model %d in %d requests", d, model, n)
		}
	}
}
