package cold

import (
	"sync"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Watcher is told of the scheduler's orders to GPUs and their loaders, and of the reports. Whoever starts the system
// hands it in.
type Watcher struct {
	mu      sync.Mutex // Guards what follows.
	profile *profile.Profile
	count   *counter  // nil: nothing is counted
	start   mono.Time // of the counted span
	batches map[wire.BatchID]planned
	loads   map[wire.LoadID]planned

	infer, inferEnd, load, loadEnd offBy
	failed                         int64 // loads
	refused                        int64 // batches that a backend gave back whole
}

// planned is what an order is taken to need, and when it is taken to end.
type planned struct {
	length mono.Dur
	end    mono.Time
}

// NewWatcher makes one for a Config.
func (c *Config) NewWatcher() (*Watcher, error) {
	f, err := c.fluid()
	if err != nil {
		return nil, err
	}
	return &Watcher{profile: f.profile, batches: map[wire.BatchID]planned{}, loads: map[wire.LoadID]planned{},
		infer: newOffBy(), inferEnd: newOffBy(), load: newOffBy(), loadEnd: newOffBy()}, nil
}

// begin counts what ends from start on.
func (w *Watcher) begin(c *counter, start mono.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count, w.start = c, start
}

// Dispatched: a batch of so many leaves, and is taken to end then.
func (w *Watcher) Dispatched(b wire.BatchID, size int, until mono.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches[b] = planned{w.profile.Latency(size), until}
}

// Done: its report, whose instants were shifted by that much.
func (w *Watcher) Done(d *wire.Done, shift mono.Dur) {
	w.mu.Lock()
	defer w.mu.Unlock()
	plan, ok := w.batches[d.Batch]
	delete(w.batches, d.Batch)
	start, end := d.Start.Add(-shift), d.End.Add(-shift)
	switch {
	case !ok || w.count == nil || end < w.start:
	case d.Ran == 0:
		w.refused++
	default:
		w.infer.add(end.Sub(start) - plan.length)
		w.inferEnd.add(end.Sub(plan.end))
		w.count.ran(w.at(start), w.at(end))
	}
}

// at is an instant from the begin of the counted span on. Caller holds mu.
func (w *Watcher) at(t mono.Time) mono.Time { return mono.Time(t.Sub(w.start)) }

// Ordered: an order to load leaves, planned for that time; one without an id is to unload.
func (w *Watcher) Ordered(id wire.LoadID, start, until mono.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != 0 {
		w.loads[id] = planned{until.Sub(start), until}
		return
	}
	if w.count != nil {
		w.count.unloaded(w.at(start))
	}
}

// Loaded: the report of an order to load.
func (w *Watcher) Loaded(d *wire.Loaded, shift mono.Dur) {
	w.mu.Lock()
	defer w.mu.Unlock()
	plan, ok := w.loads[d.Load]
	if !ok || d.Op != wire.OpLoad {
		return
	}
	delete(w.loads, d.Load)
	start, end := d.Start.Add(-shift), d.End.Add(-shift)
	switch {
	case w.count == nil || end < w.start:
	case d.Reason != wire.ReasonNone:
		w.failed++
	default:
		w.load.add(end.Sub(start) - plan.length)
		w.loadEnd.add(end.Sub(plan.end))
		w.count.copied(w.at(start), w.at(end))
	}
}

// Prediction is how far off it was: what took longer than planned for (or ended later) is Over, with the others as 0; and
// the other way round. ms.
type Prediction struct {
	N                  int64
	OverP50, OverP99   float64
	UnderP50, UnderP99 float64
	OverMax, UnderMax  float64
}

// offBy is what a Prediction is made of.
type offBy struct{ over, under *report.Spans }

func newOffBy() offBy {
	return offBy{report.NewSpans(mono.Microsecond), report.NewSpans(mono.Microsecond)}
}

func (e offBy) add(d mono.Dur) {
	e.over.Add(max(0, d))
	e.under.Add(max(0, -d))
}

func (e offBy) prediction() Prediction {
	at := func(s *report.Spans, p float64) float64 {
		if s.Max() == 0 {
			return 0 // and not the microsecond that is told apart
		}
		return s.Percentile(p).Millis()
	}
	return Prediction{N: e.over.Count(), OverP50: at(e.over, 50), OverP99: at(e.over, 99), UnderP50: at(e.under, 50), UnderP99: at(e.under, 99),
		OverMax: e.over.Max().Millis(), UnderMax: e.under.Max().Millis()}
}
