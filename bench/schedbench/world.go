package schedbench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
	"github.com/symphony-serving/symphony/transport/wire"
)

// run is a batch on a GPU.
type run struct {
	batch      wire.BatchID
	start, end mono.Time
	size       int32
}

// world is all that is outside the scheduler: who asks, and the GPUs.
type world struct {
	cfg    *Config        // Immutable.
	engine *engine.Engine // Immutable after the start.
	prof   *profile.Profile
	gpus   gpus
	sides  []side
	ctx    context.Context

	start, from, until mono.Time // Immutable: requests that arrive from from to before until count.

	source   *source // Owned by the world's thread, as what follows.
	wheel    *wheel
	waiter   ring.Waiter
	answered uint64              // requests of runs that have ended
	offeredN uint64              // all that were submitted
	offered  uint64              // of them those that count
	unsent   uint64              // that count and could not be submitted before their SLO was over
	lag      histogram.Histogram // of the oldest request in each turn
	desks    []desk              // of each loop
	turns    uint64
	thread   int
	failed   error

	progress atomic.Uint64 // Shared: offeredN
	stopped  atomic.Int64  // Shared: the instant at which no more were offered; 0: not yet
}

// side is what a model loop's thread writes. Read after the engine has stopped.
type side struct {
	runs              *ring.Queue[run]
	ok, late          uint64 // requests that count
	drops             [wire.ReasonCount]uint64
	batches, requests uint64 // dispatched within the span
	busy              mono.Dur
	lost              bool          // the ring of runs was full: a bug
	dropped           atomic.Uint64 // all; the world reads it
	_                 [64]byte
}

func newWorld(ctx context.Context, cfg *Config, prof *profile.Profile, now mono.Time) *world {
	most := cfg.GPUs * 4 // undone batches are at most two for a GPU
	w := &world{cfg: cfg, prof: prof, gpus: newGPUs(cfg.GPUs), sides: make([]side, cfg.Loops), ctx: ctx, start: now.Add(50 * mono.Millisecond)}
	for i := range w.sides {
		w.sides[i].runs = ring.NewQueue[run](most)
	}
	w.from = w.start.Add(cfg.Warmup)
	w.until = w.from.Add(cfg.Duration)
	w.wheel, w.desks = newWheel(most, now), newDesks(cfg.Loops)
	w.source = newSource(cfg.tape, cfg.Rate, w.start, cfg.Seed)
	return w
}

// counts reports whether a request that arrives then is one that counts.
func (w *world) counts(arrival mono.Time) bool { return arrival >= w.from && arrival < w.until }

// Dispatch implements engine.Sink: the batch goes to its GPU.
func (w *world) Dispatch(loop int, d *shard.Dispatch) {
	s, n := &w.sides[loop], len(d.Requests)
	sent := mono.Now()
	length := w.prof.Latency(n)
	start, end := w.gpus.run(int(d.GPU), sent, d.Exec, length)
	if !s.runs.Push(&run{d.Batch, start, end, int32(n)}) {
		s.lost = true
	}
	if w.counts(sent) {
		s.batches++
		s.requests += uint64(n)
		s.busy += length
	}
	// In order of deadlines, which is that of arrivals: the first and the last
	// decide for all, almost always.
	if r := d.Requests; r[0].Deadline >= end && w.counts(r[0].Arrival) && w.counts(r[n-1].Arrival) {
		s.ok += uint64(n)
		return
	}
	for i := range d.Requests {
		switch r := &d.Requests[i]; {
		case !w.counts(r.Arrival):
		case r.Deadline < end:
			s.late++
		default:
			s.ok++
		}
	}
}

// Drop implements engine.Sink.
func (w *world) Drop(loop int, d *batching.Drop) {
	s := &w.sides[loop]
	s.dropped.Add(1)
	if w.counts(d.Request.Arrival) {
		s.drops[d.Reason]++
	}
}

// Completed implements engine.Sink.
func (w *world) Completed(int, *shard.Run, *engine.Done) {}

// Flush implements engine.Sink.
func (w *world) Flush(int) {}

// turnMax bounds the requests of a turn, so that ends are not late behind what a
// stall has left.
const turnMax = 2048

// drainMax is how much longer than the SLO the world waits for the last answers.
const drainMax = 2 * mono.Second

// run offers the requests and ends the batches until all have an answer.
func (w *world) run() {
	ring.Lock()
	w.thread = ring.Thread()
	offering := true
	for {
		now := mono.Now()
		w.turns++
		w.endRuns(now)
		if w.offer(now); offering {
			offering = w.source.next < w.until && now < w.until.Add(w.cfg.SLO) && w.ctx.Err() == nil
			if !offering {
				w.unsentRest(now)
				w.stopped.Store(int64(now))
			}
		}
		if !offering && (w.waitingFor() == 0 || now > mono.Time(w.stopped.Load()).Add(w.cfg.SLO+drainMax)) || w.failed != nil {
			break
		}
		w.sleep(now)
	}
	w.clearDesks()
}

// unsentRest counts what the scheduler would not take in time. An interrupted run
// has none: what it did not offer was never asked.
func (w *world) unsentRest(now mono.Time) {
	for ; w.source.next < min(w.until, now); w.source.advance() {
		if w.counts(w.source.next) {
			w.unsent++
		}
	}
}

// endRuns reports the batches that are over.
func (w *world) endRuns(now mono.Time) {
	var r run
	for i := range w.sides {
		for w.sides[i].runs.Pop(&r) {
			if !w.wheel.add(&r) {
				w.failed = fmt.Errorf("more than %d batches on %d GPUs", len(w.wheel.runs), w.cfg.GPUs)
				return
			}
		}
	}
	w.wheel.due(now, func(r *run) {
		w.answered += uint64(r.size)
		w.engine.Done(engine.Done{Batch: r.batch, Start: r.start, End: r.end, Ran: int(r.size)})
	})
}

// offer hands in what is due. A request that the engine's ring has no room for
// stays on its loop's desk, with its stamp, as it would in a frontend; the others
// behind it wait, too.
func (w *world) offer(now mono.Time) {
	s := w.source
	if s.next <= now && w.counts(now) {
		w.lag.Add(now.Sub(s.next))
	}
	for n := 0; n < turnMax && s.next <= now && w.open(s.next) && w.put(s, w.offeredN+1); n++ {
		w.offeredN++
		if w.counts(s.next) {
			w.offered++
		}
		s.advance()
	}
	for i := range w.desks {
		w.hand(i)
	}
	w.progress.Store(w.offeredN)
}

// open reports whether requests of that instant are offered at all.
func (w *world) open(at mono.Time) bool { return at < w.until && w.stopped.Load() == 0 }

// clearDesks counts what the engine did not take to the end.
func (w *world) clearDesks() {
	for i := range w.desks {
		for _, s := range w.desks[i].waiting {
			if w.counts(s.Request.Arrival) {
				w.offered--
				w.unsent++
			}
		}
	}
}

func requestID(n uint64) wire.RequestID { return wire.RequestID(n) }

// waitingFor is how many requests have no answer yet.
func (w *world) waitingFor() uint64 {
	n := w.offeredN - w.answered
	for i := range w.sides {
		n -= w.sides[i].dropped.Load()
	}
	return n
}

// sleep ends the turn. Orders reach the world only when it looks, so it looks at
// least twice a millisecond: no batch is shorter than it seems by that, for its
// end was computed when it was sent.
func (w *world) sleep(now mono.Time) {
	w.waiter.Arm()
	until := min(w.source.next, now.Add(500*mono.Microsecond))
	w.waiter.Wait(max(until, now.Add(w.cfg.Quantum)))
}
