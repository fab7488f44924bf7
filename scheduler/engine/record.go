package engine

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Recording is the log of a live run: for each loop its inputs in order, each
// with the loop's clock, and what the core decided. Replay feeds the inputs
// to bare cores and demands the same decisions: what is simulated is what
// serves. A nil Recording records nothing.
//
// Each loop writes its own log, without a lock, in chunks that are never moved:
// minutes at hundreds of thousands of requests a second can be recorded. A
// request takes 80 bytes, a turn or a batch some 300.
type Recording struct {
	models []*modelLog
	ranks  *rankLog
}

// NewRecording makes an empty log, for one engine.
func NewRecording() *Recording { return &Recording{} }

// loop is the log of model loop i; nil when nothing is recorded.
func (r *Recording) loop(i int, serial uint64) *modelLog {
	if r == nil {
		return nil
	}
	for len(r.models) <= i {
		r.models = append(r.models, &modelLog{})
	}
	r.models[i].serial = serial
	return r.models[i]
}

// rank is the rank loop's log.
func (r *Recording) rank(serial uint64) *rankLog {
	if r == nil {
		return nil
	}
	r.ranks = &rankLog{serial: serial}
	return r.ranks
}

// modelLog is what one model loop's core was given, and what it decided.
type modelLog struct {
	submissions chunks[Submission]
	inputs      chunks[modelRecord]
	fresh       int // submissions since the last input
	serial      uint64
}

// modelRecord is one input, the submissions that came just before it, and what
// came of all of them.
type modelRecord struct {
	now         mono.Time
	submissions int
	in          input
	dispatches  []dispatched
	drops       int
	moved       uint64 // a sum of the requests in shard.Out.Moved
}

// dispatched is a shard.Dispatch to compare: of its requests their number and a
// sum of all that is in them.
type dispatched struct {
	batch       wire.BatchID
	model       wire.ModelID
	gpu         wire.GPUID
	life        rank.Life
	exec, until mono.Time
	size        int
	requests    uint64
}

func (l *modelLog) submission(s *Submission) {
	if l != nil {
		l.submissions.add(s)
		l.fresh++
	}
}

func (l *modelLog) input(now mono.Time, in *input, out *shard.Out) {
	if l != nil {
		l.inputs.add(&modelRecord{now, l.fresh, *in, appendDispatched(nil, out.Dispatches), len(out.Drops), sumMoved(out.Moved)})
		l.fresh = 0
	}
}

func appendDispatched(dst []dispatched, ds []shard.Dispatch) []dispatched {
	for i := range ds {
		d := &ds[i]
		sum := uint64(14695981039346656037)
		for k := range d.Requests {
			sum = mix(sum, &d.Requests[k])
		}
		dst = append(dst, dispatched{d.Batch, d.Model, d.GPU, d.Life, d.Exec, d.Until, len(d.Requests), sum})
	}
	return dst
}

// sumMoved tells lists of requests apart.
func sumMoved(moved []shard.Moved) (sum uint64) {
	for i := range moved {
		sum = mix(sum^uint64(moved[i].Model), &moved[i].Request) + 1
	}
	return sum
}

// mix adds a request to a sum that tells orders apart (FNV-1a by words).
func mix(sum uint64, r *batching.Request) uint64 {
	for _, v := range [...]uint64{uint64(r.ID), uint64(r.Frontend), uint64(r.Arrival), uint64(r.Deadline), uint64(r.Input.Handle), uint64(r.Input.Length), uint64(r.Priority) | uint64(r.Class)<<8 | uint64(r.Suspicion)<<16} {
		sum = (sum ^ v) * 1099511628211
	}
	return sum
}

// rankLog is the same of the rank loop: events, and steps with their grants.
type rankLog struct {
	records chunks[rankRecord]
	serial  uint64
}

type rankRecord struct {
	now    mono.Time
	step   bool
	ev     rankEvent
	mail   *mail
	wants  *wants // with mail, in a paged engine
	grants []rank.Grant
	effort *effortNews  // in the place of ev
	lent   []gaps.Grant // what the step before it lent; else nil
	orders *paged.Out   // all that the step decided, in a paged engine
}

func (l *rankLog) event(now mono.Time, ev *rankEvent, m *mail, w *wants) {
	if l == nil {
		return
	}
	if m != nil {
		copied := *m
		m = &copied
	}
	if w != nil {
		copied := *w
		w = &copied
	}
	r := rankRecord{now: now, ev: *ev, mail: m, wants: w}
	r.ev.box = nil // the log keeps what was in it
	l.records.add(&r)
}

func (l *rankLog) step(now mono.Time, grants []rank.Grant) {
	if l != nil {
		l.records.add(&rankRecord{now: now, step: true, grants: slices.Clone(grants)})
	}
}

// stepPaged is step in a paged engine.
func (l *rankLog) stepPaged(now mono.Time, out *paged.Out) {
	if l != nil {
		l.records.add(&rankRecord{now: now, step: true, orders: &paged.Out{Grants: slices.Clone(out.Grants),
			Unloads: slices.Clone(out.Unloads), Loads: slices.Clone(out.Loads), Floors: slices.Clone(out.Floors), Fills: slices.Clone(out.Fills)}})
	}
}

// chunks is a list that grows without moving what it holds.
type chunks[T any] struct{ list [][]T }

const chunkSize = 1 << 14

func (c *chunks[T]) add(v *T) {
	last := len(c.list) - 1
	if last < 0 || len(c.list[last]) == chunkSize {
		c.list = append(c.list, make([]T, 0, chunkSize))
		last++
	}
	c.list[last] = append(c.list[last], *v)
}

func (c *chunks[T]) at(i int) *T { return &c.list[i/chunkSize][i%chunkSize] }

func (c *chunks[T]) len() int {
	if len(c.list) == 0 {
		return 0
	}
	return (len(c.list)-1)*chunkSize + len(c.list[len(c.list)-1])
}
