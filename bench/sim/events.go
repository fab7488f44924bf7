package sim

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Watch has a run tell its events as a live scheduler does: call it before Run, once. What
// emit is handed is valid during the call. The configuration's observer is called as before.
func Watch(cfg *Config, emit func(*watch.Event)) {
	w := &watcher{cfg: cfg, before: cfg.Observer, emit: emit, models: make([]tally, len(cfg.Models)), joins: slices.Clone(cfg.Events)}
	slices.SortStableFunc(w.joins, func(a, b GPUEvent) int { return int(a.At - b.At) })
	w.begin()
	cfg.Observer.Arrive, cfg.Observer.Dispatched = w.arrive, w.dispatched
	cfg.Observer.Executed, cfg.Observer.Drop, cfg.Observer.Need = w.executed, w.drop, w.need
}

// watcher turns what an observer is told into events.
type watcher struct {
	cfg    *Config
	before Observer
	emit   func(*watch.Event)
	models []tally
	joins  []GPUEvent // not told yet, in order
	gpus   int
	pool   watch.Info
	told   mono.Time // when counts were told last
	list   []watch.Request
}

// tally counts a model's requests.
type tally struct {
	came, served, late uint64
	dropped            [wire.ReasonCount]uint64
	waiting            int
	queued             mono.Time // when that was told last
}

// Like a live scheduler's.
const (
	countsEvery = 250 * mono.Millisecond
	queueEvery  = 50 * mono.Millisecond
)

func (w *watcher) begin() {
	w.gpus = w.cfg.GPUs
	w.pool = watch.Info{Name: "simulated", GPUs: w.gpus, Kept: w.gpus, Ctrl: w.cfg.Network.Bound.Ctrl, Data: w.cfg.Network.Bound.Data}
	w.tell(&watch.Event{Kind: watch.Pool, Info: &w.pool})
	for i := range w.cfg.GPUs {
		w.tell(&watch.Event{Kind: watch.GPU, GPU: wire.GPUID(i), Info: &watch.Info{}})
	}
	for i := range w.cfg.Models {
		m := &w.cfg.Models[i]
		doc := m.Profile.Doc()
		w.tell(&watch.Event{Kind: watch.Model, Model: wire.ModelID(i), Info: &watch.Info{Name: m.Name, SLO: m.SLO, MaxBatch: m.Profile.MaxBatch(), Profile: &doc}})
	}
}

func (w *watcher) tell(e *watch.Event) { w.emit(e) }

// at tells what is due by now: GPUs that join or go, and counts.
func (w *watcher) at(now mono.Time) {
	for len(w.joins) > 0 && w.joins[0].At <= now {
		e := w.joins[0]
		w.joins = w.joins[1:]
		gone := e.Kind != Join
		if w.gpus++; gone {
			w.gpus -= 2
		}
		w.tell(&watch.Event{Kind: watch.GPU, At: e.At, GPU: e.GPU, Info: &watch.Info{Gone: gone}})
		w.pool.GPUs = w.gpus
		w.tellPool(e.At)
	}
	if now.Sub(w.told) < countsEvery {
		return
	}
	w.told = now
	for i := range w.models {
		w.tell(&watch.Event{Kind: watch.Counts, At: now, Model: wire.ModelID(i), Info: w.models[i].info()})
	}
}

func (t *tally) info() *watch.Info {
	i := &watch.Info{Came: t.came, Served: t.served, Late: t.late}
	for r, n := range t.dropped {
		if n > 0 {
			if i.Dropped == nil {
				i.Dropped = map[string]uint64{}
			}
			i.Dropped[wire.Reason(r).String()] = n
		}
	}
	return i
}

func (w *watcher) tellPool(at mono.Time) {
	info := w.pool
	w.tell(&watch.Event{Kind: watch.Pool, At: at, Info: &info})
}

func (w *watcher) need(from, to mono.Time, gpus float64) {
	if w.before.Need != nil {
		w.before.Need(from, to, gpus)
	}
	w.pool.Need = gpus
	w.tellPool(to)
}

func (w *watcher) arrive(now mono.Time, model wire.ModelID) {
	if w.before.Arrive != nil {
		w.before.Arrive(now, model)
	}
	w.at(now)
	m := &w.models[model]
	m.came++
	m.waiting++
	w.queue(now, model)
}

// queue tells how many wait: what else a candidate is a policy keeps to itself.
func (w *watcher) queue(now mono.Time, model wire.ModelID) {
	if m := &w.models[model]; now.Sub(m.queued) >= queueEvery {
		m.queued = now
		w.tell(&watch.Event{Kind: watch.Queue, At: now, Model: model, Queued: int32(max(0, m.waiting))})
	}
}

// request is one as its frontend knows it: the scheduler's deadline has margins taken off.
func (w *watcher) request(model wire.ModelID, r *batching.Request) watch.Request {
	return watch.Request{Key: watch.Key{Frontend: r.Frontend, ID: r.ID}, Arrival: r.Arrival, Deadline: r.Arrival.Add(w.cfg.Models[model].SLO)}
}

func (w *watcher) dispatched(now mono.Time, d *policy.Dispatch) {
	if w.before.Dispatched != nil {
		w.before.Dispatched(now, d)
	}
	w.at(now)
	w.list = w.list[:0]
	for i := range d.Requests {
		w.list = append(w.list, w.request(d.Model, &d.Requests[i]))
	}
	w.models[d.Model].waiting -= len(d.Requests)
	w.tell(&watch.Event{Kind: watch.Batch, At: now, Model: d.Model, GPU: d.GPU, Batch: d.Batch, Due: d.Due, Exec: d.Exec, Until: d.Until,
		Size: int32(len(d.Requests)), Requests: w.list})
}

func (w *watcher) executed(e *Execution) {
	if w.before.Executed != nil {
		w.before.Executed(e)
	}
	w.tell(&watch.Event{Kind: watch.Done, At: max(e.End, e.Answered), Model: e.Model, GPU: e.GPU, Batch: e.Batch, Exec: e.Start, Until: e.End, Fetch: e.Fetch, Size: int32(len(e.Requests))})
	m := &w.models[e.Model]
	if !e.Kept {
		m.waiting += len(e.Requests)
		return
	}
	for i := range e.Requests {
		if e.Answered <= e.Requests[i].Arrival.Add(w.cfg.Models[e.Model].SLO) {
			m.served++
		} else {
			m.late++
		}
	}
}

func (w *watcher) drop(now mono.Time, k *batching.Drop) {
	if w.before.Drop != nil {
		w.before.Drop(now, k)
	}
	w.at(now)
	model := wire.ModelID(k.Request.Input.Length) // see driver.arrive
	m := &w.models[model]
	m.waiting--
	m.dropped[k.Reason]++
	r := w.request(model, &k.Request)
	r.Came = k.Came
	w.tell(&watch.Event{Kind: watch.Drop, At: now, Model: model, Reason: k.Reason, Request: r, Margin: r.Deadline.Sub(k.Request.Deadline)})
}
