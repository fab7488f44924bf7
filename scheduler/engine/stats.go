package engine

import (
	"math"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/histogram"
	"github.com/symphony-serving/symphony/transport/mono"
)

// loopStats are a loop's counters: written by the loop (full by submitters),
// read by anybody.
type loopStats struct {
	turns, requests, dispatches, drops, lost, full, moved, burstMax atomic.Uint64
	busy, reckoned                                                  atomic.Int64 // ns

	thread atomic.Int64

	need   atomic.Uint64 // of the rank loop: bits of a float64, told at needAt
	needAt atomic.Int64
	kept   atomic.Int64 // likewise: below which id GPUs may take early batches

	late, formed histogram.Histogram
}

// took notes the size of a burst.
func (c *loopStats) took(n int) {
	if uint64(n) > c.burstMax.Load() {
		c.burstMax.Store(uint64(n))
	}
}

// LoopStats is a snapshot of a loop's counters.
type LoopStats struct {
	Turns      uint64
	Requests   uint64 // requests that left in batches
	Dispatches uint64 // batches; for the rank loop: grants
	Drops      uint64
	Moved      uint64 // requests that went on to another engine
	Full       uint64 // Submits refused
	BurstMax   uint64 // most inputs of one ring in one turn
	Wakes      uint64 // sleeps ended by others
	Waiting    int    // inputs in the rings now
	Used       int    // requests queued or running
	Busy       mono.Dur
	Thread     int      // the kernel's number of its thread
	Reckoned   mono.Dur // of model loops: the lateness that batches are planned with (batching.Delay.Late)
	// Late is how long after it was due a grant left the rank loop (rank.Grant: by its
	// candidate's Exec), or a batch the model loop (shard.Dispatch: by its requests, too).
	// Formed, of model loops: from a request's arrival until its model had a candidate
	// with it; one request in eight is timed.
	Late, Formed histogram.Counts
}

// Stats is a snapshot of the engine.
type Stats struct {
	Models []LoopStats // per model loop
	Rank   LoopStats
	// Need is the GPUs that deferral alone would keep busy with what arrived lately
	// (rank.Rank.Need); 0 when nothing has run for needSilence.
	Need float64
	// Kept is below which id GPUs may take batches early (rank.Headroom), at the last look.
	Kept int
	// FetchBase and FetchPerMiB are what batches' inputs took to reach the backends: what
	// each pays (median), and what each MiB takes beyond.
	FetchBase, FetchPerMiB mono.Dur
	Paging                 *PagingStats // nil: all models are on all GPUs
}

// Stats takes a snapshot.
func (e *Engine) Stats() Stats {
	var s Stats
	for _, l := range e.loops {
		n := l.stats.snapshot()
		n.Waiting, n.Used, n.Wakes = l.requests.Len()+l.commands.Len(), int(l.used.Load()), l.rider.wakes()
		s.Models = append(s.Models, n)
	}
	s.Rank = e.rank.stats.snapshot()
	s.Rank.Waiting, s.Rank.Wakes = e.rank.events.Len(), e.rank.rider.wakes()
	s.Need = e.rank.stats.needBy(mono.Now())
	s.Kept = int(e.rank.stats.kept.Load())
	s.FetchBase, s.FetchPerMiB = e.fetches.bounds()
	if p := e.rank.paging; p != nil {
		paging := p.stats.snapshot()
		s.Paging = &paging
	}
	return s
}

// Glance is what is looked at often of an engine: Stats has pages of counts beside it.
type Glance struct {
	Need float64 // as Stats has it
	Kept int     // likewise
	Used int     // requests queued or running
}

// Glance is the engine as it is now.
func (e *Engine) Glance() Glance {
	g := Glance{Need: e.rank.stats.needBy(mono.Now()), Kept: int(e.rank.stats.kept.Load())}
	for _, l := range e.loops {
		g.Used += int(l.used.Load())
	}
	return g
}

// needSilence is how long the need holds when the rank loop has nothing to do: as long as
// the rank remembers a model that runs nothing.
const needSilence = 10 * mono.Second

func (c *loopStats) needBy(now mono.Time) float64 {
	if now.Sub(mono.Time(c.needAt.Load())) > needSilence {
		return 0
	}
	return math.Float64frombits(c.need.Load())
}

func (c *loopStats) snapshot() LoopStats {
	return LoopStats{Turns: c.turns.Load(), Requests: c.requests.Load(), Dispatches: c.dispatches.Load(), Drops: c.drops.Load(),
		Full: c.full.Load(), Moved: c.moved.Load(), BurstMax: c.burstMax.Load(), Busy: mono.Dur(c.busy.Load()), Thread: int(c.thread.Load()), Reckoned: mono.Dur(c.reckoned.Load()), Late: c.late.Snapshot(), Formed: c.formed.Snapshot()}
}
